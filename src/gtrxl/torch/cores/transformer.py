"""The transformers with memory: TrXL, TrXL-I and the five GTrXL, one class.

B streams, T steps, L layers, M memory slots, P = M + 1 distances, H heads, K head width, D width, D_in input width.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.linear.gtrxl_lru import check_variance
from gtrxl.torch.cores import acting
from gtrxl.torch.cores.attention import window, window_code
from gtrxl.torch.cores.block import Block, sees_any, steps_back
from gtrxl.torch.cores.contract import Core, check_dtype
from gtrxl.torch.cores.gates import Gate, find_gate, first_bias, name_of
from gtrxl.torch.cores.inputs import check_kind, check_shape
from gtrxl.torch.cores.layers import INIT_VARIANCE, Linear, may_look, replaced, spoilt_rows, surely_finite
from gtrxl.torch.cores.memory import Memory, PreparedMemory


class Transformer(Core):
    """A stack of transformer layers behind a linear embedding; no norm and no activation after the last layer.

    The arguments are those of `gtrxl.Transformer`, and `device`. Parameters are drawn from torch's generator, by the same
    distributions as in JAX.
    """

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 4,
        heads: int = 4,
        head_dim: int | None = None,
        mlp: int | None = None,
        memory: int = 128,
        gate: str | type[Gate] = "gru",
        gate_bias: float | str | None = None,
        init_variance: float = INIT_VARIANCE,
        norm_inputs: bool = True,
        dtype: str = "float32",
        device: Any = None,
    ):
        super().__init__()
        at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
        at_least("d_model", d_model, least=2, hint="the paper uses 512 (8 heads of 64)")
        at_least("layers", layers, least=1, hint="the paper uses 12; for no memory at all use the core 'none'")
        at_least("heads", heads, least=1, hint="the paper uses 8")
        at_least("memory", memory, least=0, hint="the paper uses 512; 0 lets each step see itself alone")
        if d_model % 2:
            raise CoreError(f"d_model must be even, got {d_model}; half of the position code are sines, half cosines")
        if head_dim is None:
            if d_model % heads:
                raise CoreError(
                    f"heads must divide d_model, got {heads} heads for {d_model}; change one of them or give head_dim"
                )
            head_dim = d_model // heads
        at_least("head_dim", head_dim, least=1, hint="the paper uses 64")
        mlp = d_model if mlp is None else mlp
        at_least("mlp", mlp, least=1, hint="it is the hidden width of the position-wise MLP; the paper uses 512")
        check_variance(init_variance)
        kind = find_gate(gate)
        self.embed = Linear(input_size, d_model, variance=init_variance, device=device)
        self.blocks = Block(
            d_model,
            layers=layers,
            heads=heads,
            head_dim=head_dim,
            mlp=mlp,
            gate=kind,
            gate_bias=first_bias(kind, gate_bias, layers),
            norm_inputs=norm_inputs,
            variance=init_variance,
            device=device,
        )
        self.input_size = input_size
        self.output_size = d_model
        self.layers = layers
        self.heads = heads
        self.head_dim = head_dim
        self.memory = memory
        self.dtype = check_dtype(dtype)

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX."""
        blocks = core.blocks
        return {
            "d_model": core.output_size,
            "layers": core.layers,
            "heads": blocks.attention.u.shape[1],
            "head_dim": blocks.attention.u.shape[2],
            "mlp": blocks.mlp.first.bias.shape[1],
            "memory": core.memory,
            "gate": name_of(blocks.gate_1),
            "norm_inputs": blocks.norm_inputs,
            "dtype": core.dtype,
        }

    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> Memory:
        """Empty memories."""
        home = self._home()
        device = home.device if device is None else device
        dtype = self._stored() if dtype is None else dtype
        return Memory(
            inputs=torch.zeros(batch, self.layers, self.memory, self.output_size, device=device, dtype=dtype),
            filled=torch.zeros(batch, device=device, dtype=torch.int64),
        )

    def prepare(self, state: Memory | PreparedMemory) -> PreparedMemory:
        """Projects the memory once: keys and values of every slot, position keys of every distance."""
        with torch.no_grad():
            plain = self.plain(state)
            with self._own_types(plain.inputs) as computing:
                return acting.prepare(self.blocks, plain, computing=computing)

    def plain(self, state: Memory | PreparedMemory) -> Memory:
        """The memory alone, oldest first."""
        if isinstance(state, Memory):
            return state
        check_kind(state, Memory, PreparedMemory)
        return acting.plain(state, memory=self.memory)

    def history(self, episode_steps: int) -> int:
        """A layer sees M steps back, a stack of them L * M."""
        return min(self.layers * self.memory, episode_steps)

    def _home(self) -> Tensor:
        return self.embed.weight

    def _stored(self) -> torch.dtype:
        return torch.bfloat16 if self.dtype == "bfloat16" else self._home().dtype

    def _check_state(self, state: Any, *, streams: int) -> None:
        check_kind(state, Memory, PreparedMemory)
        if isinstance(state, Memory):
            check_shape("inputs", state.inputs, (streams, self.layers, self.memory, self.output_size))
            check_shape("filled", state.filled, (streams,))
        else:
            check_shape("inputs", state.inputs, (streams, acting.rows(self.memory), self.layers, self.output_size))

    def _step(
        self, x: Float[Tensor, "B D_in"], state: Any, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B D"], Any]:
        if isinstance(state, PreparedMemory):
            return acting.step(self.embed, self.blocks, x, state, reset, memory=self.memory)
        ys, state = self._unroll(x[:, None], state, reset[:, None], computing=computing)
        return ys[:, 0], state

    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: Memory, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Float[Tensor, "B T D"], Memory]:
        xs, steps = xs.to(computing), xs.shape[1]
        horizon = steps_back(resets, filled=state.filled, memory=self.memory)
        sound = surely_finite(xs)
        spoilt = torch.zeros_like(resets) if sound else spoilt_rows(xs)
        xs = xs if sound else replaced(xs, spoilt, 0.0)
        embedded = self.embed(xs.reshape(-1, self.input_size)).view(*xs.shape[:2], -1)
        embedded = embedded if sound else replaced(embedded, spoilt, math.nan)
        ys, inputs = self._through_layers(embedded, self._real(state).to(computing), horizon, computing=computing)
        kept = torch.stack([of[:, -self.memory :] if self.memory else of[:, :0] for of in inputs], dim=1)
        remembered = torch.cat([state.inputs[:, :, min(steps, self.memory) :], kept.detach().to(state.inputs.dtype)], dim=2)
        filled = (horizon[:, -1] + 1).clamp(max=self.memory)
        return ys.to(self._home().dtype), Memory(inputs=remembered, filled=filled.to(state.filled.dtype))

    def _through_layers(
        self,
        segment: Float[Tensor, "B T D"],
        memories: Float[Tensor, "B L M D"],
        horizon: Int[Tensor, "B T"],
        *,
        computing: torch.dtype,
    ) -> tuple[Float[Tensor, "B T D"], list[Float[Tensor, "B T D"]]]:
        """What the last layer gives, and what went into each: nan for every step that sees one that is not finite."""
        seen = window(horizon, memory=self.memory, head_dim=self.head_dim)
        code = window_code(self.memory, size=self.output_size, like=segment)
        remember_sound = surely_finite(memories)
        spoilt: Tensor | None = None
        inputs = []
        for layer, weights in enumerate(self.blocks.unbound(computing)):
            memory = memories[:, layer]
            sound = spoilt is None and remember_sound and surely_finite(segment)
            if sound:
                inputs.append(segment)
                segment = self.blocks.run(segment, memory, weights, window=seen, code=code)
                continue
            spoilt_memory = spoilt_rows(memory)
            spoilt = spoilt_rows(segment) if spoilt is None else spoilt | spoilt_rows(segment)
            memory, segment = replaced(memory, spoilt_memory, 0.0), replaced(segment, spoilt, 0.0)
            inputs.append(replaced(segment, spoilt, math.nan))
            segment = self.blocks.run(segment, memory, weights, window=seen, code=code)
            spoilt = sees_any(spoilt_memory, spoilt, horizon=horizon)
        return segment if spoilt is None else replaced(segment, spoilt, math.nan), inputs

    def _real(self, state: Memory) -> Float[Tensor, "B L M D"]:
        """The memory with zeros in the slots that hold nothing: whatever stood there cannot turn up as 0 * nan."""
        if may_look(state.filled) and bool((state.filled == self.memory).all()):
            return state.inputs
        real = torch.arange(self.memory, device=state.filled.device) >= self.memory - state.filled[:, None]
        return state.inputs.masked_fill(~real[:, None, :, None], 0.0)
