"""What MERLIN and its control are made of: LSTM layers side by side, what makes keys, an MLP. L layers, W width, K keys."""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.contract import DTYPES, Core, State
from gtrxl.cores.layers import Linear, replaced, spoilt_rows, with_variance
from gtrxl.cores.recurrent import LSTMCell, LSTMState, since_reset

SMALL = 1e-2
"""Variance of what a last layer gives at first: small, so that prior and posterior begin near N(0, 1)."""


class MLP(eqx.Module):
    """Hidden layers with tanh, then a linear one."""

    hidden: tuple[Linear, ...]
    output: Linear

    def __init__(self, input_size: int, output_size: int, *, hidden: tuple[int, ...], key: PRNGKeyArray, last: float = 1.0):
        sizes = (input_size, *hidden)
        *keys, output_key = jax.random.split(key, len(sizes))
        self.hidden = tuple(
            with_variance(Linear(below, above, key=each), 1.0) for below, above, each in zip(sizes, hidden, keys, strict=False)
        )
        self.output = with_variance(Linear(sizes[-1], output_size, key=output_key), last)

    def __call__(self, x: Float[Array, "*n I"]) -> Float[Array, "*n O"]:
        """Of any number of steps."""
        for layer in self.hidden:
            x = jnp.tanh(layer(x))
        return self.output(x)


class Layers(eqx.Module):
    """LSTM layers, each above the one before and above the input; their outputs side by side."""

    cells: tuple[LSTMCell, ...]
    width: int = eqx.field(static=True)

    def __init__(self, input_size: int, width: int, layers: int, *, key: PRNGKeyArray):
        sizes = [input_size] + [input_size + width] * (layers - 1)
        self.cells = tuple(
            LSTMCell(size, width, key=each) for size, each in zip(sizes, jax.random.split(key, layers), strict=True)
        )
        self.width = width

    @property
    def output_size(self) -> int:
        """L W."""
        return len(self.cells) * self.width

    def zeros(self, dtype: jnp.dtype) -> LSTMState:
        """Before the first step."""
        zeros = jnp.zeros((len(self.cells), self.width), dtype)
        return LSTMState(hidden=zeros, cell=zeros)

    def __call__(self, x: Float[Array, " I"], state: LSTMState) -> tuple[Float[Array, " LW"], LSTMState]:
        """One step."""
        below, states = x, []
        for number, cell in enumerate(self.cells):
            seen = jnp.concatenate([x, below]) if number else below
            below, after = cell(cell.inputs(seen), jax.tree.map(lambda leaf, number=number: leaf[number], state))
            states.append(after)
        state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
        return state.hidden.reshape(-1), state


class Keys(eqx.Module):
    """K keys as wide as a row, and how much each insists, from an LSTM's output."""

    linear: Linear
    number: int = eqx.field(static=True)
    width: int = eqx.field(static=True)

    def __init__(self, input_size: int, width: int, number: int, *, key: PRNGKeyArray):
        self.linear = with_variance(Linear(input_size, number * (width + 1), key=key), 1.0)
        self.number, self.width = number, width

    def __call__(self, h: Float[Array, " H"]) -> tuple[Float[Array, "K W"], Float[Array, " K"]]:
        """Keys, and strengths above zero."""
        made = self.linear(h).reshape(self.number, self.width + 1)
        return made[:, :-1], jax.nn.softplus(made[:, -1])


class MemoryCore(Core):
    """A core that goes step by step from a state whose zeros are a fresh one.

    A subclass says what is known of all steps before the first (`_before`) and makes one step (`_advance`).
    """

    dtype: eqx.AbstractVar[str]

    @abc.abstractmethod
    def _before(self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]) -> Any:
        """What does not depend on the steps before: arrays with T in front."""

    @abc.abstractmethod
    def _advance(self, state: State, known: Any) -> tuple[State, tuple[Float[Array, " D_out"], Any]]:
        """One step within an episode: the next state, the output, what is said of the step."""

    def _run(
        self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D_out"], State, Any]:
        """T steps. What is not finite shows until the next reset, in outputs, state and what is said, and nowhere else."""
        xs = xs.astype(DTYPES[self.dtype])
        spoilt = spoilt_rows(xs)
        inputs = replaced(xs, spoilt, 0.0)
        floats = [leaf for leaf in jax.tree.leaves(state) if jnp.issubdtype(leaf.dtype, jnp.floating)]
        start = jnp.any(jnp.stack([jnp.any(spoilt_rows(leaf)) for leaf in floats]))
        spoilt = since_reset(spoilt, resets, start=start)

        def step(state: State, given: tuple[Any, Array]) -> tuple[State, tuple[Array, Any]]:
            known, anew = given
            return self._advance(jax.tree.map(lambda leaf: jnp.where(anew, jnp.zeros_like(leaf), leaf), state), known)

        state, (ys, said) = jax.lax.scan(step, state, (self._before(inputs, state, resets), resets | spoilt))
        ys, said = jax.tree.map(lambda leaf: replaced(leaf.astype(jnp.float32), spoilt, math.nan), (ys, said))
        return ys, jax.tree.map(lambda leaf: _not_finite(leaf, spoilt[-1]), state), said

    def _step(self, x: Float[Array, " D_in"], state: State, reset: Bool[Array, ""]) -> tuple[Float[Array, " D_out"], State]:
        ys, state, _ = self._run(x[None], state, reset[None])
        return ys[0], state

    def _unroll(
        self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D_out"], State]:
        ys, state, _ = self._run(xs, state, resets)
        return ys, state


def _not_finite(leaf: Array, spoilt: Bool[Array, ""]) -> Array:
    if not jnp.issubdtype(leaf.dtype, jnp.floating):
        return leaf
    return replaced(leaf.reshape(1, -1), spoilt[None], math.nan).reshape(leaf.shape)
