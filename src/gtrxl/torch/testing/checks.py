"""The checks themselves, one function for each promise. B streams, T steps, D_in input width, D_out output width."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.testing import TOLERANCE, TOLERANCE_BFLOAT16
from gtrxl.testing.checks import DERIVATIVE_TOLERANCE
from gtrxl.testing.promises import Check, ContractViolation, Report
from gtrxl.torch.cores.contract import CALLS
from gtrxl.torch.testing.probe import (
    CHUNK,
    WAYS,
    Probe,
    floating,
    offered,
    run_prepared,
    run_steps,
    run_unroll,
    segment_gradients,
    state_gradients,
)


def check_core(
    core: Any,
    *,
    input_size: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    memoryless: bool = False,
) -> Report:
    """Run the contract on a module: a `Report` of every check when all promises hold, else a `ContractViolation`.

    The arguments are those of `gtrxl.testing.check_core`, with a `seed` in place of a key.
    """
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
    probe = Probe(core, input_size=input_size, steps=steps, seed=seed, tolerance=tolerance)
    probe.attempt("the state is fixed", _check_state)
    if all(check.held for check in probe.checks):  # nothing else can run on a state that changes shape
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


def _types(tree: Any) -> Any:
    leaves, structure = pytree.tree_flatten(tree)
    return structure, [(tuple(leaf.shape), leaf.dtype) if isinstance(leaf, Tensor) else leaf for leaf in leaves]


def _described(tree: Any) -> str:
    leaves = [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]
    return "{" + ", ".join(f"{str(leaf.dtype).removeprefix('torch.')}{list(leaf.shape)}" for leaf in leaves) + "}"


def _check_state(probe: Probe) -> None:
    promise, core = "the state is fixed", probe.core
    state = probe.fresh()
    fast = offered(core, "prepare")(state)
    ys, unrolled = run_unroll(core, probe.xs, state, probe.resets)
    y, stepped = run_steps(core, probe.xs[:, :1], state, probe.resets[:, :1])
    y_fast, stepped_fast = run_steps(core, probe.xs[:, :1], fast, probe.resets[:, :1])
    for what, after, before in (
        ("unroll", unrolled, state),
        ("step", stepped, state),
        ("a prepared step", stepped_fast, fast),
        ("plain(prepare(state))", offered(core, "plain")(stepped_fast), state),
    ):
        error = f"the state was {_described(before)} and became {_described(after)}"
        probe.holds(promise, f"compared the state before and after {what}", _types(after) == _types(before), error)
    for what, got, length in (("step", y, 1), ("a prepared step", y_fast, 1), ("unroll", ys, probe.steps)):
        expected = (probe.streams, length, probe.output_size)
        error = f"got {list(got.shape)}, expected {list(expected)}"
        probe.holds(promise, f"looked at the shape of the output of {what}", tuple(got.shape) == expected, error)


def _check_agreement(probe: Probe) -> None:
    for start, state in (("a fresh state", probe.fresh()), ("a used state", probe.used())):
        ys, after = run_unroll(probe.core, probe.xs, state, probe.resets)
        going_on, _ = run_unroll(probe.core, probe.next_xs, after, probe.no_resets)
        for promise, way in (("unroll equals steps", run_steps), ("prepared steps equal steps", run_prepared)):
            step_ys, step_after = way(probe.core, probe.xs, state, probe.resets)
            step_going_on, _ = run_unroll(probe.core, probe.next_xs, step_after, probe.no_resets)
            probe.close(promise, f"{probe.steps} steps from {start}", step_ys, ys)
            probe.close(promise, f"went on for {probe.steps} steps from the states they left", step_going_on, going_on)


def _check_chunking(probe: Probe) -> None:
    cuts = range(0, probe.steps, CHUNK)
    for start, state in (("a fresh state", probe.fresh()), ("a used state", probe.used())):
        ys, after = run_unroll(probe.core, probe.xs, state, probe.resets)
        pieces = []
        for cut in cuts:
            piece = slice(cut, cut + CHUNK)
            chunk, state = run_unroll(probe.core, probe.xs[:, piece], state, probe.resets[:, piece])
            pieces.append(chunk)
        what = f"one unroll of {probe.steps} against {len(cuts)} of {CHUNK}, from {start}"
        probe.close("any chunking", what, torch.cat(pieces, dim=1), ys)
        going_on, _ = run_unroll(probe.core, probe.next_xs, after, probe.no_resets)
        cut_going_on, _ = run_unroll(probe.core, probe.next_xs, state, probe.no_resets)
        probe.close("any chunking", f"{what}, and {probe.steps} steps more", cut_going_on, going_on)


def _check_streams(probe: Probe) -> None:
    state = probe.used()
    ys, _ = run_unroll(probe.core, probe.xs, state, probe.resets)
    for stream in range(probe.streams):
        one = slice(stream, stream + 1)
        alone, _ = run_unroll(probe.core, probe.xs[one], probe.of_stream(stream, state), probe.resets[one])
        what = f"stream {stream} of {probe.streams} in a batch against the same stream alone"
        probe.close("streams are apart", what, ys[one], alone)


def _check_weights(probe: Probe) -> None:
    if not isinstance(probe.core, nn.Module) or not any(True for _ in probe.core.parameters()):
        probe.left_out.append("weights may change: the core has no parameters")
        return
    other_core = probe.with_other_weights()
    state = probe.used()
    ys, _ = run_unroll(other_core, probe.xs, state, probe.resets)
    for way in ("step", "prepared step"):
        other, _ = WAYS[way](other_core, probe.xs, state, probe.resets)
        what = f"{way} against unroll, under new weights, from the state that the old ones left"
        probe.close("weights may change", what, other, ys)
        _, stepped = WAYS[way](probe.core, probe.next_xs, probe.fresh(), probe.resets)
        for later in WAYS:
            other, _ = WAYS[later](other_core, probe.xs, stepped, probe.resets)
            probe.close("weights may change", f"{way} under the old weights, then {later} under the new", other, ys)


def _check_resets(probe: Probe) -> None:
    steps = torch.arange(probe.steps, device=probe.device)[None]
    at = torch.tensor([0, 1, probe.steps // 2, probe.steps - 2], device=probe.device)[:, None]
    before = steps < at
    resets = probe.resets | (steps == at)
    other_xs = torch.where(before[..., None], probe.other_xs, probe.xs)
    other_resets = resets ^ (before & (steps % 2 == 0))
    bad = torch.where(at % 2 == 0, torch.nan, torch.inf)
    spoilt_xs = torch.where(before[..., None], bad[..., None], probe.xs)
    state = probe.used()
    where = f"before a reset at steps {at[:, 0].tolist()} of four streams"
    changes = (
        (f"changed the inputs, the resets and the state {where}", other_xs, probe.disturbed(state), other_resets),
        (f"put what is not finite into the inputs and the state {where}", spoilt_xs, probe.spoilt(state), resets),
    )
    for name, way in WAYS.items():
        ys, after = way(probe.core, probe.xs, state, resets)
        going_on, _ = run_unroll(probe.core, probe.next_xs, after, probe.no_resets)
        for change, *given in changes:
            other, other_after = way(probe.core, *given)
            what = f"{change}, through {name}"
            probe.same_bits("nothing leaks past a reset", what, other[~before], ys[~before])
            other_going_on, _ = run_unroll(probe.core, probe.next_xs, other_after, probe.no_resets)
            probe.same_bits("nothing leaks past a reset", f"{what}, and {probe.steps} steps more", other_going_on, going_on)


def _check_future(probe: Probe) -> None:
    state = probe.used()
    ys, _ = run_unroll(probe.core, probe.xs, state, probe.resets)
    for now in (1, probe.steps // 2, probe.steps - 1):
        later = (torch.arange(probe.steps, device=probe.device) >= now)[None]
        xs = torch.where(later[..., None], probe.other_xs, probe.xs)
        other, _ = run_unroll(probe.core, xs, state, probe.resets ^ later)
        what = f"changed inputs and resets from step {now} of {probe.steps} on"
        probe.same_bits("nothing leaks from the future", what, other[:, :now], ys[:, :now])


def _check_fresh(probe: Probe) -> None:
    first, quietly = probe.resets.clone(), probe.resets.clone()
    first[:, 0], quietly[:, 0] = True, False
    promise = "a fresh state starts an episode"
    for name, way in WAYS.items():
        ys, _ = way(probe.core, probe.xs, probe.fresh(), first)
        quiet, _ = way(probe.core, probe.xs, probe.fresh(), quietly)
        used, _ = way(probe.core, probe.xs, probe.used(), first)
        probe.close(promise, f"a fresh state without a reset against one with it, through {name}", quiet, ys)
        probe.close(promise, f"a used state with a reset against a fresh one, through {name}", used, ys)


def _check_state_gradient(probe: Probe) -> None:
    state = probe.used()
    if not any(floating(leaf) for leaf in pytree.tree_leaves(state)):
        probe.left_out.append("no gradient into the state: it has no tensors of floats")
        return
    for what, gradient in state_gradients(probe.core, probe.xs, state, probe.no_resets).items():
        largest = max((float(leaf.abs().max()) for leaf in gradient if leaf.numel()), default=0.0)
        probe.checks.append(Check("no gradient into the state", f"differentiated the outputs {what}", largest, 0.0))
    _, after = probe.core.unroll(probe.xs, state, resets=probe.no_resets)
    carried = any(floating(leaf) and leaf.requires_grad for leaf in pytree.tree_leaves(after))
    error = "it carries a gradient to the next segment; give state.detach() back"
    probe.holds("no gradient into the state", "looked at the state that unroll gives", not carried, error)


def _check_remembers(probe: Probe, *, forgets: bool) -> None:
    xs = probe.xs.clone()
    xs[:, -2] = probe.other_xs[:, -2]
    ys, _ = run_unroll(probe.core, probe.xs, probe.fresh(), probe.no_resets)
    other, _ = run_unroll(probe.core, xs, probe.fresh(), probe.no_resets)
    ys, other = ys[:, -1], other[:, -1]
    if forgets:
        probe.same_bits("it remembers", "changed the input before the last; the core is meant to have no memory", other, ys)
    else:
        error = "the last output stayed the same; if that is meant, say memoryless=True"
        probe.holds("it remembers", "changed the input before the last", bool((other != ys).any()), error)


def _check_segment_gradient(probe: Probe, *, differences: bool) -> None:
    promise = "gradient through the segment"
    one = slice(0, 1)
    fresh, resets = probe.fresh(1), probe.no_resets[one]
    _, gradient = segment_gradients(probe.core, probe.xs[one], fresh, resets, probe.weight)
    gradient = torch.zeros_like(probe.xs[one]) if gradient is None else gradient
    memory = getattr(probe.core, "memory", None)
    reach = min(3 if memory is None else memory, probe.steps - 1)
    sizes = gradient[0].abs().amax(dim=-1).flip(0)
    for distance in range(reach + 1):
        what = f"differentiated the last output by the input {distance} steps before it"
        probe.holds(promise, what, bool(sizes[distance] > 0), "the gradient is zero")
    late = (torch.arange(probe.steps, device=probe.device) == probe.steps - 2)[None]
    _, past_reset = segment_gradients(probe.core, probe.xs[one], fresh, late, probe.weight)
    if past_reset is not None:
        zero = torch.zeros_like(gradient[:, :-2])
        probe.same_bits("nothing leaks past a reset", "differentiated by inputs before a reset", past_reset[:, :-2], zero)
    if not differences:
        probe.left_out.append("finite differences: bfloat16 is too coarse")
        return
    # Along directions that leave the last input alone, so that the share of the earlier steps stands by itself.
    small = 0.003
    directions = probe.directions.clone()
    directions[:, -1] = 0.0
    xs = probe.xs[one].expand_as(probe.xs)
    ahead, _ = run_unroll(probe.core, xs + small * directions, probe.fresh(), probe.no_resets)
    behind, _ = run_unroll(probe.core, xs - small * directions, probe.fresh(), probe.no_resets)
    measured = (ahead - behind)[:, -1] @ probe.weight / (2 * small)
    claimed = (directions * gradient).sum(dim=(1, 2))
    off = float((claimed - measured).norm()) / max(float(measured.norm()), 1e-6)
    probe.checks.append(Check(promise, "gradient by earlier inputs against finite differences", off, DERIVATIVE_TOLERANCE))


def _check_window(probe: Probe) -> None:
    if probe.window is None:
        probe.left_out.append("the window: the core has no `memory` and `layers`")
        return
    steps = max(probe.steps, probe.window + 2)
    xs = torch.cat([probe.xs[:1]] * (-(-steps // probe.steps)), dim=1)[:, :steps]
    at, last = torch.arange(steps, device=probe.device)[None, :, None], steps - 1 - probe.window
    resets = torch.zeros(1, steps, dtype=torch.bool, device=probe.device)
    ys, _ = run_unroll(probe.core, xs, probe.fresh(1), resets)
    other, _ = run_unroll(probe.core, torch.where(at < last, -100 * xs, xs), probe.fresh(1), resets)
    probe.same_bits("the window", f"changed every input more than {probe.window} steps back", other[:, -1], ys[:, -1])
    # Through many layers the effect may be lost in rounding, but not its gradient; without a gradient there is still the effect.
    other, _ = run_unroll(probe.core, torch.where(at == last, -100 * xs, xs), probe.fresh(1), resets)
    _, gradient = segment_gradients(probe.core, xs, probe.fresh(1), resets, probe.weight)
    seen = bool((other[:, -1] != ys[:, -1]).any()) or (gradient is not None and bool((gradient[:, last] != 0).any()))
    probe.holds("the window", f"changed the input {probe.window} steps back", seen, "the output does not depend on it")


def _check_finite(probe: Probe) -> None:
    for what, xs in (("random inputs", probe.xs), ("zeros", 0 * probe.xs)):
        for name, way in WAYS.items():
            ys, _ = way(probe.core, xs, probe.fresh(), probe.resets)
            probe.holds("finite", f"{name} on {what}", bool(ys.isfinite().all()), "an output is not finite")
        of_core, of_xs = segment_gradients(probe.core, xs, probe.used(), probe.resets, probe.weight)
        finite = all(bool(leaf.isfinite().all()) for leaf in (*of_core, of_xs) if leaf is not None)
        probe.holds("finite", f"gradients of an unroll on {what}", finite, "a gradient is not finite")


def _check_deterministic(probe: Probe) -> None:
    for one, two in zip(pytree.tree_leaves(probe.fresh()), pytree.tree_leaves(probe.fresh()), strict=True):
        probe.same_bits("deterministic", "asked twice for an initial state", two, one)
    for name, way in WAYS.items():
        once, _ = way(probe.core, probe.xs, probe.fresh(), probe.resets)
        twice, _ = way(probe.core, probe.xs, probe.fresh(), probe.resets)
        probe.same_bits("deterministic", f"the same {name} twice", twice, once)
