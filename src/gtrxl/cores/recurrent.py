"""The recurrent networks: LSTM and GRU, what the transformers are compared with. T steps, L layers, W width,
G = 4 W (LSTM) or 3 W (GRU), D_in input width.

With `skip=True` every layer also sees the core's input and the output is all layers' outputs side by side, as in the
paper's 3 x 256 LSTM. The input's share of each layer is one product for the whole segment; only the recurrent share is
computed step by step.
"""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.contract import DTYPES, Core, State, check_dtype
from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import Linear, replaced, spoilt_rows, uniform_init


class LSTMState(eqx.Module):
    """Hidden and cell vectors: of every layer, or of one."""

    hidden: Float[Array, "*L W"]
    cell: Float[Array, "*L W"]


class GRUState(eqx.Module):
    """The hidden vector: of every layer, or of one."""

    hidden: Float[Array, "*L W"]


class LSTMCell(eqx.Module):
    """One layer: i, f, g, o side by side; the forget gate starts one more open."""

    inputs: Linear
    recurrent: Float[Array, "W 4*W"]

    def __init__(self, input_size: int, width: int, *, key: PRNGKeyArray):
        input_key, recurrent_key = jax.random.split(key)
        linear = Linear(input_size, 4 * width, key=input_key)
        self.inputs = eqx.tree_at(lambda of: of.bias, linear, linear.bias.at[width : 2 * width].set(1.0))
        self.recurrent = uniform_init(recurrent_key, (width, 4 * width), fan_in=width)

    def __call__(self, driven: Float[Array, " G"], state: LSTMState) -> tuple[Float[Array, " W"], LSTMState]:
        """`driven` is the input's share of the four gates; `state` is this layer's."""
        dtype = driven.dtype
        i, f, g, o = jnp.split(driven + state.hidden @ self.recurrent.astype(dtype), 4)
        cell = jax.nn.sigmoid(f) * state.cell + jax.nn.sigmoid(i) * jnp.tanh(g)
        hidden = jax.nn.sigmoid(o) * jnp.tanh(cell)
        return hidden, LSTMState(hidden=hidden, cell=cell)


class GRUCell(eqx.Module):
    """One layer: r, z, and the candidate tanh(W x + U (r * h)), as in Cho et al. 2014."""

    inputs: Linear
    recurrent_rz: Float[Array, "W 2*W"]
    recurrent_g: Float[Array, "W W"]

    def __init__(self, input_size: int, width: int, *, key: PRNGKeyArray):
        input_key, rz_key, g_key = jax.random.split(key, 3)
        self.inputs = Linear(input_size, 3 * width, key=input_key)
        self.recurrent_rz = uniform_init(rz_key, (width, 2 * width), fan_in=width)
        self.recurrent_g = uniform_init(g_key, (width, width), fan_in=width)

    def __call__(self, driven: Float[Array, " G"], state: GRUState) -> tuple[Float[Array, " W"], GRUState]:
        """`driven` is the input's share of r, z and the candidate; `state` is this layer's."""
        dtype, h = driven.dtype, state.hidden
        x_r, x_z, x_g = jnp.split(driven, 3)
        h_r, h_z = jnp.split(h @ self.recurrent_rz.astype(dtype), 2)
        z = jax.nn.sigmoid(x_z + h_z)
        candidate = jnp.tanh(x_g + (jax.nn.sigmoid(x_r + h_r) * h) @ self.recurrent_g.astype(dtype))
        hidden = (1 - z) * h + z * candidate
        return hidden, GRUState(hidden=hidden)


Cell = LSTMCell | GRUCell


class Recurrent(Core):
    """A stack of recurrent layers; `LSTM` and `GRU` say which."""

    cells: tuple[Cell, ...]
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    width: int = eqx.field(static=True)
    skip: bool = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        skip: bool = False,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=1, hint="it is the width of a layer; the paper's LSTM has 256")
        at_least("layers", layers, least=1, hint="the paper's LSTM has 3; for no memory at all use the core 'none'")
        widths = [input_size] + [d_model + (input_size if skip else 0)] * (layers - 1)
        keys = jax.random.split(key, layers)
        self.cells = tuple(self._cell(width, d_model, key) for width, key in zip(widths, keys, strict=True))
        self.input_size = input_size
        self.output_size = d_model * layers if skip else d_model
        self.width = d_model
        self.skip = skip
        self.dtype = check_dtype(dtype)

    @staticmethod
    @abc.abstractmethod
    def _cell(input_size: int, width: int, key: PRNGKeyArray) -> Cell: ...

    def _zeros(self) -> Float[Array, "L W"]:
        return jnp.zeros((len(self.cells), self.width), DTYPES[self.dtype])

    def _step(self, x: Float[Array, " D_in"], state: State, reset: Bool[Array, ""]) -> tuple[Float[Array, " D_out"], State]:
        ys, state = self._unroll(x[None], state, reset[None])
        return ys[0], state

    def _unroll(
        self, xs: Float[Array, "T D_in"], state: State, resets: Bool[Array, " T"]
    ) -> tuple[Float[Array, "T D_out"], State]:
        inputs = xs.astype(DTYPES[self.dtype])
        spoilt = spoilt_rows(inputs)
        below = inputs = replaced(inputs, spoilt, 0.0)
        outputs, states = [], []
        for layer, cell in enumerate(self.cells):

            def step(of_layer: State, of_step: tuple[Array, Array], cell=cell) -> tuple[State, Array]:
                driven, anew = of_step
                of_layer = jax.tree.map(lambda leaf: jnp.where(anew, 0, leaf), of_layer)
                hidden, of_layer = cell(driven, of_layer)
                return of_layer, hidden

            seen = jnp.concatenate([inputs, below], axis=1) if self.skip and layer else below
            start = jax.tree.map(lambda leaf, layer=layer: leaf[layer], state)
            spoilt = since_reset(spoilt, resets, start=jnp.any(jnp.stack(jax.tree.leaves(jax.tree.map(spoilt_rows, start)))))
            end, below = jax.lax.scan(step, start, (cell.inputs(seen), resets | spoilt))
            outputs.append(replaced(below, spoilt, math.nan))
            states.append(jax.tree.map(lambda leaf, last=spoilt[-1]: replaced(leaf, last, math.nan), end))
        ys = jnp.concatenate(outputs, axis=1) if self.skip else outputs[-1]
        return ys.astype(jnp.float32), jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def since_reset(marked: Bool[Array, " T"], resets: Bool[Array, " T"], *, start: Bool[Array, ""]) -> Bool[Array, " T"]:
    """Which steps have a marked one in their episode, themselves or before; `start` marks what came before the first."""
    steps = jnp.arange(len(marked))
    newest = jax.lax.cummax(jnp.where(marked, steps, jnp.where(start, -1, -2)))
    return newest >= jax.lax.cummax(jnp.where(resets, steps, -1))


class LSTM(Recurrent):
    """Long short-term memory."""

    @staticmethod
    def _cell(input_size: int, width: int, key: PRNGKeyArray) -> LSTMCell:
        return LSTMCell(input_size, width, key=key)

    def initial_state(self) -> LSTMState:
        """Zeros."""
        return LSTMState(hidden=self._zeros(), cell=self._zeros())


class GRU(Recurrent):
    """The gated recurrent unit as a recurrent network (not the gate of that name)."""

    @staticmethod
    def _cell(input_size: int, width: int, key: PRNGKeyArray) -> GRUCell:
        return GRUCell(input_size, width, key=key)

    def initial_state(self) -> GRUState:
        """Zeros."""
        return GRUState(hidden=self._zeros())
