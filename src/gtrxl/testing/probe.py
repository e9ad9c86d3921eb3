"""A core under test: the ways to run it, and inputs, resets and states to try it on. B streams, T steps, D_in input width."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.cores.contract import offered
from gtrxl.cores.streams import output_size
from gtrxl.testing.promises import Check

CHUNK = 3
"""Segments are a multiple of this long, so that they can be cut into unrolls of one short length."""

Array = jax.Array | np.ndarray

# The ways to run a core. Compiled once for each length; the core is an argument, so that other weights compile nothing.


@eqx.filter_jit
def run_unroll(core: Any, xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
    """Many streams, one unroll each."""
    return jax.vmap(lambda xs, state, resets: core.unroll(xs, state, resets=resets))(xs, state, resets)


@eqx.filter_jit
def run_alone(core: Any, xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
    """One stream, one unroll."""
    return core.unroll(xs, state, resets=resets)


@eqx.filter_jit
def run_steps(core: Any, xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
    """Many streams, step by step."""

    def stream(xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
        return _scan_steps(core, xs, state, resets)

    return jax.vmap(stream)(xs, state, resets)


@eqx.filter_jit
def run_prepared(core: Any, xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
    """Many streams, step by step from prepared states."""

    def stream(xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
        ys, state = _scan_steps(core, xs, offered(core, "prepare")(state), resets)
        return ys, offered(core, "plain")(state)

    return jax.vmap(stream)(xs, state, resets)


def _scan_steps(core: Any, xs: Array, state: Any, resets: Array) -> tuple[jax.Array, Any]:
    def step(state: Any, of_step: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        y, state = core.step(of_step[0], state, reset=of_step[1])
        return state, y

    state, ys = jax.lax.scan(step, state, (jnp.asarray(xs), jnp.asarray(resets)))
    return ys, state


@eqx.filter_jit
def run_said(core: Any, xs: Array, state: Any, resets: Array) -> jax.Array:
    """What a core that predicts says of T steps of B streams, side by side: [B, T, .]."""
    said = jax.tree.leaves(core.predict(jnp.asarray(xs), state, jnp.asarray(resets))[2])
    return jnp.concatenate([leaf.reshape(*leaf.shape[:2], -1) for leaf in said], axis=-1)


@eqx.filter_jit
def segment_gradients(
    core: Any, xs: Array, state: Any, resets: Array, weight: Array, *, said: bool = False
) -> tuple[Any, jax.Array]:
    """Of weight . (the last output, or what is said of the last step), with respect to the core's arrays and to xs."""

    def score(learned: tuple[Any, Array]) -> jax.Array:
        core, xs = learned
        if said:
            alone = jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state)
            return jnp.sum(weight * run_said(core, jnp.asarray(xs)[None], alone, jnp.asarray(resets)[None])[0, -1])
        return jnp.sum(weight * core.unroll(xs, state, resets=resets)[0][-1])

    return eqx.filter_grad(score)((core, xs))


@eqx.filter_jit
def state_gradients(core: Any, xs: Array, state: Any, resets: Array) -> dict[str, Any]:
    """Of the sum of the outputs, with respect to the state, through each of the calls."""

    def through_unroll(state: Any) -> jax.Array:
        return jnp.sum(core.unroll(xs, state, resets=resets)[0])

    def through_step(state: Any) -> jax.Array:
        return jnp.sum(core.step(xs[0], state, reset=resets[0])[0])

    return {
        "through unroll": eqx.filter_grad(through_unroll)(state),
        "through step": eqx.filter_grad(through_step)(state),
        "through step, into a prepared state": eqx.filter_grad(through_step)(offered(core, "prepare")(state)),
    }


WAYS: dict[str, Callable[..., tuple[jax.Array, Any]]] = {"unroll": run_unroll, "step": run_steps, "prepared step": run_prepared}


