"""RL-MEM, MERLIN's control: the same memory with no predictions, all of it learned from what the policy and the value ask for.

One step, with m what was read at the step before:

    z = W x + b;   h = LSTM([z, m]);   m = what three keys of h find;   y = [z, h, m];   write U [z, h] into a row, after reading

Nothing is sampled, and gradients go everywhere within a segment: into what is written, the keys and z. That what is written is
learned is all that sources say of it; that it has the retroactive half, MERLIN's three keys and one LSTM is chosen here.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.contract import DTYPES, check_dtype
from gtrxl.cores.layers import Linear, with_variance
from gtrxl.cores.merlin import rows
from gtrxl.cores.merlin.core import GAMMA, check_sizes
from gtrxl.cores.merlin.parts import Keys, Layers, MemoryCore
from gtrxl.cores.merlin.rows import Rows
from gtrxl.cores.recurrent import LSTMState


class RLMemState(eqx.Module):
    """Memory, the LSTM, and what it read last. Zeros are a fresh state."""

    rows: Rows
    controller: LSTMState
    read: Float[Array, "*B KW"]


class RLMem(MemoryCore):
    """An LSTM with MERLIN's memory, which it learns to write and to read."""

    embed: Linear
    controller: Layers
    keys: Keys
    write: Linear
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    latent: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    gamma: float = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 64,
        layers: int = 2,
        memory: int = 64,
        latent: int = 32,
        reads: int = 3,
        gamma: float = GAMMA,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        """`memory` is the number of rows, `latent` how many numbers are written a step."""
        check_sizes(input_size=input_size, d_model=d_model, layers=layers, memory=memory, latent=latent, reads=reads, gamma=gamma)
        embed_key, controller_key, keys_key, write_key = jax.random.split(key, 4)
        read = 2 * latent * reads
        self.embed = with_variance(Linear(input_size, latent, key=embed_key), 1.0)
        self.controller = Layers(latent + read, d_model, layers, key=controller_key)
        self.keys = Keys(self.controller.output_size, 2 * latent, reads, key=keys_key)
        self.write = with_variance(Linear(latent + self.controller.output_size, latent, key=write_key), 1.0)
        self.input_size, self.output_size = input_size, latent + self.controller.output_size + read
        self.latent, self.size, self.gamma = latent, memory, gamma
        self.dtype = check_dtype(dtype)

    def initial_state(self) -> RLMemState:
        """Zeros."""
        dtype = DTYPES[self.dtype]
        return RLMemState(
            rows=rows.empty(self.size, self.latent, dtype),
            controller=self.controller.zeros(dtype),
            read=jnp.zeros(self.keys.number * 2 * self.latent, dtype),
        )

    def _before(self, xs: Float[Array, "T D_in"], state: RLMemState, resets: Bool[Array, " T"]) -> Float[Array, "T Z"]:
        del state, resets
        return self.embed(xs)

    def _advance(self, state: RLMemState, known: Float[Array, " Z"]) -> tuple[RLMemState, tuple[Float[Array, " D_out"], Any]]:
        h, controller = self.controller(jnp.concatenate([known, state.read]), state.controller)
        by = rows.weights(state.rows.content, *self.keys(h))
        read = rows.read(state.rows.content, by)
        kept = rows.written(rows.used(state.rows, by), self.write(jnp.concatenate([known, h])), gamma=self.gamma)
        return RLMemState(rows=kept, controller=controller, read=read), (jnp.concatenate([known, h, read]), None)
