"""A report: one page that needs nothing beside it, the data of each figure as CSV, and a summary for the terminal. Needs no JAX.

FOLDER/report.html            the page; works from a file, without a network
FOLDER/report/NAME.csv        what a figure is drawn from
FOLDER/report/NAME.svg        the figure alone
"""

import csv
import html
import io
import os
from pathlib import Path

from gtrxl.report.errors import ReportError
from gtrxl.report.rows import Found, read
from gtrxl.report.views import Section, Table, sections

STYLE = Path(__file__).with_name("page.css")


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
        _write(beside / f"{_name(section)}.csv", _csv(section.data))
        _write(beside / f"{_name(section)}.svg", _standing_alone(section.figure))
    _write(page, _page(made, found, beside.name))
    return page, _text(made, found)


def _name(section: Section) -> str:
    return f"{section.experiment.id}-{section.scale}"


def _write(file: Path, text: str) -> None:
    whole = file.with_name(f"{file.name}.{os.getpid()}.part")
    whole.write_text(text, encoding="utf-8")
    whole.replace(file)


def _csv(data: Table) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(data)
    return text.getvalue()


def _standing_alone(figure: str) -> str:
    """The first picture of a figure with the page's colours put in, for those who open the file by itself."""
    first = figure[: figure.index("</svg>") + len("</svg>")]
    return first.replace("currentColor", "#222222").replace("var(--faint, #888)", "#888888")


def _page(made: list[Section], found: Found, beside: str) -> str:
    links = " ".join(f'<a href="#{_name(each)}">{html.escape(each.experiment.id)}</a>' for each in made)
    problems = "".join(f"<li>{html.escape(each)}</li>" for each in found.problems)
    left_out = f"<details open><summary>{len(found.problems)} left out</summary><ul>{problems}</ul></details>" if problems else ""
    body = "".join(_article(each, beside) for each in made)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>gtrxl: the paper's comparisons</title>
<style>{STYLE.read_text()}</style>
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


def _article(section: Section, beside: str) -> str:
    experiment, name = section.experiment, _name(section)
    facts = "".join(f"<dt>{html.escape(key)}</dt><dd>{_value(key, value)}</dd>" for key, value in section.facts)
    tests = "".join(f"<li class='{each.verdict.replace(' ', '-')}'>{html.escape(str(each))}</li>" for each in section.comparisons)
    left = ""
    if section.left_out:
        named = html.escape(", ".join(section.left_out))
        left = f"<p class='left'>Not averaged, because they have not ended: {named}.</p>"
    return f"""
<article id="{name}">
<h2>{html.escape(experiment.id)} <small>{html.escape(experiment.source)} · {html.escape(section.scale)}</small></h2>
<p>{html.escape(experiment.about)}.</p>
<p class="claim"><b>The paper:</b> {html.escape(experiment.claim)}</p>
<p class="verdict"><b>Here:</b> {html.escape(section.verdict or "nothing to test; the samples are shown as they are.")}</p>
<figure>{section.figure}
<figcaption><a href="{beside}/{name}.csv">data</a> <a href="{beside}/{name}.svg">figure</a></figcaption></figure>
<div class="scroll">{_table(section.table)}</div>
{f"<details><summary>what was tested</summary><ul class='tests'>{tests}</ul></details>" if tests else ""}
{left}
<dl>{facts}</dl>
</article>"""


def _value(key: str, value: str) -> str:
    return f"<code>{html.escape(value)}</code>" if key == "command" else html.escape(value)


def _table(rows: Table) -> str:
    head, *body = rows
    top = "".join(f"<th>{html.escape(cell)}</th>" for cell in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{lines}</tbody></table>"


def _text(made: list[Section], found: Found) -> str:
    lines = []
    for section in made:
        lines.append(f"{section.experiment.id} ({section.scale}): {section.experiment.about}")
        widths = [max(len(row[column]) for row in section.table) for column in range(len(section.table[0]))]
        for row in section.table:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            lines.append("  " + "  ".join(cells).rstrip())
        if section.verdict:
            lines.append(f"  {section.verdict}")
        if section.left_out:
            lines.append(f"  not averaged, because they have not ended: {', '.join(section.left_out)}")
        lines.append("")
    lines += [f"left out: {each}" for each in found.problems]
    return "\n".join(lines).rstrip() + "\n"
