"""One step of an agent as a function of tensors alone: what it sees, whether an episode begins, and every piece of its memory.

B streams. Inputs are the parts of an observation, `reset` [B], and the memory piece by piece, `state.NAME`. Outputs are the
policy's numbers, the likeliest action, `value`, and the memory after the step, `next.NAME`: the next step's `state.NAME`. The
normaliser of observations is inside. A stream begins with zeros for its memory and with `reset` true, which hides them.
"""

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.tasks.specs import ObservationSpec
from gtrxl.torch.cores.contract import leaf_names
from gtrxl.torch.networks.agent import Agent

OBSERVATION, RESET, STATE, NEXT, ACTION, VALUE = "observation", "reset", "state", "next", "action", "value"
STREAMS = "B"
"""What stands for the number of streams in a shape."""
EXAMPLES = 2
"""Streams of the example that a program is traced with: any other number of them will do as well, 1 too."""


class Port(NamedTuple):
    """An input or an output."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    """`STREAMS` where it is as long as there are streams."""


class Step(nn.Module):
    """One step. Takes and gives tensors in the order of `inputs()` and `outputs()`."""

    def __init__(self, agent: Agent, seen: ObservationSpec):
        super().__init__()
        self.agent = agent
        self.seen = seen
        self.parts = [OBSERVATION] if seen.only_vector else list(seen.zeros())
        begins = agent.initial_state(1)
        self.structure = pytree.tree_structure(begins)
        self.pieces = leaf_names(begins)

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """One step of B streams."""
        number = len(self.parts)
        seen, reset, memory = tensors[:number], tensors[number], tensors[number + 1 :]
        observation = seen[0] if self.seen.only_vector else dict(zip(self.parts, seen, strict=True))
        state = pytree.tree_unflatten([_inside(piece) for piece in memory], self.structure)
        policy, value, after = self.agent.step(observation, state, reset=reset)
        action = self.agent.head.mode(policy)
        actions = action.values() if isinstance(action, dict) else (action,)
        return (*policy.numbers.values(), *actions, value, *map(_outside, pytree.tree_leaves(after)))

    def example(self, streams: int = EXAMPLES) -> tuple[Tensor, ...]:
        """Arguments that a stream may begin with."""
        zeros = self.seen.zeros(streams)
        seen = [zeros] if self.seen.only_vector else [zeros[name] for name in self.parts]
        memory = [torch.zeros_like(_outside(leaf)) for leaf in pytree.tree_leaves(self.agent.initial_state(streams))]
        return (*map(torch.from_numpy, seen), torch.ones(streams, dtype=torch.bool), *memory)

    def inputs(self) -> list[Port]:
        """What it takes."""
        names = [*self.parts, RESET, *(f"{STATE}.{piece}" for piece in self.pieces)]
        return list(_ports(names, self.example(2), self.example(3)))

    def outputs(self) -> list[Port]:
        """What it gives."""
        head = self.agent.head
        with torch.no_grad():
            fewer, more = self(*self.example(2)), self(*self.example(3))
            policy = head(torch.zeros(1, head.width))
        action = head.mode(policy)
        acted = [f"{ACTION}.{part}" for part in action] if isinstance(action, dict) else [ACTION]
        names = [*policy.numbers, *acted, VALUE, *(f"{NEXT}.{piece}" for piece in self.pieces)]
        return list(_ports(names, fewer, more))

    def fed_back(self) -> dict[str, str]:
        """Output -> the input that it is at the next step."""
        return {f"{NEXT}.{piece}": f"{STATE}.{piece}" for piece in self.pieces}


def _outside(piece: Tensor) -> Tensor:
    """Whole numbers of 32 bits: those of 64 are no numbers in a browser."""
    return piece.to(torch.int32) if piece.dtype == torch.int64 else piece


def _inside(piece: Tensor) -> Tensor:
    return piece.to(torch.int64) if piece.dtype == torch.int32 else piece


def _ports(names: list[str], fewer: tuple[Tensor, ...], more: tuple[Tensor, ...]) -> Iterator[Port]:
    for name, one, other in zip(names, fewer, more, strict=True):
        shape = tuple(a if a == b else STREAMS for a, b in zip(one.shape, other.shape, strict=True))
        yield Port(name, str(one.dtype).removeprefix("torch."), shape)
