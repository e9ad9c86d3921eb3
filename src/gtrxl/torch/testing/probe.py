"""A module under test: the ways to run it. B streams, T steps, D_in input width."""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.testing.probe import Probe, Run


def offered(core: Any, name: str) -> Callable[[Any], Any]:
    """The core's own `prepare` or `plain`; of a core that has none, the identity."""
    own = getattr(core, name, None)
    return own if callable(own) else lambda state: state


def floating(leaf: Any) -> bool:
    """Whether it is a tensor of floats."""
    return isinstance(leaf, Tensor) and leaf.is_floating_point()


def given(core: Any, array: np.ndarray) -> Tensor:
    """As the core takes it: on its device, and no memory shared with the probe's."""
    parameter = next(core.parameters(), None) if isinstance(core, nn.Module) else None
    return torch.tensor(array, device=None if parameter is None else parameter.device)


@torch.no_grad()
def run_unroll(core: Any, xs: np.ndarray, state: Any, resets: np.ndarray) -> tuple[Tensor, Any]:
    """All streams in one unroll."""
    return core.unroll(given(core, xs), state, resets=given(core, resets))


@torch.no_grad()
def run_steps(core: Any, xs: np.ndarray, state: Any, resets: np.ndarray) -> tuple[Tensor, Any]:
    """All streams, step by step."""
    ys = []
    for x, reset in zip(given(core, xs).unbind(1), given(core, resets).unbind(1), strict=True):
        y, state = core.step(x, state, reset=reset)
        ys.append(y)
    return torch.stack(ys, dim=1), state


@torch.no_grad()
def run_prepared(core: Any, xs: np.ndarray, state: Any, resets: np.ndarray) -> tuple[Tensor, Any]:
    """All streams, step by step from prepared states."""
    ys, state = run_steps(core, xs, offered(core, "prepare")(state), resets)
    return ys, offered(core, "plain")(state)


