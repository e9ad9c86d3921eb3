"""The checks themselves, one function for each promise. B streams, T steps, D_in input width, D_out output width.

They know a core by its probe alone, so that one in JAX and one in PyTorch are held to the same.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gtrxl.cores.contract import CALLS
from gtrxl.testing.jax_probe import JaxProbe
from gtrxl.testing.probe import CHUNK, Probe
from gtrxl.testing.promises import Check, ContractViolation, Report

TOLERANCE = 2e-5
"""How far numbers that are equal up to rounding may lie apart in float32, as a share of the largest of them."""

TOLERANCE_BFLOAT16 = 5e-2
"""The same for a core that says `dtype = "bfloat16"`."""

DERIVATIVE_TOLERANCE = 0.1
"""How far a gradient may lie from float32 finite differences, as a share of their size."""


def check_core(
    core: Any,
    *,
    input_size: int | None = None,
    steps: int | None = None,
    key: jax.Array | None = None,
    tolerance: float | None = None,
    memoryless: bool = False,
) -> Report:
    """Run the contract on a core: a `Report` of every check when all promises hold, else a `ContractViolation`.

    `input_size` is the width of one step's input, for a core that does not say it itself. `steps` is the length T of a
    segment, rounded up to a multiple of `CHUNK`; by default long enough for the window.
    `memoryless=True` says that the core is meant to forget everything, and holds it to that. `tolerance` is relative;
    see `TOLERANCE`.
    """
    random = np.random.default_rng(np.asarray(jax.random.key_data(jax.random.key(0) if key is None else key)))
    return examined(core, JaxProbe, random, input_size=input_size, steps=steps, tolerance=tolerance, memoryless=memoryless)


def examined(
    core: Any,
    probing: Callable[..., Probe],
    random: np.random.Generator,
    *,
    input_size: int | None,
    steps: int | None,
    tolerance: float | None,
    memoryless: bool,
) -> Report:
    """`check_core` for the kind of core that `probing` can run."""
    name = type(core).__name__
    input_size = getattr(core, "input_size", None) if input_size is None else input_size
    missing = [call for call in CALLS if not hasattr(core, call)]
    missing += ["input_size"] * (input_size is None)
    if missing or input_size is None:
        error = f"it has no {', '.join(missing)}"
        raise ContractViolation(Report(name, (Check("the calls exist", "looked the names up", np.inf, 0.0, error),), ()))
    exact = getattr(core, "dtype", "float32") != "bfloat16"
    if tolerance is None:
        tolerance = TOLERANCE if exact else TOLERANCE_BFLOAT16
    probe = probing(core, input_size=input_size, steps=steps, random=random, tolerance=tolerance)
    probe.attempt("the state is fixed", _check_state)
    if not probe.checks or all(check.held for check in probe.checks):  # nothing else can run on a state that changes shape
        probe.attempt("unroll equals steps", _check_agreement)
        probe.attempt("any chunking", _check_chunking)
        probe.attempt("streams are apart", _check_streams)
        probe.attempt("weights may change", _check_weights)
        probe.attempt("nothing leaks past a reset", _check_resets)
        probe.attempt("nothing leaks from the future", _check_future)
        probe.attempt("a fresh state starts an episode", _check_fresh)
        probe.attempt("no gradient into the state", _check_state_gradient)
        forgets = memoryless or probe.window == 0
        probe.attempt("it remembers", lambda probe: _check_remembers(probe, forgets=forgets))
        if forgets:
            probe.left_out.append("gradient through the segment: the core is meant to have no memory")
        else:
            probe.attempt("gradient through the segment", lambda probe: _check_segment_gradient(probe, differences=exact))
        probe.attempt("the window", _check_window)
        probe.attempt("finite", _check_finite)
        probe.attempt("deterministic", _check_deterministic)
    report = Report(name, tuple(probe.checks), tuple(probe.left_out))
    if report.broken:
        raise ContractViolation(report)
    return report


def _check_state(probe: Probe) -> None:
    promise = "the state is fixed"
    for what, after, before, error in probe.states():
        probe.holds(promise, f"compared the state before and after {what}", after == before, error)
    for what, got, expected in probe.shapes():
        error = f"got {list(got)}, expected {list(expected)}"
        probe.holds(promise, f"looked at the shape of the output of {what}", got == expected, error)


def _check_agreement(probe: Probe) -> None:
    for start, state in (("a fresh state", probe.fresh()), ("a used state", probe.used())):
        ys, after = probe.unroll(probe.xs, state, probe.resets)
        going_on, _ = probe.unroll(probe.next_xs, after, probe.no_resets)
        for promise, way in (("unroll equals steps", "step"), ("prepared steps equal steps", "prepared step")):
            step_ys, step_after = probe.run(way, probe.xs, state, probe.resets)
            step_going_on, _ = probe.unroll(probe.next_xs, step_after, probe.no_resets)
            probe.close(promise, f"{probe.steps} steps from {start}", step_ys, ys)
            probe.close(promise, f"went on for {probe.steps} steps from the states they left", step_going_on, going_on)


def _check_chunking(probe: Probe) -> None:
    cuts = range(0, probe.steps, CHUNK)
    for start, state in (("a fresh state", probe.fresh()), ("a used state", probe.used())):
        ys, after = probe.unroll(probe.xs, state, probe.resets)
        pieces = []
        for cut in cuts:
            piece = slice(cut, cut + CHUNK)
            chunk, state = probe.unroll(probe.xs[:, piece], state, probe.resets[:, piece])
            pieces.append(chunk)
        what = f"one unroll of {probe.steps} against {len(cuts)} of {CHUNK}, from {start}"
        probe.close("any chunking", what, np.concatenate(pieces, axis=1), ys)
        going_on, _ = probe.unroll(probe.next_xs, after, probe.no_resets)
        cut_going_on, _ = probe.unroll(probe.next_xs, state, probe.no_resets)
        probe.close("any chunking", f"{what}, and {probe.steps} steps more", cut_going_on, going_on)


def _check_streams(probe: Probe) -> None:
    state = probe.used()
    ys, _ = probe.unroll(probe.xs, state, probe.resets)
    for stream in range(probe.streams):
        alone = probe.alone(probe.xs[stream], probe.of_stream(stream, state), probe.resets[stream])
        what = f"stream {stream} of {probe.streams} among the others against the same stream alone"
        probe.close("streams are apart", what, ys[stream], alone)


def _check_weights(probe: Probe) -> None:
    promise = "weights may change"
    if probe.other_core is None:
        probe.left_out.append(f"{promise}: {probe.weightless}")
        return
    state = probe.used()
    ys, _ = probe.run("unroll", probe.xs, state, probe.resets, other_weights=True)
    for way in ("step", "prepared step"):
        other, _ = probe.run(way, probe.xs, state, probe.resets, other_weights=True)
        probe.close(promise, f"{way} against unroll, under new weights, from the state that the old ones left", other, ys)
        _, stepped = probe.run(way, probe.next_xs, probe.fresh(), probe.resets)
        for later in probe.ways:
            other, _ = probe.run(later, probe.xs, stepped, probe.resets, other_weights=True)
            probe.close(promise, f"{way} under the old weights, then {later} under the new", other, ys)


def _check_resets(probe: Probe) -> None:
    at = np.array([0, 1, probe.steps // 2, probe.steps - 2])
    before = np.arange(probe.steps)[None] < at[:, None]
    resets = probe.resets | (np.arange(probe.steps)[None] == at[:, None])
    other_xs = np.where(before[..., None], probe.other_xs, probe.xs)
    other_resets = resets ^ (before & (np.arange(probe.steps) % 2 == 0)[None])
    spoilt_xs = np.where(before[..., None], np.array([np.nan, np.inf], np.float32)[at % 2][:, None, None], probe.xs)
    state = probe.used()
    where = f"before a reset at steps {at.tolist()} of four streams"
    changes = (
        (f"changed the inputs, the resets and the state {where}", other_xs, probe.disturbed(state), other_resets),
        (f"put what is not finite into the inputs and the state {where}", spoilt_xs, probe.spoilt(state), resets),
    )
    for way in probe.ways:
        ys, after = probe.run(way, probe.xs, state, resets)
        going_on, _ = probe.unroll(probe.next_xs, after, probe.no_resets)
        for change, *given in changes:
            other, other_after = probe.run(way, *given)
            what = f"{change}, through {way}"
            probe.same_bits("nothing leaks past a reset", what, other[~before], ys[~before])
            other_going_on, _ = probe.unroll(probe.next_xs, other_after, probe.no_resets)
            probe.same_bits("nothing leaks past a reset", f"{what}, and {probe.steps} steps more", other_going_on, going_on)


def _check_future(probe: Probe) -> None:
    state = probe.used()
    ys, _ = probe.unroll(probe.xs, state, probe.resets)
    for now in (1, probe.steps // 2, probe.steps - 1):
        later = (np.arange(probe.steps) >= now)[None]
        xs = np.where(later[..., None], probe.other_xs, probe.xs)
        other, _ = probe.unroll(xs, state, probe.resets ^ later)
        what = f"changed inputs and resets from step {now} of {probe.steps} on"
        probe.same_bits("nothing leaks from the future", what, other[:, :now], ys[:, :now])


def _check_fresh(probe: Probe) -> None:
    first, quietly = probe.resets.copy(), probe.resets.copy()
    first[:, 0], quietly[:, 0] = True, False
    for way in probe.ways:
        ys, _ = probe.run(way, probe.xs, probe.fresh(), first)
        quiet, _ = probe.run(way, probe.xs, probe.fresh(), quietly)
        used, _ = probe.run(way, probe.xs, probe.used(), first)
        probe.close(
            "a fresh state starts an episode", f"a fresh state without a reset against one with it, through {way}", quiet, ys
        )
        probe.close("a fresh state starts an episode", f"a used state with a reset against a fresh one, through {way}", used, ys)


def _check_state_gradient(probe: Probe) -> None:
    promise = "no gradient into the state"
    found = probe.state_gradients()
    if found is None:
        probe.left_out.append(f"{promise}: it has no floating numbers")
        return
    for what, largest in found.items():
        probe.checks.append(Check(promise, f"differentiated the outputs {what}", largest, 0.0))


def _check_remembers(probe: Probe, *, forgets: bool) -> None:
    xs = probe.xs.copy()
    xs[:, -2] = probe.other_xs[:, -2]
    ys, _ = probe.unroll(probe.xs, probe.fresh(), probe.no_resets)
    other, _ = probe.unroll(xs, probe.fresh(), probe.no_resets)
    ys, other = ys[:, -1], other[:, -1]
    if forgets:
        probe.same_bits("it remembers", "changed the input before the last; the core is meant to have no memory", other, ys)
    else:
        changed = bool(np.any(other != ys))
        error = "the last output stayed the same; if that is meant, say memoryless=True"
        probe.holds("it remembers", "changed the input before the last", changed, error)


def _check_segment_gradient(probe: Probe, *, differences: bool) -> None:
    promise = "gradient through the segment"
    fresh, no_resets = probe.of_stream(0, probe.fresh()), probe.no_resets[0]
    said = probe.said(probe.xs, probe.fresh(), probe.no_resets)  # a core that predicts may learn from that alone
    last = "the last output" if said is None else "what is said of the last step"
    saying = None if said is None else probe.normal(said.shape[-1:])
    weight = probe.weight if saying is None else saying

    def gradient_of(xs: np.ndarray, resets: np.ndarray) -> np.ndarray:
        return probe.segment_gradients(xs, fresh, resets, saying=saying)[1]

    def run(xs: np.ndarray) -> np.ndarray:
        told = probe.said(xs, probe.fresh(), probe.no_resets)
        return probe.unroll(xs, probe.fresh(), probe.no_resets)[0] if told is None else told

    gradient = gradient_of(probe.xs[0], no_resets)
    memory = getattr(probe.core, "memory", None)
    reach = min(3 if memory is None else memory, probe.steps - 1)
    sizes = np.max(np.abs(gradient), axis=-1)[::-1]
    for distance in range(reach + 1):
        what = f"differentiated {last} by the input {distance} steps before it"
        probe.holds(promise, what, bool(sizes[distance] > 0), "the gradient is zero")
    past_reset = gradient_of(probe.xs[0], np.arange(probe.steps) == probe.steps - 2)
    probe.same_bits("nothing leaks past a reset", "differentiated by inputs before a reset", past_reset[:-2], 0 * gradient[:-2])
    if not differences:
        probe.left_out.append("finite differences: bfloat16 is too coarse")
        return
    # Along directions that leave the last input alone, so that the share of the earlier steps stands by itself.
    small = 0.003
    directions = probe.directions * (np.arange(probe.steps) < probe.steps - 1)[None, :, None].astype(np.float32)
    xs = np.broadcast_to(probe.xs[:1], probe.xs.shape)
    measured = (run(xs + small * directions) - run(xs - small * directions))[:, -1] @ weight / (2 * small)
    claimed = np.einsum("btd,td->b", directions, gradient)
    off = float(np.linalg.norm(claimed - measured) / max(float(np.linalg.norm(measured)), 1e-6))
    probe.checks.append(Check(promise, "gradient by earlier inputs against finite differences", off, DERIVATIVE_TOLERANCE))


def _check_window(probe: Probe) -> None:
    if probe.window is None:
        probe.left_out.append("the window: the core has no `memory` and `layers`")
        return
    steps = max(probe.steps, probe.window + 2)
    xs = np.resize(probe.xs[0], (steps, probe.xs.shape[-1]))
    last = steps - 1 - probe.window
    fresh, resets = probe.of_stream(0, probe.fresh()), np.zeros(steps, bool)
    ys = probe.alone(xs, fresh, resets)
    before = (np.arange(steps) < last)[:, None]
    other = probe.alone(np.where(before, -100 * xs, xs), fresh, resets)
    probe.same_bits("the window", f"changed every input more than {probe.window} steps back", other[-1], ys[-1])
    # Through many layers the effect may be lost in rounding, but not its gradient; without a gradient there is still the effect.
    there = (np.arange(steps) == last)[:, None]
    other = probe.alone(np.where(there, -100 * xs, xs), fresh, resets)
    _, gradient = probe.segment_gradients(xs, fresh, resets)
    seen = bool(np.any(other[-1] != ys[-1]) or np.any(gradient[last] != 0))
    probe.holds("the window", f"changed the input {probe.window} steps back", seen, "the output does not depend on it")


def _check_finite(probe: Probe) -> None:
    for what, xs in (("random inputs", probe.xs), ("zeros", 0 * probe.xs)):
        for way in probe.ways:
            ys, _ = probe.run(way, xs, probe.fresh(), probe.resets)
            probe.holds("finite", f"{way} on {what}", bool(np.all(np.isfinite(ys))), "an output is not finite")
        finite, _ = probe.segment_gradients(xs[2], probe.of_stream(2, probe.used()), probe.resets[2])
        probe.holds("finite", f"gradients of an unroll on {what}", finite, "a gradient is not finite")


def _check_deterministic(probe: Probe) -> None:
    for one, two in zip(probe.leaves(probe.fresh()), probe.leaves(probe.fresh()), strict=True):
        probe.same_bits("deterministic", "asked twice for an initial state", two, one)
    for way in probe.ways:
        once, _ = probe.run(way, probe.xs, probe.fresh(), probe.resets)
        twice, _ = probe.run(way, probe.xs, probe.fresh(), probe.resets)
        probe.same_bits("deterministic", f"the same {way} twice", twice, once)
