"""What every core promises: the same five calls, written for one stream; and what it may promise.

T steps, D_in input width, D_out output width.

    state = core.initial_state()
    y, state = core.step(x, state, reset=...)          x: [D_in] -> y: [D_out]
    ys, state = core.unroll(xs, state, resets=...)     xs: [T, D_in] -> ys: [T, D_out]
    fast = core.prepare(state)                         worth it for many steps under the same weights
    state = core.plain(fast)

1. `unroll` equals T calls of `step`, to rounding: for any T, any chunking, any resets, and whether or not the state
   was prepared.
2. `reset` is true on the first step of an episode. Nothing before it has any influence on it or on what follows, be it finite
   or not.
3. A state is data: fixed shapes, no gradient flows into it. Learning goes through the segment given to `unroll`.
4. A plain state stays right when the weights change. A prepared one belongs to the weights that prepared it.

Many streams: `jax.vmap`, or `gtrxl.Streams`, which is the same and shares what the streams have in common.
`gtrxl.testing.check_core` runs these promises on any core.

A core may have a loss of its own: what it predicts. B streams, T steps; an update adds the loss to any learner's.

    core = core.observing(observed, key=key)                 told once what the agent sees and does: to make its decoders
    ys, states, said = core.predict(xs, states, resets)      `unroll` of B streams, and what the core says of every step
    losses = core.prediction_losses(said, happened)          by name, [B, T] each: of every step, what it said being wrong

Acting never asks for it. Such a core may keep the outputs' gradient from its inputs; then what it says must carry it.

A core need not build on `Core`: an object with `initial_state`, `step` and `unroll` is one. What else a core may have (`prepare`
and `plain`, the calls for many streams at once, `openness`, `history`, predictions) `Core` gives to all, and `offered` finds for
any.
"""

import abc
import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gtrxl.cores.errors import CoreError
from gtrxl.cores.inputs import check_state, check_step, check_unroll

State = Any
"""A pytree of arrays with fixed shapes; each core has its own named record."""

CALLS = ("initial_state", "step", "unroll")
"""What an object must have to be a core."""

DTYPES = {name: jnp.dtype(name) for name in ("float32", "bfloat16")}


@dataclasses.dataclass(frozen=True)
class Observed:
    """What an agent sees and does at every step, as sizes: what a core may predict. Texts are not among it."""

    vector: int = 0
    """Numbers, measured ones at a common size."""
    images: tuple[tuple[str, tuple[int, int, int]], ...] = ()
    """Pictures by name: height, width, colours."""
    choices: tuple[int, ...] = ()
    """Of an action: how many values each of its choices has."""
    numbers: int = 0
    """Of an action: how many numbers it has."""


class Happened(eqx.Module):
    """The same as arrays, of T steps of B streams, with what came of it: what predictions are held against.

    O, K, A are the sizes of `Observed`. A step that is not `valid` counts in no loss, whatever is said of it.
    """

    vector: Float[Array, "B T O"]
    images: dict[str, UInt8[Array, "B T _ _ _"]]
    choices: Int[Array, "B T K"]
    numbers: Float[Array, "B T A"]
    """Choices and numbers are of the action that follows the observation, as are the reward and the return."""
    reward: Float[Array, "B T"]
    returns: Float[Array, "B T"]
    """What the learner trains the value towards, at the value's own size (PopArt's)."""
    reset: Bool[Array, "B T"]
    valid: Bool[Array, "B T"]


