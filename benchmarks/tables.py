"""Rows -> tables, and rows -> targets met or not met. Knows rows alone: nothing here measures."""

import math
import statistics
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from contenders.ours import LEARN, LEARN_SPREAD, LOOP, LOOP_SPREAD, STEP
from race import many, short

LOOPS, LEARNS = (LOOP, LOOP_SPREAD), (LEARN, LEARN_SPREAD)
Row = dict[str, Any]
BUSY = 0.3
"""Load per processor from which other programs must be expected to disturb."""
FEW = 3
"""Fewer samples than this prove nothing."""
LINEAR_TOLERANCE = 0.1
"""How far above 1 an exponent over a part of the range may come out and still count as linear: noise, caches."""


def is_busy(about: Row) -> bool:
    """Whether other programs ran when this one began."""
    return about["load_before"] > BUSY * about["processors"]


def show_machine(console: Console, about: Row, limits: Any, missing: dict[str, str]) -> None:
    """Processor, versions, limits, and who is missing."""
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    console.print(f"{about['processor']}, {about['processors']} processors, load {about['load_before']:.1f} before the run")
    console.print(
        f"threads: XLA {about['threads']}, torch 1 or {about['torch_threads'] or '-'}, whichever is faster "
        f"(OMP_WAIT_POLICY {about['omp_wait_policy'] or 'unset'}); Python {about['python']}; {versions}"
    )
    library = "yes" if about["native_library"] else "no"
    console.print(f"gtrxl's native library: {library}; GLIBC_TUNABLES {about['glibc_tunables'] or 'unset'}")
    console.print(f"commit {about['commit'] or 'unknown'}")
    if is_busy(about):
        console.print("[red]Other programs are running: these numbers are noisy, shares of limits most of all.[/red]")
    table = _table("limits", "what", "median", "slowest..fastest")
    for name, rates in limits.rates.items():
        unit = "Gflop/s" if " x " in name else "GB/s"
        chosen = " *" if name in (limits.matmul.name, limits.read.name) else ""
        spread = f"{short(min(rates) / 1e9)}..{short(max(rates) / 1e9)}"
        table.add_row(name + chosen, f"{statistics.median(rates) / 1e9:.1f} {unit}", spread)
    console.print(table)
    console.print(
        "* shares below are of these (reads: an array of 1 GiB), or of their median in the same table if that is higher"
    )
    for name, why in missing.items():
        console.print(f"missing: {name}: {why}", markup=False)


def show_acting(console: Console, rows: list[Row]) -> None:
    """Steps per second of one size and number of streams."""
    table = _table(
        f"acting, steps/s: {rows[0]['size']}, {many(rows[0]['streams'])}",
        "", "parameters", "steps/s", "slowest..fastest", "samples", "x RLlib", "of reading\nM once", "of reading\nK, V once",
        "of matmul\npeak",
    )  # fmt: skip
    for row in rows:
        table.add_row(
            _name(row), f"{row['parameters']:,}", short(row["rate"]), row["spread"], str(len(row["rates"])),
            _times(row["times_rllib"]), _share(row.get("share_reading_inputs")),
            _share(row.get("share_reading_keys_and_values")), _share(row.get("share_of_matmul_peak")),
        )  # fmt: skip
    console.print(table)


def show_learning(console: Console, rows: list[Row]) -> None:
    """Frames per second of one size and number of streams."""
    table = _table(
        f"learning, frames/s forward and backward: {rows[0]['size']}, {many(rows[0]['streams'])}",
        "", "parameters", "frames/s", "slowest..fastest", "samples", "ours is\nx this", "useful\nGflop/s", "of jnp\npeak",
        "of torch\npeak",
    )  # fmt: skip
    for row in rows:
        flops = row.get("useful_flops_per_second")
        table.add_row(
            _name(row), f"{row['parameters']:,}", short(row["rate"]), row["spread"], str(len(row["rates"])),
            _times(row["ours_times_this"]), short(flops / 1e9) if flops else "-", _share(row.get("share_of_matmul_peak")),
            _share(row.get("share_of_torch_peak")),
        )  # fmt: skip
    console.print(table)


def show_growth(console: Console, rows: list[Row]) -> None:
    """Time and bytes against memory length, and the exponents."""
    table = _table(
        f"cost against memory length: {rows[0]['size']}, {many(rows[0]['streams'])}",
        "memory", "acting, us per step", "x before", "learning, us per frame", "x before", "state bytes per stream",
        "prepared",
    )  # fmt: skip
    before: Row | None = None
    for row in rows:
        ratios = [row[key] / before[key] if before else None for key in ("acting_seconds", "learning_seconds")]
        table.add_row(
            f"{row['memory']:,}", short(1e6 * row["acting_seconds"]), _times(ratios[0]), short(1e6 * row["learning_seconds"]),
            _times(ratios[1]), f"{row['state_bytes_plain']:,}", f"{row['state_bytes_prepared']:,}",
        )  # fmt: skip
        before = row
    console.print(table)
    for each in growth(rows):
        console.print(
            f"{each['size']}, {each['what']}: time ~ memory^{each['exponent']:.2f} over the range, "
            f"^{each['exponent_upper']:.2f} over its upper half"
        )


