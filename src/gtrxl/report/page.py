"""A report: one page that needs nothing beside it, the data of each figure as CSV, and a summary for the terminal. Needs no JAX.

FOLDER/report.html            the page; works from a file, without a network
FOLDER/report/NAME.csv        what a figure is drawn from
FOLDER/report/NAME.svg        the figure alone
"""

import csv
import html
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gtrxl.report.errors import ReportError
from gtrxl.report.rows import Found, read
from gtrxl.report.sections import ReportSection, sections
from gtrxl.report.views import Table

STYLE = Path(__file__).with_name("page.css")
FEW = 10
"""Problems that a page shows unasked."""


def report(folder: str | os.PathLike[str], to: str | os.PathLike[str] | None = None) -> tuple[Path, str]:
    """Reads the rows under a folder, writes the page there (or `to`), and returns its path and a summary in plain text."""
    home = Path(folder)
    if not home.is_dir():
        raise ReportError(f"there is no folder {home}; `gtrxl reproduce ID --out {home}` makes one")
    found = read(home)
    made = sections(found)
    if not made:
        why = f": {found.problems[0]}" if found.problems else ""
        raise ReportError(f"{home} must hold rows of runs that have ended, got none{why}; `gtrxl reproduce` writes them")
    page = Path(to) if to is not None else home / "report.html"
    beside = page.with_suffix("")
    beside.mkdir(parents=True, exist_ok=True)
    for section in made:
        _write(beside / f"{section.name}.csv", section.data)
        _write(beside / f"{section.name}.svg", section.picture.alone())
    _write(page, _page(made, found, beside.name))
    return page, _text(made, found)


def _write(file: Path, what: str | Iterable[Sequence[Any]]) -> None:
    """Text, or rows as CSV; whole or not at all."""
    whole = file.with_name(f"{file.name}.{os.getpid()}.part")
    with whole.open("w", encoding="utf-8", newline="") as stream:
        if isinstance(what, str):
            stream.write(what)
        else:
            csv.writer(stream, lineterminator="\n").writerows(what)
    whole.replace(file)


def _page(made: list[ReportSection], found: Found, beside: str) -> str:
    many = len({each.scale for each in made}) > 1
    links = " ".join(f'<a href="#{each.name}">{each.name if many else each.experiment.id}</a>' for each in made)
    problems = "".join(f"<li>{html.escape(each)}</li>" for each in found.problems)
    some = " open" if len(found.problems) <= FEW else ""
    left_out = (
        f"<details{some}><summary>{len(found.problems)} left out</summary><ul>{problems}</ul></details>" if problems else ""
    )
    body = "".join(_article(each, beside) for each in made)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>gtrxl: the paper's comparisons</title>
<style>{STYLE.read_text("utf-8")}</style>
</head>
<body>
<header>
<h1>The paper's comparisons, made again</h1>
<p>Stabilizing Transformers for Reinforcement Learning (Parisotto et al. 2019), with gtrxl. {len(found.rows)} runs.
Scales are smaller than the paper's unless they say <em>paper</em>: orders can be
compared, sizes of scores cannot. A score of 0 is the random policy's, 100 that of a scripted player with a perfect memory.</p>
<nav>{links}</nav>
{left_out}
</header>
<main>{body}</main>
</body>
</html>
"""


def _article(section: ReportSection, beside: str) -> str:
    experiment, name = section.experiment, section.name
    about = experiment.about[:1].upper() + experiment.about[1:] if experiment.about[:2].isalpha() else experiment.about
    facts = "".join(f"<dt>{html.escape(key)}</dt><dd>{_value(key, value)}</dd>" for key, value in section.facts)
    tests = "".join(f"<li class='{each.verdict.replace(' ', '-')}'>{html.escape(str(each))}</li>" for each in section.comparisons)
    notes = "".join(f"<p class='left'>{html.escape(each)}.</p>" for each in _notes(section))
    return f"""
<article id="{name}">
<h2>{html.escape(experiment.id)} <small>{html.escape(experiment.source)} · {html.escape(section.scale)}</small></h2>
<p>{html.escape(about)}.</p>
<p><b>{"The paper" if experiment.source != "ours" else "Expected"}:</b> {html.escape(experiment.claim)}</p>
<p class="verdict"><b>Here:</b> {html.escape(section.verdict or "nothing to test; the samples are shown as they are.")}</p>
{_figure(section, beside)}
<div class="scroll" tabindex="0">{_table(section.table)}</div>
{f"<details><summary>what was tested</summary><ul class='tests'>{tests}</ul></details>" if tests else ""}
{notes}
<dl>{facts}</dl>
</article>"""


def _figure(section: ReportSection, beside: str) -> str:
    picture = section.picture
    legend = "".join(f'<li><span style="background:{paint}"></span>{html.escape(model)}</li>' for model, paint in picture.legend)
    panels = "".join(f"<div>{panel}</div>" for panel in picture.panels)
    links = " ".join(f'<a href="{beside}/{section.name}.{kind}">{kind.upper()}</a>' for kind in ("csv", "svg"))
    return f"""<figure>{f"<ul class='legend'>{legend}</ul>" if legend else ""}
<div class="panels of{picture.columns}">{panels}</div>
<figcaption>{html.escape(picture.caption)} {links}</figcaption></figure>"""


def _notes(section: ReportSection) -> list[str]:
    """What is not in the averages."""
    notes = []
    if section.left_out:
        notes.append(f"Not averaged: {', '.join(section.left_out)}")
    if section.missing:
        notes.append(f"Not run yet: {section.missing}")
    return notes


def _value(key: str, value: str) -> str:
    told = html.escape(value)
    if key == "command":
        return f"<code>{told}</code>"
    count = len(value.split(", "))
    return f"<details><summary>{count}</summary>{told}</details>" if key == "seeds" and count > FEW else told


def _table(rows: Table) -> str:
    head, *body = rows
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def _text(made: list[ReportSection], found: Found) -> str:
    lines = []
    for section in made:
        lines.append(f"{section.experiment.id} ({section.scale}): {section.experiment.about}")
        widths = [max(len(row[column]) for row in section.table) for column in range(len(section.table[0]))]
        for row in section.table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
        if section.verdict:
            lines.append(f"  {section.verdict}")
        lines += [f"  {note}." for note in _notes(section)]
        lines.append("")
    lines += [f"left out: {each}" for each in found.problems]
    return "\n".join(lines).rstrip() + "\n"
