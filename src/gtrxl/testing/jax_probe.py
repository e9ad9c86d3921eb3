"""A core in JAX under test: the ways to run it. B streams, T steps, D_in input width."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.cores.contract import offered
from gtrxl.cores.streams import output_size, predicts
from gtrxl.testing.probe import Probe, Run

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


class JaxProbe(Probe):
    """A core for one stream, many of them by `vmap`."""

    ways: ClassVar[Mapping[str, Run]] = {"unroll": run_unroll, "step": run_steps, "prepared step": run_prepared}
    weightless: ClassVar[str] = "the core is not a pytree with floating arrays in it"

    def width_of_outputs(self, input_size: int) -> int:
        return output_size(self.core, input_size)

    def numpy(self, ys: Any) -> np.ndarray:
        return np.asarray(ys)

    def with_other_weights(self) -> Any:
        if not jax.tree.leaves(eqx.filter(self.core, eqx.is_inexact_array)):
            return None

        def moved(leaf: Any) -> Any:
            if not eqx.is_inexact_array(leaf):
                return leaf
            by = 1 + 0.1 * self.random.uniform(-1, 1, leaf.shape)
            return jnp.asarray(_wide(leaf) * by + 0.01 * self.normal(leaf.shape), leaf.dtype)

        return jax.tree.map(moved, self.core)

    def fresh(self) -> Any:
        state = self.core.initial_state()
        return jax.tree.map(lambda leaf: jnp.asarray(np.broadcast_to(leaf, (self.streams, *np.shape(leaf)))), state)

    def of_stream(self, stream: int, state: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[stream]), state)

    def leaves(self, state: Any) -> list[np.ndarray]:
        return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]

    def disturbed(self, state: Any) -> Any:
        def noisy(leaf: Any) -> Any:
            if not eqx.is_inexact_array(leaf):
                return leaf
            noise = self.normal(leaf.shape) + (1j * self.normal(leaf.shape) if jnp.iscomplexobj(leaf) else 0)
            return jnp.asarray(_wide(leaf) + 100 * noise, leaf.dtype)

        return jax.tree.map(noisy, state)

    def spoilt(self, state: Any) -> Any:
        return jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan) if eqx.is_inexact_array(leaf) else leaf, state)

    def alone(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> np.ndarray:
        return np.asarray(run_alone(self.core, xs, state, resets)[0])

    def states(self) -> Iterable[tuple[str, Any, Any, str]]:
        state, fast, _, unrolled, _, stepped, _, stepped_fast = self._traced()
        for what, after, before in (
            ("unroll", unrolled, state),
            ("step", stepped, state),
            ("a prepared step", stepped_fast, fast),
            ("plain(prepare(state))", jax.eval_shape(offered(self.core, "plain"), stepped_fast), state),
        ):
            words = f"the state was {_described(before)} and became {_described(after)}"
            yield what, _types(after), _types(before), words

    def shapes(self) -> Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        _, _, ys, _, y, _, y_fast, _ = self._traced()
        yield "step", tuple(y.shape), (self.output_size,)
        yield "a prepared step", tuple(y_fast.shape), (self.output_size,)
        yield "unroll", tuple(ys.shape), (self.steps, self.output_size)

    def _traced(self) -> tuple[Any, ...]:
        """A state, prepared too, and types and shapes of outputs and states of an unroll, a step, and a prepared step."""
        core = self.core
        state = jax.tree.map(jnp.asarray, core.initial_state())
        fast = jax.eval_shape(offered(core, "prepare"), state)

        def step(x: jax.Array, state: Any, reset: jax.Array) -> tuple[jax.Array, Any]:
            return core.step(x, state, reset=reset)

        unrolled = jax.eval_shape(
            lambda xs, state, resets: core.unroll(xs, state, resets=resets), self.xs[0], state, self.resets[0]
        )
        stepped = jax.eval_shape(step, self.xs[0, 0], state, self.resets[0, 0])
        return state, fast, *unrolled, *stepped, *jax.eval_shape(step, self.xs[0, 0], fast, self.resets[0, 0])

    def segment_gradients(
        self, xs: np.ndarray, state: Any, resets: np.ndarray, *, saying: np.ndarray | None = None
    ) -> tuple[bool, np.ndarray]:
        weight = self.weight if saying is None else saying
        gradients = segment_gradients(self.core, xs, state, resets, weight, said=saying is not None)
        finite = all(bool(np.all(np.isfinite(leaf))) for leaf in jax.tree.leaves(gradients))
        return finite, np.asarray(gradients[1])

    def state_gradients(self) -> Mapping[str, float] | None:
        state = self.of_stream(0, self.used())
        if not jax.tree.leaves(eqx.filter(state, eqx.is_inexact_array)):
            return None
        gradients = state_gradients(self.core, self.xs[0], state, self.no_resets[0])
        return {
            what: max((float(np.max(np.abs(leaf), initial=0.0)) for leaf in jax.tree.leaves(gradient)), default=0.0)
            for what, gradient in gradients.items()
        }

    def said(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> np.ndarray | None:
        return np.asarray(run_said(self.core, xs, state, resets)) if predicts(self.core) else None


def _types(tree: Any) -> Any:
    return jax.tree.structure(tree), [(tuple(leaf.shape), jnp.dtype(leaf.dtype)) for leaf in jax.tree.leaves(tree)]


def _described(tree: Any) -> str:
    return "{" + ", ".join(f"{leaf.dtype}{list(leaf.shape)}" for leaf in jax.tree.leaves(tree)) + "}"


def _wide(leaf: Any) -> np.ndarray:
    """In a type that NumPy computes in."""
    return np.asarray(leaf, np.complex64 if jnp.iscomplexobj(leaf) else np.float32)
