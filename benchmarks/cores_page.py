"""The tables of docs/measurements.md from the rows that `benchmarks/cores.py --out` wrote.

    python benchmarks/cores_page.py docs/data/cores.json

A test holds the page to what this prints.
"""

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

from race import short
from tables import LEARNS, LOOPS

Row = dict[str, Any]
TITLES = {
    "acting": "Acting, steps a second (streams x steps)",
    "learning": "Learning, frames a second, forward and backward",
}


def page(data: dict[str, Any]) -> str:
    """All tables, in the order of the page."""
    rows = data["rows"]
    parts = [rates(rows, part, size) for part in TITLES for size in data["sizes"] if _of(rows, part, size)]
    return "\n\n".join([*parts, memory(rows, data["growth"]), verdicts(data["targets"])]) + "\n"


def rates(rows: list[Row], part: str, size: str) -> str:
    """Steps or frames a second by contender and number of streams, and what the fastest of ours comes to."""
    of = _of(rows, part, size)
    streams = sorted({row["streams"] for row in of})
    by_name: dict[str, dict[int, Row]] = {}
    for row in of:
        by_name.setdefault(row["name"], {})[row["streams"]] = row
    lines = [_line("", *(f"{n} stream{'s' if n > 1 else ''}" for n in streams)), "|---|" + "---:|" * len(streams)]
    lines += [_line(name, *(short(cells[n]["rate"]) if n in cells else "-" for n in streams)) for name, cells in by_name.items()]
    mine = LOOPS if part == "acting" else LEARNS
    best = [max((row for row in of if row["streams"] == n and row["name"] in mine), key=lambda row: row["rate"]) for n in streams]
    if part == "acting":
        lines += [
            _line("*the faster of ours, times RLlib*", *(f"{row['times_rllib']:.1f}" for row in best)),
            _line("*of reading weights, keys and values once*", *(_share(row["share_reading_keys_and_values"]) for row in best)),
            _line("*of reading weights and M once*", *(_share(row["share_reading_inputs"]) for row in best)),
        ]
    else:
        lines += [
            _line(
                "*the faster of ours, share of the matrix-multiply peak*", *(_share(row["share_of_matmul_peak"]) for row in best)
            )
        ]
    return f"## {TITLES[part]}: {size}\n\n" + "\n".join(lines)


def memory(rows: list[Row], growth: list[Row]) -> str:
    """Time and bytes against memory length, one group of columns for each size."""
    of = [row for row in rows if row["part"] == "memory"]
    sizes = list(dict.fromkeys(row["size"] for row in of))
    heads = [
        f"{size}: {what}"
        for size in sizes
        for what in ("acting, us a step", "learning, us a frame", "state, bytes a stream", "prepared")
    ]
    lines = [_line("memory", *heads), "|---:|" + "---:|" * len(heads)]
    for length in sorted({row["memory"] for row in of}):
        cells = []
        for row in (row for size in sizes for row in of if row["size"] == size and row["memory"] == length):
            cells += [short(1e6 * row["acting_seconds"]), short(1e6 * row["learning_seconds"])]
            cells += [f"{row['state_bytes_plain']:,}", f"{row['state_bytes_prepared']:,}"]
        lines.append(_line(f"{length:,}", *cells))
    powers = "; ".join(f"{each['size']}, {each['what']} {each['exponent']:.2f} ({each['exponent_upper']:.2f})" for each in growth)
    return (
        f"## Cost against memory length ({of[0]['streams']} streams)\n\n"
        + "\n".join(lines)
        + "\n\n"
        + textwrap.fill(f"Time grows as memory to the power, over the whole range (over its upper half): {powers}.", 116)
    )


def verdicts(targets: list[Row]) -> str:
    """What was aimed at, the worst that was measured, and whether that is enough."""
    lines = [_line("aim", "measured", ""), "|---|---|---|"]
    for target in targets:
        verdict = {True: "met", False: "not met", None: "not measured"}[target["met"]]
        where = target["where"].split(";")[0]
        lines.append(_line(target["target"], f"{target['shown']} ({where})", verdict + (", noisy" if target["noisy"] else "")))
    return "## What is and is not met\n\nThe worst value over numbers of streams:\n\n" + "\n".join(lines)


def _of(rows: list[Row], part: str, size: str) -> list[Row]:
    return [row for row in rows if row["part"] == part and row["size"] == size]


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _share(share: float) -> str:
    return f"{100 * share:.0f} %"


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_file():
        sys.exit(
            f"usage: python benchmarks/cores_page.py FILE, the rows that benchmarks/cores.py --out wrote; got {sys.argv[1:]}"
        )
    print(page(json.loads(Path(sys.argv[1]).read_text())), end="")
