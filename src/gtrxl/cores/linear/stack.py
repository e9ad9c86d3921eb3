"""What all linear cores share: an embedding and a stack of layers whose memory is a recurrence. T steps, B streams, D width.

A layer says what it computes of its input alone (`drive`, for all steps at once), how its state goes on (`advance`, one
step of one stream), what is read of it (`read`), and what leaves the layer (`leave`, again for all steps at once). So a
step is a step, with no scan around it, and a segment is two large products with a light loop between them. The recurrence
is computed in float32 whatever the products are computed in: bfloat16 cannot tell a decay of 0.999 from 1.

What is not finite is dealt with here once, for every core: it spoils the steps that see it until the next reset, and
nothing else.
"""

import abc
import math
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.contract import DTYPES, Core, check_dtype
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.layers import NORM_EPSILON, Linear, replaced, spoilt_rows
from gtrxl.cores.linear import scan
from gtrxl.cores.linear.scan import State


class Layer(eqx.Module):
    """One layer. Its state is a record of float32 arrays, zeros at the start of an episode."""

    @abc.abstractmethod
    def initial_state(self) -> State:
        """Zeros."""

    @abc.abstractmethod
    def drive(self, x: Float[Array, "*n D"]) -> Any:
        """What the input alone decides, for any number of steps at once."""

    def ready(self) -> Any:
        """What the weights alone decide: computed once for all steps of a segment."""
        return None

    @abc.abstractmethod
    def advance(self, state: State, driven: Any, ready: Any) -> State:
        """The next state of one stream."""

    def read(self, state: State, driven: Any) -> Any:
        """What one stream's output needs of its state: all of it, unless less will do."""
        del driven
        return state

    @abc.abstractmethod
    def leave(self, x: Float[Array, "*n D"], read: Any, driven: Any) -> Float[Array, "*n D"]:
        """What goes on to the next layer, the residual sum included, for any number of steps at once."""

    def step(self, x: Float[Array, " D"], state: State) -> tuple[Float[Array, " D"], State]:
        """One step of one stream, from a state that is already fresh where it must be."""
        driven = self.drive(x)
        state = self.advance(state, driven, self.ready())
        return self.leave(x, self.read(state, driven), driven), state

    def unroll(self, xs: Float[Array, "T B D"], state: State, resets: Bool[Array, "T B"]) -> tuple[Float[Array, "T B D"], State]:
        """T steps of B streams."""
        driven = self.drive(xs)
        reads, state = self.run(driven, state, resets)
        return self.leave(xs, reads, driven), state

    def run(self, driven: Any, state: State, resets: Bool[Array, "T B"]) -> tuple[Any, State]:
        """The recurrence over a segment: what is read at every step, and the last state."""
        ready = self.ready()
        return scan.loop(lambda state, driven: self.advance(state, driven, ready), self.read, driven, state, resets)


class Decaying(Layer):
    """A layer whose state is `kept * state + written`, both decided by the input: it can be computed in rounds, too."""

    @abc.abstractmethod
    def kept(self, driven: Any, ready: Any) -> State:
        """What the state is multiplied by, for one step of one stream."""

    @abc.abstractmethod
    def written(self, driven: Any) -> State:
        """What is added to it."""

    @staticmethod
    def times(kept: State, state: State) -> State:
        """The product of the two; of complex numbers `scan.turned`."""
        return scan.elementwise(kept, state)

    def advance(self, state: State, driven: Any, ready: Any) -> State:
        """kept * state + written."""
        return jax.tree.map(jnp.add, self.times(self.kept(driven, ready), state), self.written(driven))

    def run(self, driven: Any, state: State, resets: Bool[Array, "T B"]) -> tuple[Any, State]:
        """In whichever form is faster here."""
        if not scan.in_rounds():
            return super().run(driven, state, resets)
        over = lambda one: jax.vmap(jax.vmap(one))  # noqa: E731
        ready = self.ready()
        kept = over(lambda driven: self.kept(driven, ready))(driven)
        states = scan.rounds(self.times, kept, over(self.written)(driven), state, resets)
        return over(self.read)(states, driven), jax.tree.map(lambda leaf: leaf[-1], states)


class StackState(eqx.Module):
    """The states of the layers, the first one first."""

    layers: tuple[Any, ...]


