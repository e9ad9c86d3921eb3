"""What an agent may do next, in PyTorch: the numbers of a policy, its likeliest action, and one drawn from given noise.

`gtrxl.networks.policies` has the same with all that learning asks of it. A numbers in an action, K choices among C values.
"""

from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as f
from jaxtyping import Float
from torch import Tensor, nn

from gtrxl.networks.policies import LEAST_SCALE, NEVER, shift_of_scale
from gtrxl.tasks.specs import ActionSpec


class Policy(NamedTuple):
    """A distribution over actions: choices by their logits, numbers by mean and standard deviation, either or both."""

    logits: Float[Tensor, "*n A"] | Float[Tensor, "*n K C"] | None
    mean: Float[Tensor, "*n A"] | None
    scale: Float[Tensor, "*n A"] | None

    @property
    def numbers(self) -> dict[str, Tensor]:
        """By name, those that there are."""
        return {name: value for name, value in self._asdict().items() if value is not None}


class Head(nn.Module):
    """Which policy an action space asks for. Nothing in it is learned."""

    row: Tensor
    there: Tensor

    def __init__(self, spec: ActionSpec, *, first_scale: float = 0.5, widest: float = 0.0):
        super().__init__()
        self.spec = spec
        self.shift, self.widest = shift_of_scale(first_scale, widest), widest
        # Logits side by side -> one row for each choice, all as long as the longest.
        counts = np.array(spec.discrete or (1,))
        place = np.arange(counts.max())[None]
        there = np.broadcast_to(place < counts[:, None], (len(counts), counts.max()))
        row = np.where(there, (np.cumsum(counts) - counts)[:, None] + place, 0)
        self.register_buffer("row", torch.tensor(row), persistent=False)
        self.register_buffer("there", torch.tensor(there.copy()), persistent=False)

    @property
    def width(self) -> int:
        """How many numbers make a policy."""
        return sum(self.spec.discrete) + 2 * self.spec.continuous

    def forward(self, numbers: Float[Tensor, "*n W"]) -> Policy:
        if self.spec.kind == "categorical":
            return Policy(logits=numbers, mean=None, scale=None)
        first = sum(self.spec.discrete)
        logits = mean = scale = None
        if self.spec.discrete:
            logits = torch.where(self.there, numbers[..., self.row], NEVER)
        if self.spec.continuous:
            mean, raw = numbers[..., first:].chunk(2, dim=-1)
            wide = (self.widest - LEAST_SCALE) * torch.sigmoid(raw + self.shift) if self.widest else f.softplus(raw + self.shift)
            scale = wide + LEAST_SCALE
        return Policy(logits=logits, mean=mean, scale=scale)

    def mode(self, policy: Policy) -> Any:
        """The likeliest action: a tensor, or a dict of them for hybrid actions."""
        return self._action(policy.logits, policy.mean)

    def sample(self, policy: Policy, noise: Any) -> Any:
        """The action that this noise gives: of choices the one whose logit and Gumbel noise add up to most, of numbers the mean
        and as many spreads as the noise says. `gtrxl.networks.policies.Head.noise` draws it, and its rule is the same."""
        if self.spec.kind == "categorical":
            assert policy.logits is not None
            return self._action(policy.logits + noise, None)
        parts = noise if self.spec.kind == "hybrid" else {"continuous": noise}
        logits = None if policy.logits is None else policy.logits + parts["discrete"]
        numbers = None if policy.mean is None or policy.scale is None else policy.mean + policy.scale * parts["continuous"]
        return self._action(logits, numbers)

    def _action(self, logits: Tensor | None, numbers: Tensor | None) -> Any:
        chosen = None if logits is None else logits.argmax(dim=-1).to(torch.int32)
        parts = {name: part for name, part in (("discrete", chosen), ("continuous", numbers)) if part is not None}
        return parts if self.spec.kind == "hybrid" else next(iter(parts.values()))
