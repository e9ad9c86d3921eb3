"""GTrXL with a recurrence in place of attention: the paper's block and gates around an LRU. N rows, D width."""

from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from gtrxl.cores.layers import INIT_VARIANCE
from gtrxl.cores.linear.gtrxl_lru import check_variance
from gtrxl.cores.linear.stack import half
from gtrxl.torch.cores.gates import Gate, find_gate, first_bias
from gtrxl.torch.cores.linear.gated import GatedBlock, block_sizes
from gtrxl.torch.cores.linear.lru import LinearRecurrence
from gtrxl.torch.cores.linear.scan import Pair
from gtrxl.torch.cores.linear.stack import Layer, Stack


class GatedLRULayer(Layer):
    """One layer."""

    def __init__(self, block: GatedBlock, recurrence: LinearRecurrence):
        super().__init__()
        self.block = block
        self.recurrence = recurrence

    def zeros(self) -> Pair:
        return self.recurrence.zeros()

    def forward(self, x: Float[Tensor, "N D"], state: Pair, resets: Bool[Tensor, "T B"]) -> tuple[Float[Tensor, "N D"], Pair]:
        remembered, last = self.recurrence(self.block.norm_1(x), state, resets)
        return self.block.join(x, remembered), last


class GatedLRU(Stack):
    """GTrXL's layers with linear recurrent units; the arguments are those of `gtrxl.cores.linear.gtrxl_lru.GatedLRU`."""

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
        device: Any = None,
    ):
        variance, kind = check_variance(init_variance), find_gate(gate)
        bias, hidden = first_bias(kind, gate_bias, layers), d_model if mlp is None else mlp
        size = half(d_model) if state_size is None else state_size

        def layer() -> GatedLRULayer:
            block = GatedBlock(d_model, mlp=hidden, gate=kind, gate_bias=bias, variance=variance, device=device)
            recurrence = LinearRecurrence(d_model, size, shortest=shortest, longest=longest, device=device)
            return GatedLRULayer(block, recurrence)

        super().__init__(input_size, d_model=d_model, layers=layers, dtype=dtype, make=layer, device=device)

    @staticmethod
    def _own_sizes(layer: Any) -> dict[str, Any]:
        return block_sizes(layer.block) | {"state_size": layer.recurrence.nu.shape[0]}
