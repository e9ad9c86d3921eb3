"""RL-MEM, MERLIN's control. The equations are in `gtrxl.cores.merlin.rl_mem`. B streams, T steps, Z numbers written a step."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from gtrxl.cores.merlin.core import GAMMA, check_sizes
from gtrxl.torch.cores.contract import check_dtype
from gtrxl.torch.cores.layers import Linear
from gtrxl.torch.cores.linear.stack import nothing
from gtrxl.torch.cores.merlin import rows
from gtrxl.torch.cores.merlin.parts import Keys, Layers, MemoryCore
from gtrxl.torch.cores.merlin.rows import Rows
from gtrxl.torch.cores.recurrent import LSTMState


class RLMemState(NamedTuple):
    """Memory, the LSTM, and what it read last. Zeros are a fresh state."""

    rows: Rows
    controller: LSTMState
    read: Float[Tensor, "B KW"]


class RLMem(MemoryCore):
    """An LSTM with MERLIN's memory, which it learns to write and to read; the arguments are those of `gtrxl.cores.RLMem`."""

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
        device: Any = None,
    ):
        super().__init__()
        check_sizes(input_size=input_size, d_model=d_model, layers=layers, memory=memory, latent=latent, reads=reads, gamma=gamma)
        read = 2 * latent * reads
        self.embed = Linear(input_size, latent, variance=1.0, device=device)
        self.controller = Layers(latent + read, d_model, layers, device=device)
        self.keys = Keys(self.controller.output_size, 2 * latent, reads, device=device)
        self.write = Linear(latent + self.controller.output_size, latent, variance=1.0, device=device)
        self.input_size, self.output_size = input_size, latent + self.controller.output_size + read
        self.latent, self.size, self.gamma = latent, memory, gamma
        self.dtype = check_dtype(dtype)

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX."""
        own = {name: getattr(core, name) for name in ("latent", "gamma", "dtype")}
        shape = {"d_model": core.controller.width, "layers": len(core.controller.cells)}
        return own | shape | {"memory": core.size, "reads": core.keys.number}

    def _zeros(self) -> RLMemState:
        read = nothing(self.keys.number * 2 * self.latent)
        return RLMemState(rows=self._empty(), controller=self.controller.zeros(), read=read)

    def _before(
        self, xs: Float[Tensor, "B T D_in"], state: RLMemState, resets: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T Z"]]:
        return (self.embed(xs.flatten(0, 1)).view(*resets.shape, -1),)

    def _advance(self, state: RLMemState, *known: Tensor) -> tuple[RLMemState, Float[Tensor, "B D_out"]]:
        (z,) = known
        h, controller = self.controller(torch.cat([z, state.read], dim=1), state.controller)
        by = rows.weights(state.rows.content, *self.keys(h))
        read = rows.read(state.rows.content, by)
        kept = rows.written(rows.used(state.rows, by), self.write(torch.cat([z, h], dim=1)), gamma=self.gamma)
        return RLMemState(rows=kept, controller=controller, read=read), torch.cat([z, h, read], dim=1)