def growth(rows: list[Row]) -> list[Row]:
    """Exponents of time against memory length, least squares of the logarithms: whole range, and its upper half."""
    found = []
    of_memory = [row for row in rows if row["part"] == "memory"]
    for size in dict.fromkeys(row["size"] for row in of_memory):
        of_size = [row for row in of_memory if row["size"] == size]
        if len(of_size) < 2:
            continue
        upper = of_size[min(len(of_size) // 2, len(of_size) - 2) :]
        for what in ("acting", "learning"):
            exponents = [_slope([(row["memory"], row[f"{what}_seconds"]) for row in part]) for part in (of_size, upper)]
            found.append({"size": size, "what": what, "exponent": exponents[0], "exponent_upper": exponents[1]})
    return found


def _slope(points: list[tuple[float, float]]) -> float:
    xs, ys = zip(*((math.log(x), math.log(y)) for x, y in points), strict=True)
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / sum((x - x_mean) ** 2 for x in xs)


def judge(rows: list[Row], *, busy: bool) -> list[Row]:
    """The targets, each with the worst value measured, where that was, and whether it is met (None: not measured).

    A verdict is `noisy`, and proves nothing, if other programs ran or if it rests on too few samples.
    """
    acting = [row for row in rows if row["part"] == "acting"]
    learning = [row for row in rows if row["part"] == "learning"]
    targets: list[Row] = []

    def add(
        what: str, of: list[Row], value: Callable[[Row], float | None], *, least: float, form: Callable[[float], str]
    ) -> None:
        measured = [(number, row) for row in of if (number := value(row)) is not None]
        number, row = min(measured, key=lambda pair: pair[0], default=(None, None))
        where = f"{row['size']}, {many(row['streams'])}, {row['name']}; samples: {len(row['rates'])}" if row else "-"
        met = None if number is None else number >= least
        text = "-" if number is None else form(number)
        noisy = row is not None and (busy or len(row["rates"]) < FEW)
        targets.append(
            {"target": f"{what}: {form(least)}", "value": number, "shown": text, "where": where, "met": met, "noisy": noisy}
        )

    def fastest(of: list[Row], *names: str, **fixed: Any) -> list[Row]:
        """For each size and number of streams, the fastest of these: on one device or on one for each core, as torch has its
        better number of threads."""
        best: dict[tuple[str, int], Row] = {}
        for row in of:
            if row["name"] in names and all(row[key] == value for key, value in fixed.items()):
                cell = (row["size"], row["streams"])
                best[cell] = max(best.get(cell, row), row, key=lambda row: row["rate"])
        return list(best.values())

    def rllib(row: Row) -> float | None:
        return row["times_rllib"]

    add("acting, paper, 64 streams, x RLlib", fastest(acting, *LOOPS, size="paper", streams=64), rllib, least=30, form=_times)
    add("acting, never slower than RLlib, compiled loop", fastest(acting, *LOOPS), rllib, least=1, form=_times)
    add("acting, never slower than RLlib, step by step", fastest(acting, STEP), rllib, least=1, form=_times)
    for size in ("small", "paper"):
        of = fastest(acting, *LOOPS, size=size)
        add(f"acting, {size}, of reading weights and M once", of, lambda row: row["share_reading_inputs"], least=0.5, form=_share)
        add(
            f"acting, {size}, of reading weights and K, V once",
            of,
            lambda row: row["share_reading_keys_and_values"],
            least=0.5,
            form=_share,
        )
    for size in ("small", "paper"):
        of = [row for row in learning if row["size"] == size]
        same = [row for row in of if row["same_model"] and row["name"] not in LEARNS]
        add(
            f"learning, {size}, x the fastest of the same model", same, lambda row: row["ours_times_this"], least=1.2, form=_times
        )
        lighter = [row for row in of if row["name"] == "memorax, GRU gates"]
        add(f"learning, {size}, x memorax (does less)", lighter, lambda row: row["ours_times_this"], least=1.2, form=_times)
    mine = fastest(learning, *LEARNS, size="paper")
    mine = [row for row in mine if row["streams"] == max(row["streams"] for row in mine)]
    add(
        "learning, paper, most streams, of the matmul peak",
        mine,
        lambda row: row["share_of_matmul_peak"],
        least=0.75,
        form=_share,
    )
    mine = fastest(learning, *LEARNS, size="small", streams=16)
    add("learning, small, 16 streams, frames/s", mine, lambda row: row["rate"], least=20_000, form=short)
    for each in growth(rows):
        met = each["exponent"] <= 1 and each["exponent_upper"] <= 1 + LINEAR_TOLERANCE
        shown = f"^{each['exponent']:.2f}, upper half ^{each['exponent_upper']:.2f}"
        what = f"{each['what']} time against memory length: no faster than linear"
        targets.append(
            {"target": what, "value": each["exponent"], "shown": shown, "where": each["size"], "met": met, "noisy": busy}
        )
    return targets


def show_targets(console: Console, targets: list[Row]) -> None:
    """Met, not met, or not measured in this run."""
    table = _table("targets", "at least, unless it says otherwise", "worst measured", "where", "")
    table.columns[2].justify = "left"
    verdict = {True: "[green]met[/green]", False: "[red]not met[/red]", None: "not measured"}
    for target in targets:
        doubt = " (noisy)" if target["noisy"] else ""
        table.add_row(target["target"], target["shown"], target["where"], verdict[target["met"]] + doubt)
    console.print(table)


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column(first)
    for name in others:
        table.add_column(name, justify="right")
    return table


def _name(row: Row) -> str:
    threads = row["threads"]
    return row["name"] if threads is None else f"{row['name']} ({threads} thread{'s' if threads > 1 else ''})"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{short(ratio)}x"


def _share(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
