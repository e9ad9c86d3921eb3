"""memorax's attention with a key/value cache (JAX, Flax). B streams, T steps, M memory, D width.

It has no GTrXL. Two stacks of its blocks come nearest: its own `GatedResidual` (one D x D sigmoid gate), and the GRU gate
written as one of its blocks. Both use ALiBi, so there is no W_R, and both keep projected keys and values across segments:
the learner does not project the memory again and has no gradient from it. That is less work than the paper's model
and not the same numbers, so `same_model` is false for both.
"""

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
from memorax.networks import FFN, ALiBi, GatedResidual, PreNorm, SelfAttention, Stack

from costs import Size
from race import Contender

TITLE = "memorax"
OWN = "memorax, its own gate"
GRU = "memorax, GRU gates"


class GRUResidual(nn.Module):
    """The paper's GRU gate around a block: matrices that multiply the same vector in one product."""

    module: nn.Module

    @nn.compact
    def __call__(self, inputs: Any, mask: Any = None, initial_carry: Any = None, **kwargs: Any) -> tuple[Any, Any]:
        """The block's carry, and its output gated into the stream."""
        D = inputs.shape[-1]
        carry, update = self.module(inputs, mask=mask, initial_carry=initial_carry, **kwargs)
        y_r, y_z, y_h = jnp.split(nn.Dense(3 * D, use_bias=False)(nn.relu(update)), 3, axis=-1)
        x_r, x_z = jnp.split(nn.Dense(2 * D)(inputs), 2, axis=-1)
        z = nn.sigmoid(y_z + x_z)
        h = jnp.tanh(y_h + nn.Dense(D, use_bias=False)(nn.sigmoid(y_r + x_r) * inputs))
        return carry, (1 - z) * inputs + z * h

    @nn.nowrap
    def initialize_carry(self, key: Any, input_shape: Any) -> Any:
        """The block's."""
        return self.module.initialize_carry(key, input_shape)


class Model(nn.Module):
    """An embedding and the stack."""

    stack: nn.Module
    width: int

    @nn.compact
    def __call__(self, xs: Any, mask: Any, carry: Any) -> tuple[Any, Any]:
        """Carry and outputs, [B, T, D]."""
        return self.stack(nn.Dense(self.width)(xs), mask=mask, initial_carry=carry)


def _stack(size: Size, *, gate: Any, steps: int) -> Stack:
    attention = {
        "features": size.d_model,
        "num_heads": size.heads,
        "context_length": size.memory + steps,  # its context counts the segment in
        "dtype": jnp.float32,
        "param_dtype": jnp.float32,
        "kernel_init": nn.initializers.lecun_normal(),
        "bias_init": nn.initializers.zeros_init(),
        "positional_embedding": ALiBi(num_heads=size.heads),
    }
    if size.mlp != size.d_model or size.inner != size.d_model:
        raise ValueError(
            "memorax's MLP and heads are multiples and shares of its width; make mlp and heads x head_dim equal d_model"
        )
    blocks = []
    for _ in range(size.layers):
        blocks.append(gate(module=PreNorm(module=SelfAttention(**attention))))
        blocks.append(gate(module=PreNorm(module=FFN(features=size.d_model, expansion_factor=1, activation=nn.relu))))
    return Stack(blocks=tuple(blocks))


def _build(size: Size, streams: int, *, gate: Any, steps: int) -> tuple[Any, Any, Any, Any, Any, int]:
    stack = _stack(size, gate=gate, steps=steps)
    model = Model(stack=stack, width=size.d_model)
    carry = stack.initialize_carry(jax.random.key(0), (streams, size.d_model))
    # Zeros in the cache's mask put every slot into the episode under way: a full memory.
    carry = jax.tree.map(jnp.zeros_like, carry)
    xs = jax.random.normal(jax.random.key(1), (streams, steps, size.d_model))
    mask = jnp.zeros((streams, steps), jnp.int32)
    params = jax.jit(model.init)(jax.random.key(2), xs, mask, carry)
    return model.apply, params, xs, mask, carry, sum(leaf.size for leaf in jax.tree.leaves(params))


def _actor(size: Size, streams: int, *, gate: Any, name: str) -> Contender:
    apply, params, x, mask, carry, count = _build(size, streams, gate=gate, steps=1)
    xs = jnp.broadcast_to(x, (size.loop, *x.shape)) + 0.0
    state = [carry]

    def many(params: Any, xs: Any, carry: Any, mask: Any) -> tuple[Any, Any]:
        def body(carry: Any, x: Any) -> tuple[Any, Any]:
            return apply(params, x, mask, carry)

        return jax.lax.scan(body, carry, xs)

    loop = jax.jit(many, donate_argnums=2)

    def run() -> None:
        state[0], ys = loop(params, xs, state[0], mask)
        ys.block_until_ready()

    return Contender(f"{name}, compiled loop", run, streams * size.loop, count)


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """Steps in a compiled loop, which suits it best."""
    return [_actor(size, streams, gate=GatedResidual, name=OWN), _actor(size, streams, gate=GRUResidual, name=GRU)]


def _learner(size: Size, streams: int, steps: int, *, gate: Any, name: str) -> Contender:
    apply, params, xs, mask, carry, count = _build(size, streams, gate=gate, steps=steps)

    @jax.jit
    def value_and_grad(params: Any, xs: Any, mask: Any, carry: Any) -> Any:
        def loss(params: Any) -> Any:
            _, ys = apply(params, xs, mask, carry)
            return jnp.mean(jnp.square(ys))

        return jax.value_and_grad(loss)(params)

    return Contender(name, lambda: jax.block_until_ready(value_and_grad(params, xs, mask, carry)), streams * steps, count)


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """Forward and backward over segments that follow a full cache."""
    return [
        _learner(size, streams, steps, gate=GatedResidual, name=OWN),
        _learner(size, streams, steps, gate=GRUResidual, name=GRU),
    ]
