"""Many streams at once: the calls of a core with a leading axis B, and what training asks of any core.

A core that can do better for many streams than `jax.vmap` says so by its methods (`gtrxl.cores.contract`): here nobody asks which
class it is, so a stranger's core is as good as ours.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gtrxl.cores.contract import Core, State, offered
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.inputs import check_state, check_step, check_unroll


class Streams(eqx.Module):
    """B streams of one core: `x [B, D_in]`, `reset [B]`, `xs [B, T, D_in]`, `resets [B, T]`; states carry B in front.

    streams = gtrxl.Streams(core, 64)
    state = streams.initial_state()
    fast = streams.prepare(state)
    y, fast = streams.step(x, fast, reset=reset)
    state = streams.plain(fast)
    """

    core: Any
    size: int = eqx.field(static=True)

    def __init__(self, core: Any, size: int):
        at_least("size", size, least=1, hint="it is the number of streams")
        self.core = core
        self.size = size

    @property
    def output_size(self) -> int:
        """The width of each stream's output."""
        return output_size(self.core)

    def initial_state(self) -> State:
        """The states of B streams that have seen nothing."""
        state = self.core.initial_state()
        return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (self.size, *jnp.shape(leaf))), state)

    def step(self, x: Float[Array, "B D_in"], state: State, *, reset: Bool[Array, " B"]) -> tuple[Array, State]:
        """One step of every stream."""
        x, reset = jnp.asarray(x), jnp.asarray(reset)
        check_step(self.core, x, reset, streams=self.size)
        return offered(self.core, "step_streams")(x, self._checked(state), reset)

    def unroll(
        self, xs: Float[Array, "B T D_in"], state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State]:
        """T steps of every stream."""
        xs, resets = jnp.asarray(xs), jnp.asarray(resets)
        check_unroll(self.core, xs, resets, streams=self.size)
        return offered(self.core, "unroll_streams")(xs, self.plain(state), resets)

    def predict(
        self, xs: Float[Array, "B T D_in"], state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State, Any]:
        """`unroll`, and what the core says of every step; None of a core that predicts nothing (`Core.predict`)."""
        xs, resets = jnp.asarray(xs), jnp.asarray(resets)
        check_unroll(self.core, xs, resets, streams=self.size)
        return offered(self.core, "predict")(xs, self.plain(state), resets)

    def prepare(self, state: State) -> State:
        """The states with what these weights allow to be computed once, shared where it is the same for all streams."""
        return offered(self.core, "prepare_streams")(self._checked(state), size=self.size)

    def plain(self, state: State) -> State:
        """The states alone, right under any weights."""
        return offered(self.core, "plain_streams")(self._checked(state), size=self.size)

    def _checked(self, state: State) -> State:
        prepare = lambda state: offered(self.core, "prepare_streams")(state, size=self.size)  # noqa: E731 (found if it is needed)
        check_state(self.core, state, prepare, streams=self.size)
        return state


def output_size(core: Any, input_size: int | None = None) -> int:
    """The width of any core's output: what it says, or what a step gives for an input of this width (or of its own)."""
    said = getattr(core, "output_size", None)
    if said is not None:
        return said
    width = getattr(core, "input_size", None) if input_size is None else input_size
    if width is None:
        raise CoreError(
            f"{type(core).__name__} says neither its output_size nor its input_size; "
            "give it one of them, or call gtrxl.cores.streams.output_size(core, input_size)"
        )
    x, reset = jax.ShapeDtypeStruct((width,), jnp.float32), jax.ShapeDtypeStruct((), jnp.bool_)
    y, _ = jax.eval_shape(lambda x, reset: core.step(x, core.initial_state(), reset=reset), x, reset)
    if len(y.shape) != 1:
        raise CoreError(f"step must give y of shape [D_out] for one stream, got {list(y.shape)}; Streams add the axis of streams")
    return y.shape[0]


def openness(core: Any, xs: Float[Array, "B T D_in"], states: State, resets: Bool[Array, "B T"]) -> Float[Array, "L 2"] | None:
    """How far the gates of any core stand open on these steps (`Core.openness`); None for cores without gates."""
    return offered(core, "openness")(xs, states, resets)


def predicts(core: Any) -> bool:
    """Whether a core says something of its steps besides its outputs, and has a loss for it."""
    own = getattr(type(core), "predict", None)
    return own is not None and own is not Core.predict


def history(core: Any, episode_steps: int) -> int:
    """How many of an episode's last steps make any core's state anew, exactly (`Core.history`)."""
    return offered(core, "history")(episode_steps)
