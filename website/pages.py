"""What the site has besides docs/*.md, for MkDocs: a hook that adds pages and leads links to them.

Pages are written for GitHub: they link to README.md, to examples and to sources, which lie outside of docs/. Here the first
become pages of the site, and whatever else is linked becomes a page that shows the file. So every link stays within the site.
"""

import ast
import os
import posixpath
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src" / "gtrxl"

OWN = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md",
       "CHANGELOG.md": "changelog.md", "examples/tour.ipynb": "tour.ipynb"}  # fmt: skip
"""Files of the repository that are pages of the site."""
NAVIGATION = {
    "Start": ["index.md", "start.md", "tour.ipynb", "zoo.md", "gallery.md"],
    "How to": [
        "your-task.md", "your-core.md", "cores.md", "algorithms.md", "scale.md", "deploy.md", "pytorch.md", "sb3.md",
        "torchrl.md", "rllib.md", "flax.md", "reproduce.md", "dmlab.md",
    ],
    "Tasks": ["tasks.md", "levels.md"],
    "Reference": ["api.md", "reference/"],
    "Measurements": ["learning.md", "measurements.md", "public.md", "rivals.md", "report.md", "log.md"],
    "Inside": ["how-it-works.md", "architecture.md", "reliability.md", "contributing.md", "changelog.md"],
}  # fmt: skip
"""Sections and their pages, those that exist. A page that is in none comes under `MORE`."""
MORE = "How to"
TITLES = {"index.md": "gtrxl", "start.md": "First steps", "api.md": "Public names", "log.md": "What did not work"}
"""Where the navigation says something else than the page's heading."""

PICTURES = (".png", ".svg", ".gif", ".jpg", ".webp")
LANGUAGES = {".py": "python", ".toml": "toml", ".sh": "bash", ".yml": "yaml", ".json": "json", ".cc": "cpp", ".h": "cpp"}
FENCED = re.compile(r"(^```.*?^```[^\n]*$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(\[[^\[\]]*\]\(|\]\()([^)\s]+)(\))")

_pages: dict[str, Path] = {}
"""A page's address on the site -> where its text is in the repository, if it was written for that place."""


@event_priority(100)  # before the plugin that takes notebooks
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds pages, pictures and the navigation."""
    _pages.clear()
    _pages.update({file.src_uri: DOCS / file.src_uri for file in files if file.src_uri.endswith(".md")})
    for name, address in OWN.items():
        if address.endswith(".md"):
            files.append(File.generated(config, address, content=(ROOT / name).read_text("utf-8")))
            _pages[address] = ROOT / name
        else:
            files.append(_copied(ROOT / name, address, config))
    for path in sorted(_outside()):
        if path.suffix in PICTURES:
            files.append(_copied(path, _address(path), config))
        else:
            shown = File.generated(config, _address(path), content=_shown(path))
            shown.inclusion = InclusionLevel.NOT_IN_NAV
            files.append(shown)
    files.append(File.generated(config, "style.css", content=(Path(__file__).parent / "style.css").read_text("utf-8")))
    files.append(File.generated(config, "gallery.md", content=_gallery()))
    files.append(File.generated(config, "report.html", content=_report()))
    files.append(File.generated(config, "report.md", content=REPORT))
    reference = dict(_reference())
    for address, text in reference.items():
        files.append(File.generated(config, address, content=text))
    config.nav = _navigation({file.src_uri for file in files}, list(reference))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leads links out of docs/ to the pages that stand for their targets."""
    source = _pages.get(page.file.src_uri)
    if source is None:
        return markdown
    here = posixpath.dirname(page.file.src_uri)

    def led(link: re.Match[str]) -> str:
        target = _target(source, link[2])
        if target is None or not target.exists():
            return link[0]
        place = link[2].partition("#")[2]
        address = posixpath.relpath(_address(target), here or ".")
        return f"{_named(link[1], target)}{address}{'#' * bool(place)}{place}{link[3]}"

    parts = FENCED.split(markdown)
    return "".join(part if part.startswith("```") else LINK.sub(led, part) for part in parts)


def _named(begin: str, target: Path) -> str:
    """A link's words: a page that goes by its file's name, as it does on GitHub, by its title."""
    if begin[1:-2].rpartition("/")[2] != target.name or target.suffix != ".md":
        return begin
    title = TITLES.get(_address(target)) or re.search(r"^# (.+)$", target.read_text("utf-8"), re.MULTILINE)
    return begin if title is None else f"[{title if isinstance(title, str) else title[1]}]("


def _target(source: Path, link: str) -> Path | None:
    """The file of the repository that a link of a page leads to."""
    if re.match(r"[a-z]+:", link) or link.startswith("#"):
        return None
    return Path(os.path.normpath(source.parent / link.partition("#")[0]))


def _address(path: Path) -> str:
    """Where a file of the repository is on the site."""
    name = path.relative_to(ROOT).as_posix()
    if name in OWN:
        return OWN[name]
    if path.is_dir():
        return "gallery.md" if path.is_relative_to(DOCS / "img") else f"files/{name}/index.md"
    if path.is_relative_to(DOCS):
        return path.relative_to(DOCS).as_posix()
    return f"files/{name}" if path.suffix in PICTURES else f"files/{name}.md"


