"""What a run was made with: the commit, the versions, the command. Written when a run begins, read with its row."""

import contextlib
import importlib.metadata
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import gtrxl
from gtrxl.runs import sealed

PACKAGES = ("jax", "jaxlib", "equinox", "optax", "numpy")


def now() -> dict[str, Any]:
    """Of this process."""
    return {
        "commit": commit(),
        "versions": {
            "gtrxl": gtrxl.__version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def commit() -> str | None:
    """Of the source this runs from, with a + if it was changed since; None for an installed package."""
    home = Path(gtrxl.__file__).parent
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        head = _git(home, "rev-parse", "--short=10", "HEAD")
        if head is None or _git(home, "ls-files", "--error-unmatch", "__init__.py") is None:
            return None
        return head + ("+" if _git(home, "status", "--porcelain", "--untracked-files=no", "--", ".") else "")
    return None


def _git(home: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(home), *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=20, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def write(folder: Path) -> None:
    """Adds this process to those that worked on a run: a run may be begun at one commit and finished at another."""
    file = folder / "provenance.json"
    sessions = _sessions(file)
    this = now()
    if not sessions or sessions[-1] != this:
        whole = folder / "provenance.json.part"
        whole.write_text(json.dumps([*sessions, this], indent=2) + "\n", "utf-8")
        whole.replace(file)


def provenance(folder: Path) -> dict[str, Any]:
    """The commits and versions of a run; empty where they were not written."""
    sessions = _sessions(folder / "provenance.json")
    if not sessions:
        return {"commits": [], "versions": {}}
    return {
        "commits": [commit for each in sessions if (commit := each.get("commit"))],
        "versions": sessions[-1].get("versions", {}),
    }


def _sessions(file: Path) -> list[dict[str, Any]]:
    with contextlib.suppress(OSError, ValueError):
        found = sealed.parse(sealed.content_of(file))
        if isinstance(found, list):
            return [each for each in found if isinstance(each, dict)]
    return []