class Stack(Core):
    """A linear embedding and layers above it. A core's own class says which layers, and what they are made with."""

    embed: Linear
    layers: tuple[Layer, ...]
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def _build(
        self,
        input_size: int,
        d_model: int,
        layers: int,
        dtype: str,
        make: Callable[[PRNGKeyArray], Layer],
        key: PRNGKeyArray,
    ) -> None:
        """What every subclass's `__init__` ends with."""
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer; 128 learns on a CPU")
        at_least("layers", layers, least=1, hint="for no memory at all use the core 'none'")
        embed_key, *layer_keys = jax.random.split(key, layers + 1)
        self.embed = Linear(input_size, d_model, key=embed_key)
        self.layers = tuple(make(layer_key) for layer_key in layer_keys)
        self.input_size = input_size
        self.output_size = d_model
        self.dtype = check_dtype(dtype)

    def initial_state(self) -> StackState:
        """Zeros."""
        return StackState(tuple(layer.initial_state() for layer in self.layers))

    def _step(self, x: Float[Array, " D_in"], state: StackState, reset: Bool[Array, ""]) -> tuple[Float[Array, " D"], StackState]:
        x = x.astype(DTYPES[self.dtype])
        bad = spoilt_rows(x)
        worn = _spoilt(state) & ~reset
        y = self.embed(replaced(x, bad, 0.0))
        after = []
        for layer, of_layer in zip(self.layers, state.layers, strict=True):
            y, of_layer = layer.step(y, scan.fresh(of_layer, reset | worn))
            after.append(of_layer)
        spoilt = bad | worn
        return replaced(y.astype(jnp.float32), spoilt, math.nan), _spoil(StackState(tuple(after)), spoilt)

    def _unroll(
        self, xs: Float[Array, "T D_in"], state: StackState, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D"], StackState]:
        ys, states = self._unroll_streams(xs[:, None], jax.tree.map(lambda leaf: leaf[None], state), resets[:, None])
        return ys[:, 0], jax.tree.map(lambda leaf: leaf[0], states)

    def unroll_streams(
        self, xs: Float[Array, "B T D_in"], states: StackState, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D"], StackState]:
        """`unroll` of B streams: every product takes all steps of all streams at once."""
        ys, states = self._unroll_streams(jnp.swapaxes(xs, 0, 1), jax.lax.stop_gradient(states), resets.T)
        return jnp.swapaxes(ys, 0, 1), states

    def _unroll_streams(
        self, xs: Float[Array, "T B D_in"], states: StackState, resets: Bool[Array, "T B"]
    ) -> tuple[Float[Array, "T B D"], StackState]:
        xs = xs.astype(DTYPES[self.dtype])
        bad, worn = spoilt_rows(xs), jax.vmap(_spoilt)(states)
        spoilt = _since_reset(bad, resets, start=worn)
        ys = self.embed(replaced(xs, bad, 0.0))
        after = []
        for layer, of_layer in zip(self.layers, states.layers, strict=True):
            ys, of_layer = layer.unroll(ys, scan.fresh(of_layer, worn), resets)
            after.append(of_layer)
        return replaced(ys.astype(jnp.float32), spoilt, math.nan), jax.vmap(_spoil)(StackState(tuple(after)), spoilt[-1])


def half(d_model: int) -> int:
    """How many complex numbers are as many real ones as the width."""
    return max(1, d_model // 2)


def divided(d_model: int, heads: int) -> int:
    """The width of a head, if the heads divide the width."""
    at_least("heads", heads, least=1, hint="it is the number of states side by side; 4 is usual")
    if d_model % heads:
        raise CoreError(f"heads must divide d_model, got {heads} heads for {d_model}; change one of them")
    return d_model // heads


def unit_size(x: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
    """A mean square of 1 along the last axis: RMS norm before its scale."""
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + NORM_EPSILON)


def cuts(x: Float[Array, "*n D"], sizes: Sequence[int]) -> list[Array]:
    """The array cut along its last axis into parts of these sizes."""
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes) - 1)]
    return jnp.split(x, ends, axis=-1)


def _since_reset(marked: Bool[Array, "T B"], resets: Bool[Array, "T B"], *, start: Bool[Array, " B"]) -> Bool[Array, "T B"]:
    """Which steps have a marked one in their episode, themselves or before; `start` marks what came before the first."""
    steps = jnp.arange(len(marked))[:, None]
    newest = jax.lax.cummax(jnp.where(marked, steps, jnp.where(start, -1, -2)[None]))
    return newest >= jax.lax.cummax(jnp.where(resets, steps, -1))


def _spoilt(state: StackState) -> Bool[Array, ""]:
    """Whether anything in one stream's state is not finite."""
    # As products: XLA's CPU backend takes ten times as long to sum a matrix.
    flat = [leaf.reshape(-1, leaf.shape[-1] if leaf.ndim else 1) for leaf in jax.tree.leaves(state)]
    sums = [jnp.ones(len(leaf), leaf.dtype) @ leaf for leaf in flat]
    return ~jnp.all(jnp.stack([jnp.all(jnp.isfinite(each)) for each in sums]))


def _spoil(state: StackState, spoilt: Bool[Array, ""]) -> StackState:
    return jax.tree.map(lambda leaf: jnp.where(spoilt, math.nan, leaf), state)
