"""A core of your own: the linear recurrent unit (LRU, Orvieto et al. 2023), in one file and trained like ours.

    python examples/own_core.py
    gtrxl train t-maze --core own_core:LRU --core-args width=64 --from examples --unroll 64 --learner.learning-rate 1e-3

A core writes three things: the state it begins with, one step, and many steps at once, which must come to the same.
`gtrxl.testing.check_core` says whether they do. What passes can be trained.

T steps, D_in input width, D width, N = D complex numbers that remember.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Complex, Float, PRNGKeyArray

import gtrxl
from gtrxl.testing import check_core


class LRUState(eqx.Module):
    """What is remembered."""

    h: Complex[Array, " N"]


class LRU(gtrxl.Core):
    """h_t = a * h_tm1 + g * (B x_t) with complex a inside the unit circle; y_t = x_t + (a gated map of Re(C h_t)).

    `gtrxl.Core` checks what comes in and keeps gradients out of the state. A plain `eqx.Module` with `initial_state`, `step` and
    `unroll` would be a core as well.
    """

    into: eqx.nn.Linear
    nu: Float[Array, " N"]
    theta: Float[Array, " N"]
    b: Float[Array, "2 N D"]
    c: Float[Array, "2 D N"]
    out: eqx.nn.Linear
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)

    def __init__(self, input_size: int, *, width: int = 64, shortest: float = 0.99, longest: float = 0.9999, key: PRNGKeyArray):
        into_key, ring_key, turn_key, b_key, c_key, out_key = jax.random.split(key, 6)
        self.into = eqx.nn.Linear(input_size, width, key=into_key)
        # Evenly over the ring between two radii: |a| = exp(-exp(nu)) is how much is kept from step to step.
        radius_2 = jax.random.uniform(ring_key, (width,), minval=shortest**2, maxval=longest**2)
        self.nu = jnp.log(-0.5 * jnp.log(radius_2))
        self.theta = jax.random.uniform(turn_key, (width,), maxval=jnp.pi / 10)
        # Weights stay real, in pairs: JAX's gradient by a complex number is the conjugate of what an optimiser should follow.
        self.b = jax.random.normal(b_key, (2, width, width)) / (2 * width) ** 0.5
        self.c = jax.random.normal(c_key, (2, width, width)) / width**0.5
        self.out = eqx.nn.Linear(width, 2 * width, key=out_key)
        self.input_size, self.output_size = input_size, width

    def initial_state(self) -> LRUState:
        """Nothing."""
        return LRUState(h=jnp.zeros(self.output_size, jnp.complex64))

    def _step(self, x: Float[Array, " D_in"], state: LRUState, reset: Bool[Array, ""]) -> tuple[Float[Array, " D"], LRUState]:
        """The recurrence as it is written."""
        u = self.into(x)
        h = jnp.where(reset, 0, self._kept() * state.h) + self._written(u)
        return self._read(u, h), LRUState(h)

    def _unroll(
        self, xs: Float[Array, "T D_in"], state: LRUState, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D"], LRUState]:
        """The same in log T rounds: two steps h -> a h + w in a row are again one. After a reset what was before is left out, not
        multiplied by 0: it might be nan."""
        us = jax.vmap(self.into)(xs)
        written = jax.vmap(self._written)(us)
        kept = jnp.broadcast_to(self._kept(), written.shape)
        written = written.at[0].add(jnp.where(resets[0], 0, kept[0] * state.h))

        def both(first: tuple[Array, Array, Array], second: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            begins, kept, written = second
            before = jnp.where(begins[:, None], 0, kept * first[2])
            return first[0] | begins, kept * first[1], before + written

        _, _, hs = jax.lax.associative_scan(both, (resets, kept, written))
        return jax.vmap(self._read)(us, hs), LRUState(hs[-1])

    def _kept(self) -> Complex[Array, " N"]:
        return jnp.exp(jax.lax.complex(-jnp.exp(self.nu), self.theta))

    def _written(self, u: Float[Array, " D"]) -> Complex[Array, " N"]:
        share = jnp.sqrt(1 - jnp.exp(-2 * jnp.exp(self.nu)))  # so that slow units do not grow larger than fast ones
        return share * jax.lax.complex(self.b[0] @ u, self.b[1] @ u)

    def _read(self, u: Float[Array, " D"], h: Complex[Array, " N"]) -> Float[Array, " D"]:
        y = self.c[0] @ h.real - self.c[1] @ h.imag
        content, gate = jnp.split(self.out(jax.nn.gelu(y)), 2)
        return u + content * jax.nn.sigmoid(gate)


def main(*, task: str = "t-maze", width: int = 64, **changes: Any) -> gtrxl.Run:
    """Checks the core, trains it, and says how well it remembers."""
    check_core(LRU(8, width=6, key=jax.random.key(0)))
    run = gtrxl.train(core=LRU, core_args={"width": width}, task=task, **changes)
    score = gtrxl.evaluate(run.folder, core=LRU)  # a class of a script cannot be imported again, so it is given again
    print(f"an LRU of {width} units: mean return {score.mean_return:.2f} in {score.task}; 0.5 needs no memory, 1 is all")
    return run


if __name__ == "__main__":
    # 64 steps of learning at once: the sign is 40 steps before the turn that pays, and gradients must reach it.
    main(steps=500_000, unroll=64, learner={"learning_rate": 1e-3})
