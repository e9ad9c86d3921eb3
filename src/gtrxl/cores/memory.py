"""The states of a transformer: its memory, prepared for one stream, and prepared for many.

For the native library they are prepared otherwise: `kernels.acting.NativeMemory`.

B streams, L layers, M memory slots, P = M + 1 ring slots, H heads, K head width, D width.
"""

import equinox as eqx
from jaxtyping import Array, Float, Int

from gtrxl.cores.block import Block


class Memory(eqx.Module):
    """The paper's M: the inputs of each layer over the last M steps, newest last, of which the last `filled` are real."""

    inputs: Float[Array, "*B L M D"]
    filled: Int[Array, "*B"]


class PreparedMemory(eqx.Module):
    """A memory with its keys, values and position keys under one set of weights, as rings that a step writes one slot of."""

    inputs: Float[Array, "P L D"]
    keys: tuple[Float[Array, "H P K"], ...]
    values: tuple[Float[Array, "H P K"], ...]
    positions: tuple[Float[Array, "H P K"], ...]
    cursor: Int[Array, ""]
    filled: Int[Array, ""]


class PreparedStreams(eqx.Module):
    """Prepared memories of B streams, and the layers of the weights that prepared them, one by one.

    `jax.vmap` over a core is right, but it copies to every stream what depends on the weights alone (position keys), and
    gives every stream its own place in the ring, which makes a write a scatter. B streams that step together need neither.
    One stream alone has no axis of streams: with a leading axis of 1, XLA's CPU backend copies every ring three times a step.
    """

    memory: PreparedMemory
    blocks: tuple[Block, ...]
