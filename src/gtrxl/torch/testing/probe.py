"""A module under test: the ways to run it, and inputs, resets and states to try it on. B streams, T steps, D_in input width."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.testing.promises import Check

CHUNK = 3
"""Segments are a multiple of this long, so that they can be cut into unrolls of one short length."""


def offered(core: Any, name: str) -> Callable[[Any], Any]:
    """The core's own `prepare` or `plain`; of a core that has none, the identity."""
    own = getattr(core, name, None)
    return own if callable(own) else lambda state: state


@torch.no_grad()
def run_unroll(core: Any, xs: Tensor, state: Any, resets: Tensor) -> tuple[Tensor, Any]:
    """All streams in one unroll."""
    return core.unroll(xs, state, resets=resets)


@torch.no_grad()
def run_steps(core: Any, xs: Tensor, state: Any, resets: Tensor) -> tuple[Tensor, Any]:
    """All streams, step by step."""
    ys = []
    for x, reset in zip(xs.unbind(1), resets.unbind(1), strict=True):
        y, state = core.step(x, state, reset=reset)
        ys.append(y)
    return torch.stack(ys, dim=1), state


@torch.no_grad()
def run_prepared(core: Any, xs: Tensor, state: Any, resets: Tensor) -> tuple[Tensor, Any]:
    """All streams, step by step from prepared states."""
    ys, state = run_steps(core, xs, offered(core, "prepare")(state), resets)
    return ys, offered(core, "plain")(state)


WAYS = {"unroll": run_unroll, "step": run_steps, "prepared step": run_prepared}


def segment_gradients(
    core: Any, xs: Tensor, state: Any, resets: Tensor, weight: Tensor
) -> tuple[Sequence[Tensor | None], Tensor | None]:
    """Of weight . (the last outputs), with respect to the core's parameters and to xs."""
    given = xs.clone().requires_grad_()
    parameters = [each for each in core.parameters() if each.requires_grad] if hasattr(core, "parameters") else []
    score = (core.unroll(given, state, resets=resets)[0][:, -1] * weight).sum()
    if not score.requires_grad:
        return [None] * len(parameters), None
    *of_core, of_xs = torch.autograd.grad(score, [*parameters, given], allow_unused=True)
    return of_core, of_xs


def state_gradients(core: Any, xs: Tensor, state: Any, resets: Tensor) -> dict[str, list[Tensor]]:
    """Of the sum of the outputs, with respect to the state, through each of the calls."""

    def through(call: Callable[[Any], Tensor], made: Callable[[Any], Any]) -> list[Tensor]:
        leaves, shape = pytree.tree_flatten(state)
        asked = [leaf.detach().clone().requires_grad_() if floating(leaf) else leaf for leaf in leaves]
        score = call(made(pytree.tree_unflatten(asked, shape)))
        if not score.requires_grad:
            return []
        found = torch.autograd.grad(score, [leaf for leaf in asked if floating(leaf)], allow_unused=True)
        return [each for each in found if each is not None]

    def stepped(state: Any) -> Tensor:
        total = xs.new_zeros(())
        for x, reset in zip(xs.unbind(1), resets.unbind(1), strict=True):
            y, state = core.step(x, state, reset=reset)
            total = total + y.sum()
        return total

    return {
        "of unroll by its state": through(lambda state: core.unroll(xs, state, resets=resets)[0].sum(), lambda state: state),
        "of steps by their state": through(stepped, lambda state: state),
        "of prepared steps by their state": through(stepped, offered(core, "prepare")),
    }


def floating(leaf: Any) -> bool:
    """Whether it is a tensor of floats."""
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


