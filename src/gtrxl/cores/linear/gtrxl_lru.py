"""GTrXL with a recurrence in place of attention: the paper's block and gates around an LRU. D width, N complex numbers that
remember.

    y = gate_1(x, relu(recurrence(norm_1(x)))),   out = gate_2(y, relu(mlp(norm_2(y))))

Gates and memory are separate ideas: the gates are those of the paper (its GRU gate unless said otherwise), the memory is
that of `lru`, with no window and no positions. What the LRU's own block has after the recurrence (GELU, gated unit, sum) is
left out: the block around it has its own. Ours; no publication has it in this form.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.block import FeedForward
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.gates import Gate, bias_by_depth, find_gate
from gtrxl.cores.layers import INIT_VARIANCE, LayerNorm, with_variance
from gtrxl.cores.linear import scan
from gtrxl.cores.linear.lru import LinearRecurrence
from gtrxl.cores.linear.scan import Pair
from gtrxl.cores.linear.stack import Decaying, Layer, Stack, StackState, half


class GatedBlock(eqx.Module):
    """The paper's block without what remembers: two norms, two gates and the MLP."""

    norm_1: LayerNorm
    gate_1: Gate
    norm_2: LayerNorm
    mlp: FeedForward
    gate_2: Gate

    def __init__(
        self, d_model: int, *, mlp: int, gate: str | type[Gate], gate_bias: float | None, variance: float, key: PRNGKeyArray
    ):
        at_least("mlp", mlp, least=1, hint="it is the hidden width of the position-wise MLP; the paper uses 512")
        mlp_key, gate_1_key, gate_2_key = jax.random.split(key, 3)
        self.norm_1 = LayerNorm(d_model)
        self.gate_1 = with_variance(find_gate(gate)(d_model, bias=gate_bias, key=gate_1_key), variance)
        self.norm_2 = LayerNorm(d_model)
        self.mlp = with_variance(FeedForward(d_model, mlp, key=mlp_key), variance)
        self.gate_2 = with_variance(find_gate(gate)(d_model, bias=gate_bias, key=gate_2_key), variance)

    def join(self, x: Float[Array, "*n D"], remembered: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        """What leaves the layer."""
        y = self.gate_1(skip=x, update=jax.nn.relu(remembered))
        return self.gate_2(skip=y, update=jax.nn.relu(self.mlp(self.norm_2(y))))

    def openness(self, x: Float[Array, "*n D"], remembered: Float[Array, "*n D"]) -> Float[Array, " 2"]:
        """How far the two gates stand open, on average."""
        update = jax.nn.relu(remembered)
        y = self.gate_1(skip=x, update=update)
        first = self.gate_1.opening(skip=x, update=update)
        second = self.gate_2.opening(skip=y, update=jax.nn.relu(self.mlp(self.norm_2(y))))
        return jnp.stack([jnp.mean(first), jnp.mean(second)]).astype(jnp.float32)


class GatedLayer(Layer):
    """A layer that has the paper's block around its memory; `remembered` is what stands where attention's output would."""

    block: eqx.AbstractVar[GatedBlock]

    @abc.abstractmethod
    def remembered(self, read: Any, driven: Any) -> Float[Array, "*n D"]:
        """The memory's output, for any number of steps at once."""

    def leave(self, x: Float[Array, "*n D"], read: Any, driven: Any) -> Float[Array, "*n D"]:
        """Through the gates."""
        return self.block.join(x, self.remembered(read, driven))


class GatedStack(Stack):
    """Layers with the paper's block: it can say how far its gates stand open."""

    def openness(
        self, xs: Float[Array, "B T D_in"], states: StackState, resets: Bool[Array, "B T"]
    ) -> Float[Array, "L 2"] | None:
        """How far the two gates of each layer stand open on these steps; None for a plain sum."""
        layers: Any = self.layers
        if not all(layer.block.gate_1.closes for layer in layers):
            return None
        ys, flags, found = self.embed(jnp.swapaxes(xs, 0, 1).astype(self.dtype)), resets.T, []
        for layer, state in zip(layers, states.layers, strict=True):
            driven = layer.drive(ys)
            reads, _ = layer.run(driven, state, flags)
            found.append(layer.block.openness(ys, layer.remembered(reads, driven)))
            ys = layer.leave(ys, reads, driven)
        return jnp.stack(found)


def first_bias(gate: str | type[Gate], gate_bias: float | str | None, layers: int) -> float | None:
    """b_g as a number, from what `gate_bias` may be."""
    if gate_bias == "depth":
        return bias_by_depth(find_gate(gate), layers)
    if isinstance(gate_bias, str):
        raise CoreError(f"gate_bias must be a number, 'depth' or None, got {gate_bias!r}; None is the paper's")
    return gate_bias


def check_variance(variance: float) -> float:
    """Raise unless new weights can have it."""
    if not 0 < variance < math.inf:
        raise CoreError(f"init_variance must be positive and finite, got {variance}; 1 keeps the size of what goes in")
    return variance


class GatedLRULayer(GatedLayer, Decaying):
    """One layer."""

    block: GatedBlock
    recurrence: LinearRecurrence

    times = staticmethod(scan.turned)

    def initial_state(self) -> Pair:
        """Zeros."""
        return self.recurrence.initial_state()

    def ready(self) -> Pair:
        """lambda."""
        return self.recurrence.kept()

    def drive(self, x: Float[Array, "*n D"]) -> tuple[Array, Pair]:
        """The input after its norm, and what it writes."""
        u = self.block.norm_1(x)
        return u, self.recurrence.written(u)

    def kept(self, driven: tuple[Array, Pair], ready: Pair) -> Pair:
        """The same at every step."""
        del driven
        return ready

    def written(self, driven: tuple[Array, Pair]) -> Pair:
        """gamma * (B u)."""
        return driven[1]

    def remembered(self, read: Pair, driven: tuple[Array, Pair]) -> Float[Array, "*n D"]:
        """Re(C s) + d * u."""
        return self.recurrence.out(read, driven[0])


class GatedLRU(GatedStack):
    """GTrXL's layers with linear recurrent units. Sizes are the transformers' without heads and memory, and those of `lru`."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        mlp: int | None = None,
        state_size: int | None = None,
        shortest: float = 0.9,
        longest: float = 0.999,
        gate: str | type[Gate] = "gru",
        gate_bias: float | str | None = None,
        init_variance: float = INIT_VARIANCE,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        variance = check_variance(init_variance)
        bias = first_bias(gate, gate_bias, layers)
        size = half(d_model) if state_size is None else state_size
        hidden = d_model if mlp is None else mlp

        def layer(key: PRNGKeyArray) -> GatedLRULayer:
            block_key, recurrence_key = jax.random.split(key)
            return GatedLRULayer(
                block=GatedBlock(d_model, mlp=hidden, gate=gate, gate_bias=bias, variance=variance, key=block_key),
                recurrence=LinearRecurrence(d_model, size, shortest=shortest, longest=longest, key=recurrence_key),
            )

        self._build(input_size, d_model, layers, dtype, layer, key)
