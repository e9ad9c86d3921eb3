"""A recurrence over a segment, with resets in the middle of it: step by step, or in log T rounds. T steps, B streams.

Any associative operation x * y becomes one that resets: (x, s) o (y, t) = (where(t, y, x * y), s or t). The state that is
carried into the segment is one more element in front, which resets nothing. What was before a reset is left out, not
multiplied by zero: it might not be finite.

On a CPU the loop is faster at every length that was tried (benchmarks/linear.py, docs/measurements.md): the rounds do the
same sums several times over, and their gradient more often. On devices where a step costs a launch the rounds are taken.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

State = Any
Times = Callable[[Any, Any], Any]
"""A product that is associative and distributes over sums: of two decays, or of a decay and a state."""


class Pair(eqx.Module):
    """Complex numbers as two real arrays: weights, checkpoints and vectors of a CPU know no other."""

    re: Float[Array, "..."]
    im: Float[Array, "..."]


def elementwise(kept: State, state: State) -> State:
    """The product of real numbers, in trees of arrays."""
    return jax.tree.map(jnp.multiply, kept, state)


def turned(kept: Pair, state: Pair) -> Pair:
    """The product of complex numbers."""
    return Pair(re=kept.re * state.re - kept.im * state.im, im=kept.re * state.im + kept.im * state.re)


def fresh(state: State, reset: Bool[Array, "*n"]) -> State:
    """The state, or zeros where an episode begins."""
    return jax.tree.map(lambda leaf: jnp.where(_along_first(reset, leaf), jnp.zeros((), leaf.dtype), leaf), state)


def loop(
    advance: Callable[[State, Any], State],
    read: Callable[[State, Any], Any],
    driven: Any,
    state: State,
    resets: Bool[Array, "T B"],
) -> tuple[Any, State]:
    """`state = advance(state, driven)` at each of T steps: what is read of it then, and the last one.

    `advance` and `read` are for one stream; `driven` has T and B in front, states have B.
    """

    def step(state: State, of_step: tuple[Any, Array]) -> tuple[State, Any]:
        driven, reset = of_step
        state = jax.vmap(advance)(fresh(state, reset), driven)
        return state, jax.vmap(read)(state, driven)

    state, reads = jax.lax.scan(step, state, (driven, resets))
    return reads, state


def rounds(times: Times, kept: State, written: State, state: State, resets: Bool[Array, "T B"]) -> State:
    """Every state of `state = kept * state + written`: the same as the loop, in log T rounds.

    `kept` and `written` have T and B in front. Two steps in a row are again one:
    (a, w) * (b, v) = (b a, b w + v).
    """
    first = jax.tree.map(lambda leaf: leaf[None], state)
    nothing = jax.tree.map(lambda leaf: jnp.zeros_like(leaf[:1]), kept)
    join = lambda one, rest: jax.tree.map(lambda a, b: jnp.concatenate([a, b]), one, rest)  # noqa: E731
    flags = jnp.concatenate([jnp.zeros_like(resets[:1]), resets])

    def both(one: tuple[State, State, Array], two: tuple[State, State, Array]) -> tuple[State, State, Array]:
        (a, w, s), (b, v, t) = one, two
        carried = jax.tree.map(jnp.add, times(b, w), v)
        return _where(t, b, times(b, a)), _where(t, v, carried), s | t

    _, states, _ = jax.lax.associative_scan(both, (join(nothing, kept), join(first, written), flags))
    return jax.tree.map(lambda leaf: leaf[1:], states)


def in_rounds() -> bool:
    """Whether rounds are the faster form here."""
    return jax.default_backend() != "cpu"


def _where(reset: Bool[Array, "*n"], one: State, other: State) -> State:
    return jax.tree.map(lambda a, b: jnp.where(_along_first(reset, b), a, b), one, other)


def _along_first(reset: Bool[Array, "*n"], leaf: Array) -> Array:
    """The flags with as many axes as an array whose first ones are theirs."""
    return reset.reshape(*reset.shape, *(1,) * (leaf.ndim - reset.ndim))
