"""Compiled maps of DeepMind Lab, kept in a folder: making one takes up to a minute, copying it no time.

Any number of processes may use one folder at once: a file is there whole or not at all. A cache must never be what stops a Lab,
so what goes wrong here only means that a map is compiled again. The folder has a bound: maps that nobody has used for longest go
first.
"""

import contextlib
import hashlib
import os
import shutil
import tempfile
import time
from pathlib import Path

from gtrxl.machine import cache_folder

MEGABYTES = 4096
"""What the maps of a folder may take together, unless something else is said."""
_ROOM = 0.9
"""How much of that is kept where there is more, so that not every new map has to make room for itself."""
_PART = ".part-"
_LEFT_OVER = 3600.0
"""Seconds after which a copy that is not whole is nobody's any more."""


def usual_folder() -> Path:
    """Where maps are kept unless something else is said."""
    return cache_folder() / "dmlab"


class LevelCache:
    """What `deepmind_lab.Lab` takes as `level_cache`."""

    def __init__(self, folder: str | Path, *, megabytes: int = MEGABYTES):
        self.folder = Path(folder).expanduser()
        self.most_bytes = megabytes * 10**6

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the map of this key to `pk3_path`, if it is kept here; whether it was."""
        place = self._place(key)
        try:
            _copy(place, Path(pk3_path))
        except OSError:
            return False
        with contextlib.suppress(OSError):  # its time says when it was last used
            os.utime(place)
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Keeps a map."""
        with contextlib.suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            _copy(Path(pk3_path), self._place(key))
            self._make_room()

    def _make_room(self) -> None:
        """Removes what was not used for longest, if there is too much; others may do the same at the same time."""
        found, now = [], time.time()
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    about = entry.stat()
                    if entry.name.endswith(".pk3"):
                        found.append((about.st_mtime, about.st_size, entry.path))
                    elif entry.name.startswith(_PART) and now - about.st_mtime > _LEFT_OVER:
                        os.unlink(entry.path)
        total = sum(size for _, size, _ in found)
        if total <= self.most_bytes:
            return
        for _, size, path in sorted(found):
            if total <= _ROOM * self.most_bytes:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            total -= size

    def _place(self, key: str) -> Path:
        # A key is Lab's own text: it may hold what a file's name must not.
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()}.pk3"


def _copy(source: Path, to: Path) -> None:
    """All of it or nothing."""
    with source.open("rb") as read:
        handle, part = tempfile.mkstemp(dir=to.parent, prefix=_PART)
        try:
            with os.fdopen(handle, "wb") as write:
                shutil.copyfileobj(read, write)
            Path(part).replace(to)
        except BaseException:
            Path(part).unlink(missing_ok=True)
            raise