def _outside() -> set[Path]:
    """What pages link to and the site has no page for; of a folder, what is in it."""
    found: set[Path] = set()
    for source in _pages.values():
        for link in LINK.findall(FENCED.sub("", source.read_text("utf-8"))):
            target = _target(source, link[1])
            if target is None or not target.exists() or target.is_relative_to(DOCS):
                continue
            found |= {target, *(_listed(target) if target.is_dir() else ())}
    return {path for path in found if path.relative_to(ROOT).as_posix() not in OWN}


def _listed(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if path.suffix in (*LANGUAGES, ".ipynb") and path.name != "__init__.py"]


def _copied(path: Path, address: str, config: MkDocsConfig) -> File:
    file = File(address, src_dir=str(path.parent), dest_dir=config.site_dir, use_directory_urls=config.use_directory_urls)
    file.abs_src_path = str(path)
    return file


def _shown(path: Path) -> str:
    """A page that shows a file, or what is in a folder."""
    name = path.relative_to(ROOT).as_posix()
    begin = f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n# {name}\n\n"
    if path.is_dir():
        here = posixpath.dirname(_address(path))
        lines = [f"- [{each.name}]({posixpath.relpath(_address(each), here)}){_summary(each)}" for each in _listed(path)]
        return begin + "\n".join(lines) + "\n"
    return f"{begin}`````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text('utf-8').rstrip()}\n`````\n"


def _summary(path: Path) -> str:
    told = ast.get_docstring(ast.parse(path.read_text("utf-8"))) if path.suffix == ".py" else None
    return f": {told.splitlines()[0]}" if told else ""


# The gallery and the report.

GALLERY = """# Gallery

The [tasks](tasks.md), and the [first-person levels](levels.md): what the agent sees, and the level from above, which
it does not see. `gtrxl watch RUN` draws an episode of an agent of yours, and `gtrxl play TASK` lets you play.

"""
REPORT = """# Report

`gtrxl report results` makes one page of all that `gtrxl reproduce` has left: every table and figure, the statistics
beside them, and how each was made. [Open the report of this repository's results](report.html); it needs no network.
[Repeat the experiments](reproduce.md) says how the rows came to be.
"""


def _gallery() -> str:
    def cards(pictures: list[Path], kind: str) -> str:
        lines = [f'<div class="{kind}" markdown="block">']
        for path in pictures:
            address = path.relative_to(DOCS).as_posix()
            picture = f"[![{path.stem}]({address}){{ loading=lazy }}]({address})"
            lines.append(f'<figure markdown="span">{picture}<figcaption>{path.stem}</figcaption></figure>')
        return "\n".join([*lines, "</div>\n"])

    moving = sorted((DOCS / "img" / "tasks").glob("*.gif"))
    levels = sorted(path for path in (DOCS / "img" / "levels").glob("*.png") if path.stem != "overview")
    return f"{GALLERY}## Tasks\n\n{cards(moving, 'gallery')}\n## Levels\n\n{cards(levels, 'gallery strips')}"


def _report() -> bytes:
    """By the command, in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "report.html"
        command = [sys.executable, "-m", "gtrxl", "report", str(ROOT / "results"), "--to", str(place)]
        given = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
        subprocess.run(command, check=True, env=given, cwd=folder, stdout=subprocess.DEVNULL)
        return place.read_bytes()


# The reference.


def _reference() -> Iterator[tuple[str, str]]:
    """A page for each package, those inside of others too: what its modules say of themselves."""
    packages: dict[str, Path] = {}
    for path in sorted(SOURCE.rglob("__init__.py")):
        if path.parent != SOURCE and _modules(path.parent):
            packages[".".join(path.parent.relative_to(SOURCE).parts)] = path.parent
    lines = [
        f"{'  ' * name.count('.')}- [`gtrxl.{name}`]({name}.md){_summary(each / '__init__.py')}"
        for name, each in packages.items()
    ]
    begin = "# Modules\n\nFrom the docstrings. [The public names](../api.md) are on one page.\n\n"
    yield "reference/index.md", begin + "\n".join(lines)
    for name, each in packages.items():
        parts = [f"# gtrxl.{name}", _summary(each / "__init__.py")[2:]]
        inside = [other for other in packages if other.rpartition(".")[0] == name]
        if inside:
            parts.append("In pages of their own: " + ", ".join(f"[`{other}`]({other}.md)" for other in inside) + ".")
        yield f"reference/{name}.md", "\n\n".join([*parts, *(f"::: gtrxl.{name}.{module}" for module in _modules(each))])


def _modules(package: Path) -> list[str]:
    return [path.stem for path in sorted(package.glob("*.py")) if not path.stem.startswith("_")]


def _short(page: str) -> str:
    """What there is room for beside a page: `torch.cores`, `levels.rooms`."""
    return ".".join(posixpath.basename(page).split(".")[:-1][-2:])


def _navigation(there: set[str], reference: list[str]) -> list[Any]:
    listed = {page for pages in NAVIGATION.values() for page in pages}
    others = sorted(page for page in there if page.endswith(".md") and "/" not in page and page not in listed)
    sections: list[Any] = []
    for section, pages in NAVIGATION.items():
        found = [page for page in pages if page in there] + (others if section == MORE else [])
        entries: list[Any] = [{TITLES[page]: page} if page in TITLES else page for page in found]
        modules = [{_short(page): page} for page in reference[1:]]
        sections.append({section: [*entries, {"Modules": [reference[0], *modules]}] if "reference/" in pages else entries})
    return sections