class Probe:
    """A core with inputs, resets and states to try it on, and what was found."""

    streams = 4

    def __init__(self, core: Any, *, input_size: int, steps: int | None, seed: int, tolerance: float):
        memory, layers = getattr(core, "memory", None), getattr(core, "layers", None)
        self.core = core
        self.tolerance = tolerance
        self.window = memory * layers if isinstance(memory, int) and isinstance(layers, int) else None
        enough = max(9, (self.window or 0) + 2) if steps is None else max(steps, 2 * CHUNK)
        self.steps = -(-enough // CHUNK) * CHUNK
        self.checks: list[Check] = []
        self.left_out: list[str] = []
        parameter = next(core.parameters(), None) if isinstance(core, nn.Module) else None
        self.device = torch.device("cpu") if parameter is None else parameter.device
        self.random = torch.Generator().manual_seed(seed)
        shape = (self.streams, self.steps, input_size)
        self.xs, self.next_xs, self.directions = self.normal(*shape), self.normal(*shape), self.normal(*shape)
        self.other_xs = 100 * self.normal(*shape)
        # Streams: no reset at all, one at the start, resets here and there, two in a row.
        resets = torch.zeros(shape[:2], dtype=torch.bool)
        resets[1, 0] = resets[2, 1] = resets[2, self.steps // 2] = resets[3, self.steps - 3] = resets[3, self.steps - 2] = True
        self.resets = resets.to(self.device)
        self.no_resets = torch.zeros_like(self.resets)
        self.output_size = self.width_of_outputs()
        self.weight = self.normal(self.output_size)

    def width_of_outputs(self) -> int:
        """As a step shows it; of a core that cannot step, which the first check will tell, 1."""
        try:
            return int(run_steps(self.core, self.xs[:, :1], self.fresh(), self.resets[:, :1])[0].shape[-1])
        except Exception:  # whatever the user's core raises is found again, and told, by the checks
            return 1

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.random).to(self.device)

    def with_other_weights(self) -> Any:
        """The core with every parameter changed by about a tenth, zeros by a hundredth."""
        other = copy.deepcopy(self.core)
        with torch.no_grad():
            for parameter in other.parameters():
                by = 1 + 0.1 * (2 * torch.rand(parameter.shape, generator=self.random) - 1)
                moved = parameter.cpu().float() * by + 0.01 * torch.randn(parameter.shape, generator=self.random)
                parameter.copy_(moved.to(parameter))
        return other

    def disturbed(self, state: Any) -> Any:
        """The state with large noise on every tensor of floats."""
        return pytree.tree_map(lambda leaf: (leaf + 100 * self.normal(*leaf.shape)).to(leaf) if floating(leaf) else leaf, state)

    def spoilt(self, state: Any) -> Any:
        """The state with nothing finite in its tensors of floats."""
        return pytree.tree_map(lambda leaf: torch.full_like(leaf, torch.nan) if floating(leaf) else leaf, state)

    def fresh(self, streams: int | None = None) -> Any:
        return self.core.initial_state(self.streams if streams is None else streams)

    def used(self) -> Any:
        """States after a segment, of different ages because of the resets."""
        return run_unroll(self.core, self.next_xs, self.fresh(), self.resets)[1]

    def of_stream(self, stream: int, state: Any) -> Any:
        """One stream of a state, still with its axis of streams."""
        return pytree.tree_map(lambda leaf: leaf[stream : stream + 1], state)

    def attempt(self, promise: str, check: Callable[["Probe"], None]) -> None:
        """Run a check; a core that raises has broken the promise that was being checked."""
        try:
            check(self)
        except Exception as error:  # whatever the user's core raises is a finding
            first = (str(error).strip().splitlines() or [""])[0]
            self.checks.append(Check(promise, "ran it", np.inf, 0.0, f"raised {type(error).__name__}: {first}"))

    def close(self, promise: str, what: str, ours: Tensor, theirs: Tensor) -> None:
        """Record how far apart two results are, as a share of the largest number."""
        ours, theirs = ours.detach().double(), theirs.detach().double()
        scale = max(float(theirs.abs().max()), 1e-6)
        self.checks.append(Check(promise, what, float((ours - theirs).abs().max()) / scale, self.tolerance))

    def same_bits(self, promise: str, what: str, ours: Tensor, theirs: Tensor) -> None:
        """Record how far apart two results are that must not differ at all."""
        mine, other = (of.detach().double().cpu().numpy() for of in (ours, theirs))
        same = np.array_equal(mine, other)
        off = 0.0 if same else float(np.max(np.abs(mine - other), initial=0.0)) or np.inf
        self.checks.append(Check(promise, what, off, 0.0))

    def holds(self, promise: str, what: str, condition: bool, error: str) -> None:
        """Record something that is either so or not."""
        self.checks.append(Check(promise, what, 0.0 if condition else np.inf, 0.0, "" if condition else error))
