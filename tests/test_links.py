"""Every page: its links and anchors lead somewhere, its paths exist, and its lines can be read in any editor."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path for folder in ("", "docs", "examples", "tests/golden") for path in (ROOT / folder).glob("*.md") if path.is_file()
)
LONGEST = 120
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)


def prose(page: Path) -> str:
    """Without programs and their output."""
    return FENCED.sub("", page.read_text())


def anchor(heading: str) -> str:
    """As GitHub makes them: letters, digits, hyphens and underscores, spaces become hyphens."""
    text = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading.strip().lower())
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    broken = []
    for link in LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, place = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            broken.append(link)
        elif place and target.suffix == ".md" and place not in anchors(target):
            broken.append(f"{link}: there are {sorted(anchors(target))}")
    assert not broken, broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_paths_that_are_named_exist(page):
    if page.name in ("log.md", "CHANGELOG.md"):
        return  # history keeps the names of its time
    named = re.findall(r"`((?:src|tests|benchmarks|examples|docs)/[\w./-]*\w\.\w+)", prose(page))
    assert not [name for name in named if "NAME" not in name and not (ROOT / name).exists()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_of_prose_are_short(page):
    lines = prose(page).splitlines()
    long = [
        (number, len(line))
        for number, line in enumerate(lines, 1)
        if len(line) >= LONGEST and not line.startswith(("|", "    ", "![")) and " " in line.strip(" -*")
    ]
    assert not long, f"wrap these lines (without programs): {long}"


def test_every_page_of_the_docs_is_linked_from_the_readme_or_a_page_that_is():
    reached, left = set(), [ROOT / "README.md"]
    while left:
        page = left.pop()
        if page in reached or page.suffix != ".md" or not page.exists():
            continue
        reached.add(page)
        links = (link.partition("#")[0] for link in LINK.findall(prose(page)) if not re.match(r"[a-z]+:", link))
        left += [(page.parent / link).resolve() for link in links if link]
    lost = {page.name for page in (ROOT / "docs").glob("*.md")} - {page.name for page in reached}
    assert not lost, lost