class TorchProbe(Probe):
    """A module for B streams at once."""

    ways: ClassVar[Mapping[str, Run]] = {"unroll": run_unroll, "step": run_steps, "prepared step": run_prepared}
    weightless: ClassVar[str] = "the core has no parameters"

    def width_of_outputs(self, input_size: int) -> int:
        return int(run_steps(self.core, self.xs[:, :1], self.fresh(), self.resets[:, :1])[0].shape[-1])

    def numpy(self, ys: Tensor) -> np.ndarray:
        return ys.detach().float().cpu().numpy()

    def with_other_weights(self) -> Any:
        if not isinstance(self.core, nn.Module) or not any(True for _ in self.core.parameters()):
            return None
        other = copy.deepcopy(self.core)
        with torch.no_grad():
            for parameter in other.parameters():
                by = 1 + 0.1 * self.random.uniform(-1, 1, parameter.shape)
                moved = self.numpy(parameter) * by + 0.01 * self.normal(parameter.shape)
                parameter.copy_(torch.as_tensor(moved).to(parameter))
        return other

    def fresh(self) -> Any:
        return self.core.initial_state(self.streams)

    def of_stream(self, stream: int, state: Any) -> Any:
        return pytree.tree_map(lambda leaf: leaf[stream : stream + 1], state)

    def leaves(self, state: Any) -> list[np.ndarray]:
        return [self.numpy(leaf) for leaf in pytree.tree_leaves(state) if isinstance(leaf, Tensor)]

    def disturbed(self, state: Any) -> Any:
        def noisy(leaf: Any) -> Any:
            return leaf + 100 * torch.as_tensor(self.normal(leaf.shape)).to(leaf) if floating(leaf) else leaf

        return pytree.tree_map(noisy, state)

    def spoilt(self, state: Any) -> Any:
        return pytree.tree_map(lambda leaf: torch.full_like(leaf, torch.nan) if floating(leaf) else leaf, state)

    def alone(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> np.ndarray:
        return self.numpy(run_unroll(self.core, xs[None], state, resets[None])[0])[0]

    def states(self) -> Iterable[tuple[str, Any, Any, str]]:
        state = self.fresh()
        fast = offered(self.core, "prepare")(state)
        _, stepped_fast = run_steps(self.core, self.xs[:, :1], fast, self.resets[:, :1])
        for what, after, before in (
            ("unroll", run_unroll(self.core, self.xs, state, self.resets)[1], state),
            ("step", run_steps(self.core, self.xs[:, :1], state, self.resets[:, :1])[1], state),
            ("a prepared step", stepped_fast, fast),
            ("plain(prepare(state))", offered(self.core, "plain")(stepped_fast), state),
        ):
            words = f"the state was {_described(before)} and became {_described(after)}"
            yield what, _types(after), _types(before), words

    def shapes(self) -> Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        for what, way, steps in (("step", "step", 1), ("a prepared step", "prepared step", 1), ("unroll", "unroll", self.steps)):
            ys, _ = self.run(way, self.xs[:, :steps], self.fresh(), self.resets[:, :steps])
            yield what, ys.shape, (self.streams, steps, self.output_size)

    def segment_gradients(
        self, xs: np.ndarray, state: Any, resets: np.ndarray, *, saying: np.ndarray | None = None
    ) -> tuple[bool, np.ndarray]:
        assert saying is None, "modules predict nothing"
        asked = given(self.core, xs[None]).requires_grad_()
        ys, _ = self.core.unroll(asked, state, resets=given(self.core, resets[None]))
        score = (ys[:, -1] * given(self.core, self.weight)).sum()
        if not score.requires_grad:
            return True, np.zeros_like(xs)
        parameters = [each for each in self.core.parameters() if each.requires_grad] if hasattr(self.core, "parameters") else []
        found = torch.autograd.grad(score, [*parameters, asked], allow_unused=True)
        finite = all(bool(leaf.isfinite().all()) for leaf in found if leaf is not None)
        return finite, np.zeros_like(xs) if found[-1] is None else self.numpy(found[-1])[0]

    def state_gradients(self) -> Mapping[str, float] | None:
        state, core = self.used(), self.core
        if not any(floating(leaf) for leaf in pytree.tree_leaves(state)):
            return None
        xs, resets = given(core, self.xs), given(core, self.no_resets)

        def unrolled(state: Any) -> Tensor:
            return core.unroll(xs, state, resets=resets)[0].sum()

        def stepped(state: Any) -> Tensor:
            total = xs.new_zeros(())
            for x, reset in zip(xs.unbind(1), resets.unbind(1), strict=True):
                y, state = core.step(x, state, reset=reset)
                total = total + y.sum()
            return total

        # A module hands on what it computed: a gradient that is still in the state would reach the segment before it.
        _, after = core.unroll(xs, state, resets=resets)
        carried = any(floating(leaf) and leaf.requires_grad for leaf in pytree.tree_leaves(after))
        return {
            "of unroll by its state": _largest(_by_state(unrolled, state)),
            "of steps by their state": _largest(_by_state(stepped, state)),
            "of prepared steps by their state": _largest(
                _by_state(lambda state: stepped(offered(core, "prepare")(state)), state)
            ),
            "that come after; unroll must give back state.detach()": np.inf if carried else 0.0,
        }


def _by_state(score: Callable[[Any], Tensor], state: Any) -> Sequence[Tensor | None]:
    leaves, shape = pytree.tree_flatten(state)
    asked = [leaf.detach().clone().requires_grad_() if floating(leaf) else leaf for leaf in leaves]
    found = score(pytree.tree_unflatten(asked, shape))
    if not found.requires_grad:
        return []
    return torch.autograd.grad(found, [leaf for leaf in asked if floating(leaf)], allow_unused=True)


def _largest(gradients: Sequence[Tensor | None]) -> float:
    return max((float(leaf.abs().max()) for leaf in gradients if leaf is not None and leaf.numel()), default=0.0)


def _types(tree: Any) -> Any:
    leaves, structure = pytree.tree_flatten(tree)
    return structure, [(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def _described(tree: Any) -> str:
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
    return "{" + ", ".join(f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" for leaf in leaves) + "}"
