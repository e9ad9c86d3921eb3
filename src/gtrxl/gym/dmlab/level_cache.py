"""Compiled maps of DeepMind Lab, kept in a folder: making one takes up to a minute, copying it no time.

Any number of processes may use one folder at once: a file is there whole or not at all. A cache must never be what stops a Lab,
so what goes wrong here only means that a map is compiled again.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from gtrxl.machine import cache_folder


def usual_folder() -> Path:
    """Where maps are kept unless something else is said."""
    return cache_folder() / "dmlab"


class LevelCache:
    """What `deepmind_lab.Lab` takes as `level_cache`."""

    def __init__(self, folder: str | Path):
        self.folder = Path(folder).expanduser()

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the map of this key to `pk3_path`, if it is kept here; whether it was."""
        try:
            _copy(self._place(key), Path(pk3_path))
        except OSError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Keeps a map."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            _copy(Path(pk3_path), self._place(key))

    def _place(self, key: str) -> Path:
        # A key is Lab's own text: it may hold what a file's name must not.
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.pk3"


def _copy(source: Path, to: Path) -> None:
    """All of it or nothing."""
    with source.open("rb") as read:
        handle, part = tempfile.mkstemp(dir=to.parent, prefix=".part-")
        try:
            with os.fdopen(handle, "wb") as write:
                shutil.copyfileobj(read, write)
            Path(part).replace(to)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
