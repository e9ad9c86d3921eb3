"""The counts as tables, and the page that they stand on."""

from collections import Counter
from pathlib import Path
from typing import Any

from .cases import OUTCOMES

BEGIN, END = "<!-- counts: written by benchmarks/faults.py -->", "<!-- end of counts -->"
KILLED = ("compiled", "learner", "sweep")
PROMISED = {"SIGKILLs of runs": (KILLED, 50), "damaged files": (("damage",), 200), "hostile folders": (("hostile",), 20),
            "kills on Ray": (("ray",), 10)}  # fmt: skip
"""What is counted -> the parts it is the sum of, and how many there must be at the least."""


def attacks(data: dict[str, Any], *parts: str) -> int:
    """How often these parts attacked."""
    return sum(case["attacks"] for case in data["cases"] if case["part"] in parts)


def faults(data: dict[str, Any]) -> list[dict[str, Any]]:
    """The cases that did not go as promised."""
    return [case for case in data["cases"] if case["outcome"] == "fault"]


def tables(data: dict[str, Any]) -> str:
    """All counts, as Markdown."""
    cases = data["cases"]
    lines = [
        f"`{data['made_by']}`, {data['date']}, commit {data['commit']}, {data['machine']}, {data['minutes']:.0f} minutes.",
        *[
            f"Parts {', '.join(again['parts'])} again at commit {again['commit']}: {again['why']}."
            for again in data.get("again", ())
        ],
        "",
        "| attack | cases | attacks | what came of it | faults |",
        "|---|---:|---:|---|---:|",
    ]
    for part, about in data["parts"].items():
        mine = [case for case in cases if case["part"] == part]
        ends = Counter(case["outcome"] for case in mine if case["outcome"] != "fault")
        came = "; ".join(f"{count} {OUTCOMES[end]}" for end, count in ends.most_common())
        wrong = sum(case["outcome"] == "fault" for case in mine)
        lines.append(f"| {about} | {len(mine)} | {attacks(data, part)} | {came} | {wrong} |")
    lines += ["", "Damage, by file:", "", "| file | cases | the same | older checkpoint | rows set aside | one line | faults |"]
    lines += ["|---|---:|---:|---:|---:|---:|---:|"]
    for file in dict.fromkeys(case["file"] for case in sorted(cases, key=lambda case: case["file"]) if case["file"]):
        ends = Counter(case["outcome"] for case in cases if case["file"] == file)
        numbers = (ends.total(), ends["same"], ends["older"], ends["rows"], ends["said"], ends["fault"])
        lines.append(f"| {file} | {' | '.join(map(str, numbers))} |")
    if found := faults(data):
        lines += ["", "Faults:", ""]
        lines += [f"- {case['part']} {case['number']}: {_short(case['did'])}: {_short(case['fault'])}" for case in found]
    return "\n".join(lines)


def write(page: Path, data: dict[str, Any]) -> None:
    """Puts the tables between the two marks of a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{page} must have the lines {BEGIN} and {END}; the tables go between them")
    whole = page.with_name(page.name + ".part")
    whole.write_text(f"{before}{BEGIN}\n\n{tables(data)}\n\n{END}{after}")
    whole.replace(page)


def _short(text: str) -> str:
    """One line of a page: no longer than 50 letters, and nothing that Markdown would take for its own."""
    cleaned = "".join(sign for sign in " ".join(text.split()) if sign not in "|`<>[]*")
    return cleaned if len(cleaned) <= 50 else f"{cleaned[:47]}..."
