"""The tables of docs/measurements.md from the rows that `benchmarks/pixels.py --part torso --out` wrote.

    python benchmarks/torso_page.py docs/data/torso.json

A test holds the page to what this prints.
"""

import json
import sys
from pathlib import Path
from typing import Any

from race import short

OURS, XLA, TORCH = "ours", "ours through XLA", "PyTorch"
PARTS = {"forward": "forward", "learning": "forward and backward"}


def page(data: dict[str, Any]) -> str:
    """The tables as the page has them."""
    peak = data["peak"]
    lines = [
        f"Pictures a second; the matrix-multiply peak of the same run is {short(peak['rate'] / 1e9)} GFLOP/s ({peak['name']},",
        f"{short(min(peak['rates']) / 1e9)} to {short(max(peak['rates']) / 1e9)}).",
    ]
    for part, told in PARTS.items():
        lines += [
            "",
            f"| {told} | ours | slowest to fastest | of the peak | XLA | PyTorch | slowest to fastest | times PyTorch |",
        ]
        lines += ["|---|---:|---|---:|---:|---:|---|---:|"]
        of = [row for row in data["rows"] if row["part"] == part]
        for case in dict.fromkeys((row["channels"], tuple(row["size"])) for row in of):
            by_name = {row["name"]: row for row in of if (row["channels"], tuple(row["size"])) == case}
            mine, xla, theirs = (by_name.get(name) for name in (OURS, XLA, TORCH))
            cells = [f"{case[0]}, {case[1][0]} x {case[1][1]}", *_rate(mine)]
            cells += [f"{mine['share_of_matmul_peak']:.0%}".replace("%", " %") if mine else "-", _rate(xla)[0], *_rate(theirs)]
            cells += [f"{mine['rate'] / theirs['rate']:.1f}" if mine and theirs else "-"]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _rate(row: dict[str, Any] | None) -> tuple[str, str]:
    return (short(row["rate"]), f"{short(min(row['rates']))}-{short(max(row['rates']))}") if row else ("-", "-")


if __name__ == "__main__":
    print(page(json.loads(Path(sys.argv[1]).read_text())))
