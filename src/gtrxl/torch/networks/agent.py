"""The agent that is trained, in PyTorch: observation -> torso -> core -> policy and values (`gtrxl.networks.agent`).

B streams, T steps, D width, N values (one for each task).
"""

from collections.abc import Mapping
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor, nn

from gtrxl.networks.errors import AgentError
from gtrxl.tasks.specs import ActionSpec
from gtrxl.torch.cores.contract import check_weights
from gtrxl.torch.cores.layers import standardise
from gtrxl.torch.networks.encoder import Encoder, Torso
from gtrxl.torch.networks.heads import MLP, PixelControl
from gtrxl.torch.networks.normaliser import Normaliser
from gtrxl.torch.networks.policies import Head, Policy


class Agent(nn.Module):
    """All that is learned, for B streams at once. `state_dict` has the names of `gtrxl export`'s safetensors."""

    def __init__(
        self,
        *,
        torso: Torso | Encoder | Normaliser,
        core: Any,
        actions: ActionSpec,
        hidden: int = 64,
        values: int = 1,
        output_norm: bool = False,
        widest_noise: float = 0.0,
        cells: tuple[int, int] | None = None,
    ):
        """`cells` are those of pixel control, None without it."""
        super().__init__()
        self.torso = torso
        self.core = core
        self.head = Head(actions, widest=widest_noise)
        self.policy = MLP(core.output_size, self.head.width, hidden=hidden)
        self.value = MLP(core.output_size, values, hidden=hidden)
        self.output_norm = output_norm
        self.pixel_control = None if cells is None else PixelControl(core.output_size, actions.discrete[0], cells=cells)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in PyTorch; but weights of another core or of other sizes are told in one line, which names what differs."""
        if strict:
            check_weights(self, state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def initial_state(self, streams: int, **where: Any) -> Any:
        """The memory of streams that have seen nothing."""
        return self.core.initial_state(streams, **where)

    def prepare(self, state: Any) -> Any:
        """A memory made ready for many steps under these weights."""
        return self.core.prepare(state)

    def plain(self, state: Any) -> Any:
        """A memory that is right under any weights."""
        return self.core.plain(state)

    def step(self, observation: Any, state: Any, *, reset: Bool[Tensor, " B"]) -> tuple[Policy, Float[Tensor, "B N"], Any]:
        """Acting: one step of every stream."""
        y, state = self.core.step(self.torso(observation), state, reset=reset)
        policy, value = self.answer(self._sized(y))
        return policy, value, state

    def unroll(self, observations: Any, state: Any, *, resets: Bool[Tensor, "B T"]) -> tuple[Policy, Float[Tensor, "B T N"], Any]:
        """Learning: T steps of every stream, from the memory as it was before them."""
        ys, state = self.recall(observations, state, resets=resets)
        policy, value = self.answer(ys)
        return policy, value, state

    def recall(self, observations: Any, state: Any, *, resets: Bool[Tensor, "B T"]) -> tuple[Float[Tensor, "B T D"], Any]:
        """The first half of `unroll`: what the heads see of T steps."""
        ys, state = self.core.unroll(self.torso(observations), state, resets=resets)
        return self._sized(ys), state

    def answer(self, y: Float[Tensor, "*n D"]) -> tuple[Policy, Float[Tensor, "*n N"]]:
        """The second half: policy and values from what the heads see."""
        return self.head(self.policy(y)), self.value(y)

    def pixel_values(self, ys: Float[Tensor, "*n D"]) -> Float[Tensor, "*n h w A"]:
        """How much each action will change each cell of the picture."""
        if self.pixel_control is None:
            raise AgentError("this agent was made without pixel control; make it with cells=(rows, columns)")
        return self.pixel_control(ys)

    def _sized(self, y: Float[Tensor, "*n D"]) -> Float[Tensor, "*n D"]:
        return standardise(y) if self.output_norm else y