class Probe:
    """A core with inputs, resets and states to try it on, and what was found."""

    streams = 4

    def __init__(self, core: Any, *, input_size: int, steps: int | None, key: jax.Array, tolerance: float):
        memory, layers = getattr(core, "memory", None), getattr(core, "layers", None)
        self.core = core
        self.tolerance = tolerance
        self.window = memory * layers if isinstance(memory, int) and isinstance(layers, int) else None
        enough = max(9, (self.window or 0) + 2) if steps is None else max(steps, 2 * CHUNK)
        self.steps = -(-enough // CHUNK) * CHUNK
        self.checks: list[Check] = []
        self.left_out: list[str] = []
        self.random = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        self.output_size = self.width_of_outputs(input_size)
        shape = (self.streams, self.steps, input_size)
        self.xs = self.normal(shape)
        self.next_xs = self.normal(shape)
        self.other_xs = 100 * self.normal(shape)
        self.weight = self.normal((self.output_size,))
        self.directions = self.normal(shape)
        self.other_core = self.with_other_weights()
        # Streams: no reset at all, one at the start, resets here and there, two in a row.
        resets = np.zeros(shape[:2], bool)
        resets[1, 0] = resets[2, 1] = resets[2, self.steps // 2] = resets[3, self.steps - 3] = resets[3, self.steps - 2] = True
        self.resets = resets
        self.no_resets = np.zeros(shape[:2], bool)

    def width_of_outputs(self, input_size: int) -> int:
        """As the core says it or a step shows it; of a core that cannot step, which the first check will tell, 1."""
        try:
            return output_size(self.core, input_size)
        except Exception:  # whatever the user's core raises is found again, and told, by the checks
            return 1

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.random.standard_normal(shape).astype(np.float32)

    def with_other_weights(self) -> Any:
        """The core with every floating array changed by about a tenth, zeros by a hundredth."""

        def moved(leaf: Any) -> Any:
            if not eqx.is_inexact_array(leaf):
                return leaf
            by = 1 + 0.1 * self.random.uniform(-1, 1, leaf.shape)
            return jnp.asarray(_wide(leaf) * by + 0.01 * self.normal(leaf.shape), leaf.dtype)

        return jax.tree.map(moved, self.core)

    def disturbed(self, state: Any) -> Any:
        """The state with large noise on every floating array."""

        def noisy(leaf: Any) -> Any:
            if not eqx.is_inexact_array(leaf):
                return leaf
            noise = self.normal(leaf.shape) + (1j * self.normal(leaf.shape) if jnp.iscomplexobj(leaf) else 0)
            return jnp.asarray(_wide(leaf) + 100 * noise, leaf.dtype)

        return jax.tree.map(noisy, state)

    def spoilt(self, state: Any) -> Any:
        """The state with nothing finite in its floating arrays."""
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan) if eqx.is_inexact_array(leaf) else leaf, state)

    def fresh(self) -> Any:
        state = self.core.initial_state()
        return jax.tree.map(lambda leaf: jnp.asarray(np.broadcast_to(leaf, (self.streams, *np.shape(leaf)))), state)

    def used(self) -> Any:
        """States after a segment, of different ages because of the resets."""
        return run_unroll(self.core, self.next_xs, self.fresh(), self.resets)[1]

    def of_stream(self, stream: int, state: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[stream]), state)

    def attempt(self, promise: str, check: Callable[["Probe"], None]) -> None:
        """Run a check; a core that raises has broken the promise that was being checked."""
        try:
            check(self)
        except Exception as error:  # whatever the user's core raises is a finding
            first = (str(error).strip().splitlines() or [""])[0]
            self.checks.append(Check(promise, "ran it", np.inf, 0.0, f"raised {type(error).__name__}: {first}"))

    def close(self, promise: str, what: str, ours: Any, theirs: Any) -> None:
        """Record how far apart two results are, as a share of the largest number."""
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        scale = max(float(np.max(np.abs(theirs))), 1e-6)
        self.checks.append(Check(promise, what, float(np.max(np.abs(ours - theirs))) / scale, self.tolerance))

    def same_bits(self, promise: str, what: str, ours: Any, theirs: Any) -> None:
        """Record how far apart two results are that must not differ at all."""
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        same = np.array_equal(ours, theirs)
        self.checks.append(
            Check(promise, what, 0.0 if same else float(np.max(np.abs(ours - theirs), initial=0.0)) or np.inf, 0.0)
        )

    def holds(self, promise: str, what: str, condition: bool, error: str) -> None:
        """Record something that is either so or not."""
        self.checks.append(Check(promise, what, 0.0 if condition else np.inf, 0.0, "" if condition else error))


def _wide(leaf: Any) -> np.ndarray:
    """In a type that NumPy computes in."""
    return np.asarray(leaf, np.complex64 if jnp.iscomplexobj(leaf) else np.float32)
