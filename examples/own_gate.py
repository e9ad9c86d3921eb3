"""A gate of your own in GTrXL: one number that says how much of a submodule's output joins the stream.

    python examples/own_gate.py
    gtrxl train t-maze --core own_gate:rezero --net.layers 2 --from examples

At first the number is 0 and every layer is the identity (ReZero, Bachlechner et al. 2020), which is what the paper's gates come
close to by their bias. The C++ library of this package leaves gates that it does not know to XLA.

D width.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

import gtrxl


class ReZero(gtrxl.Gate):
    """x + s * y with one number s that is learned."""

    about: ClassVar[str] = "one learned number before each sum"

    s: Float[Array, ""]

    def __init__(self, d_model: int, *, bias: float | None, key: PRNGKeyArray):
        del d_model, key
        self.s = jnp.float32(0.0 if bias is None else bias)

    def __call__(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """`skip` is the stream, `update` what attention or the MLP adds to it."""
        return skip + self.s.astype(skip.dtype) * update

    def opening(self, *, skip: Float[Array, "*n D"], update: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """What a run reports as the gate's openness: 0 passes the stream unchanged."""
        return jnp.full_like(skip, jnp.clip(jnp.abs(self.s), 0, 1))


def rezero(input_size: int, *, d_model: int = 64, layers: int = 2, memory: int = 64, key: PRNGKeyArray) -> gtrxl.Transformer:
    """A core is also what a function makes. Arguments that are called like sizes of --net get those."""
    return gtrxl.Transformer(input_size, gate=ReZero, d_model=d_model, layers=layers, memory=memory, key=key)


def main(*, task: str = "t-maze", **changes: Any) -> gtrxl.Run:
    """Trains from closed gates, and shows how far they have opened."""
    run = gtrxl.train(core=rezero, task=task, **changes)
    print(f"mean return {run.mean_return}; openness after attention and after the MLP:")
    for layer, (attention, mlp) in enumerate(run.rows[-1]["gate_openness"], 1):
        print(f"  layer {layer}: {attention:.3f}, {mlp:.3f}")
    return run


if __name__ == "__main__":
    main(steps=500_000)
