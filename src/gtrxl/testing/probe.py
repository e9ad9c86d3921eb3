"""What a core under test is tried on, whatever it is written in: inputs, resets, and a record of what was found.

B streams, T steps, D_in input width, D_out output width. Arrays are NumPy's on this side; `Probe` says what a kind of core must
offer so that the checks can run it, and `gtrxl.testing.jax_probe` and `gtrxl.torch.testing` do.
"""

import abc
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from gtrxl.testing.promises import Check

CHUNK = 3
"""Segments are a multiple of this long, so that they can be cut into unrolls of one short length."""

Run = Callable[..., tuple[Any, Any]]
"""Of B streams: (core, xs, state, resets) -> (ys, state after them)."""


class Probe(abc.ABC):
    """A core with inputs, resets and states to try it on, and what was found."""

    streams = 4
    ways: ClassVar[Mapping[str, Run]]
    """Three of them: "unroll", "step", "prepared step"."""
    weightless: ClassVar[str]
    """Why a core may have no other weights, in words."""

    def __init__(self, core: Any, *, input_size: int, steps: int | None, random: np.random.Generator, tolerance: float):
        memory, layers = getattr(core, "memory", None), getattr(core, "layers", None)
        self.core = core
        self.tolerance = tolerance
        self.window = memory * layers if isinstance(memory, int) and isinstance(layers, int) else None
        enough = max(9, (self.window or 0) + 2) if steps is None else max(steps, 2 * CHUNK)
        self.steps = -(-enough // CHUNK) * CHUNK
        self.checks: list[Check] = []
        self.left_out: list[str] = []
        self.random = random
        shape = (self.streams, self.steps, input_size)
        self.xs = self.normal(shape)
        self.next_xs = self.normal(shape)
        self.other_xs = 100 * self.normal(shape)
        self.directions = self.normal(shape)
        # Streams: no reset at all, one at the start, resets here and there, two in a row.
        resets = np.zeros(shape[:2], bool)
        resets[1, 0] = resets[2, 1] = resets[2, self.steps // 2] = resets[3, self.steps - 3] = resets[3, self.steps - 2] = True
        self.resets = resets
        self.no_resets = np.zeros(shape[:2], bool)
        try:
            self.output_size = self.width_of_outputs(input_size)
        except Exception:  # whatever the user's core raises is found again, and told, by the checks
            self.output_size = 1
        self.weight = self.normal((self.output_size,))

    def normal(self, shape: tuple[int, ...]) -> np.ndarray:
        """Random numbers."""
        return self.random.standard_normal(shape).astype(np.float32)

    def run(
        self, way: str, xs: np.ndarray, state: Any, resets: np.ndarray, *, other_weights: bool = False
    ) -> tuple[np.ndarray, Any]:
        """All streams, by one of the ways; the core, or the one with other weights."""
        ys, after = self.ways[way](self.other_core if other_weights else self.core, xs, state, resets)
        return self.numpy(ys), after

    def unroll(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> tuple[np.ndarray, Any]:
        """All streams in one unroll."""
        return self.run("unroll", xs, state, resets)

    @functools.cached_property
    def other_core(self) -> Any:
        """The core with other weights."""
        return self.with_other_weights()

    def used(self) -> Any:
        """States after a segment, of different ages because of the resets."""
        return self.unroll(self.next_xs, self.fresh(), self.resets)[1]

    # What a kind of core must offer.

    @abc.abstractmethod
    def width_of_outputs(self, input_size: int) -> int:
        """As the core says it or a step shows it."""

    @abc.abstractmethod
    def numpy(self, ys: Any) -> np.ndarray:
        """Outputs as NumPy has them."""

    @abc.abstractmethod
    def with_other_weights(self) -> Any:
        """The core with every weight changed by about a tenth, zeros by a hundredth; None if it has none."""

    @abc.abstractmethod
    def fresh(self) -> Any:
        """Initial states of all streams."""

    @abc.abstractmethod
    def of_stream(self, stream: int, state: Any) -> Any:
        """What `alone` takes for a state."""

    @abc.abstractmethod
    def leaves(self, state: Any) -> list[np.ndarray]:
        """The numbers of a state."""

    @abc.abstractmethod
    def disturbed(self, state: Any) -> Any:
        """The state with large noise on all floating numbers."""

    @abc.abstractmethod
    def spoilt(self, state: Any) -> Any:
        """The state with nothing finite in its floating numbers."""

    @abc.abstractmethod
    def alone(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> np.ndarray:
        """Outputs of one stream [T, D_out], in an unroll without the others."""

    @abc.abstractmethod
    def states(self) -> Iterable[tuple[str, Any, Any, str]]:
        """Of each call: its name, types and shapes of its state after and before it, and both in words."""

    @abc.abstractmethod
    def shapes(self) -> Iterable[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """Of each call: its name, the shape of its output and the one that it must have."""

    @abc.abstractmethod
    def segment_gradients(
        self, xs: np.ndarray, state: Any, resets: np.ndarray, *, saying: np.ndarray | None = None
    ) -> tuple[bool, np.ndarray]:
        """Of the last output of one stream, weighed, by its inputs [T, D_in]; before it, whether all gradients are finite. With
        `saying`, which is given where `said` says something, of that and with these weights."""

    @abc.abstractmethod
    def state_gradients(self) -> Mapping[str, float] | None:
        """The largest gradient of outputs by the state that they began with, by what was done; None if it has no floats."""

    def said(self, xs: np.ndarray, state: Any, resets: np.ndarray) -> np.ndarray | None:
        """What a core that predicts says of T steps of B streams, side by side: [B, T, .]; None of one that does not."""
        return None

    # What was found.

    def attempt(self, promise: str, check: Callable[["Probe"], None]) -> None:
        """Run a check; a core that raises has broken the promise that was being checked."""
        try:
            check(self)
        except Exception as error:  # whatever the user's core raises is a finding
            first = (str(error).strip().splitlines() or [""])[0]
            self.checks.append(Check(promise, "ran it", np.inf, 0.0, f"raised {type(error).__name__}: {first}"))

    def close(self, promise: str, what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        """Record how far apart two results are, as a share of the largest number."""
        scale = max(float(np.max(np.abs(theirs))), 1e-6)
        self.checks.append(Check(promise, what, float(np.max(np.abs(ours - theirs))) / scale, self.tolerance))

    def same_bits(self, promise: str, what: str, ours: np.ndarray, theirs: np.ndarray) -> None:
        """Record how far apart two results are that must not differ at all."""
        same = np.array_equal(ours, theirs)
        self.checks.append(
            Check(promise, what, 0.0 if same else float(np.max(np.abs(ours - theirs), initial=0.0)) or np.inf, 0.0)
        )

    def holds(self, promise: str, what: str, condition: bool, error: str) -> None:
        """Record something that is either so or not."""
        self.checks.append(Check(promise, what, 0.0 if condition else np.inf, 0.0, "" if condition else error))