class Core(eqx.Module):
    """The base of every core. A subclass writes `_step` and `_unroll`; inputs are checked here, once (`gtrxl.cores.inputs`)."""

    input_size: eqx.AbstractVar[int]
    output_size: eqx.AbstractVar[int]

    @abc.abstractmethod
    def initial_state(self) -> State:
        """The state of a stream that has seen nothing."""

    @abc.abstractmethod
    def _step(self, x: Float[Array, " D_in"], state: State, reset: Bool[Array, ""]) -> tuple[Array, State]: ...

    @abc.abstractmethod
    def _unroll(self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]) -> tuple[Array, State]: ...

    def step(self, x: Array, state: State, *, reset: Array | bool) -> tuple[Array, State]:
        """One step of one stream: `x [D_in]` -> `y [D_out]` and the next state.

        `reset` is true when `x` is the first input of an episode. Takes plain and prepared states.
        """
        x, reset = jnp.asarray(x), jnp.asarray(reset)
        check_step(self, x, reset)
        check_state(self, state, lambda state: self.prepare(state))
        return self._step(x, jax.lax.stop_gradient(state), reset)

    def unroll(self, xs: Array, state: State, *, resets: Array) -> tuple[Array, State]:
        """T steps of one stream: `xs [T, D_in]` -> `ys [T, D_out]` and the state after them.

        `resets [T]` is true where an episode starts. The state is taken as a constant; gradients flow through all T steps.
        """
        xs, resets = jnp.asarray(xs), jnp.asarray(resets)
        check_unroll(self, xs, resets)
        check_state(self, state, lambda state: self.prepare(state))
        return self._unroll(xs, jax.lax.stop_gradient(self.plain(state)), resets)

    def prepare(self, state: State) -> State:
        """The state with what these weights allow to be computed once. Stepping it gives the same numbers, faster."""
        return state

    def plain(self, state: State) -> State:
        """A state without what `prepare` added: right under any weights, and what checkpoints and unrolls carry."""
        return state

    # For B streams, which the states carry in front. A core that can share work among streams writes its own.

    def step_streams(
        self, x: Float[Array, "B D_in"], states: State, reset: Bool[Array, " B"]
    ) -> tuple[Float[Array, "B D_out"], State]:
        """`step` of every stream; takes what `prepare_streams` gave, too."""
        return jax.vmap(lambda x, state, reset: self.step(x, state, reset=reset))(x, states, reset)

    def unroll_streams(
        self, xs: Float[Array, "B T D_in"], states: State, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State]:
        """`unroll` of every stream, from plain states."""
        return jax.vmap(lambda xs, state, resets: self.unroll(xs, state, resets=resets))(xs, states, resets)

    def prepare_streams(self, states: State, *, size: int) -> State:
        """`prepare` of every stream. `size` is B, which states without arrays cannot tell."""
        return jax.vmap(offered(self, "prepare"), axis_size=size)(states)

    def plain_streams(self, states: State, *, size: int) -> State:
        """`plain` of every stream."""
        return jax.vmap(offered(self, "plain"), axis_size=size)(states)

    # What a run asks of its core.

    def openness(self, xs: Float[Array, "B T D_in"], states: State, resets: Bool[Array, "B T"]) -> Float[Array, "L 2"] | None:
        """How far the two gates of each layer stand open on these steps: 0 passes the stream unchanged. None without gates."""
        del xs, states, resets
        return None

    def history(self, episode_steps: int) -> int:
        """How many of an episode's last steps make its state anew, exactly: of a core that may remember all, every one."""
        return episode_steps

    # What a core predicts, and its loss.

    def observing(self, observed: Observed, *, key: PRNGKeyArray) -> "Core":
        """The same core, with what it needs to predict these (its decoders); asked once, when an agent is made."""
        del observed, key
        return self

    def predict(
        self, xs: Float[Array, "B T D_in"], states: State, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State, Any]:
        """`unroll_streams`, and what the core says of every step: arrays with [B, T] in front, or None if it predicts nothing."""
        return *offered(self, "unroll_streams")(xs, states, resets), None

    def prediction_losses(self, said: Any, happened: Happened) -> dict[str, Float[Array, "B T"]]:
        """How wrong each step was, by what was predicted; their sum is what an update adds to the learner's loss."""
        del said, happened
        return {}


def offered(core: Any, name: str) -> Callable[..., Any]:
    """The core's own method of this name, or else what `Core` gives to every core."""
    own = getattr(core, name, None)
    return own if callable(own) else partial(getattr(Core, name), core)


def check_dtype(dtype: str) -> str:
    """Raise unless `dtype` is one that cores compute in."""
    if dtype not in DTYPES:
        raise CoreError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}; parameters stay float32 in both")
    return dtype
