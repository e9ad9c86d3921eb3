"""What this machine has: its processors, its kind, and the folder where things that were compiled for it are kept."""

import hashlib
import os
import platform
from pathlib import Path

CACHE = "GTRXL_CACHE"
"""The environment variable that names the cache folder."""


def processors() -> int:
    """How many this process may run on."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shares(number: int) -> list[list[int]]:
    """The processors of this process shared out among so many others. Empty shares mean all of them: if there are not enough, or
    where the system cannot say."""
    if not hasattr(os, "sched_getaffinity") or not 1 < number <= processors():
        return [[] for _ in range(number)]
    mine = sorted(os.sched_getaffinity(0))
    return [mine[len(mine) * n // number : len(mine) * (n + 1) // number] for n in range(number)]


def keep_to(share: list[int]) -> None:
    """From here on this process runs on these processors alone; an empty list changes nothing."""
    if share:
        os.sched_setaffinity(0, share)


def memory_bytes() -> int | None:
    """How much memory there is, in all; None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def cache_folder() -> Path:
    """Where compiled things are kept: $GTRXL_CACHE, or gtrxl in the user's cache folder."""
    if os.environ.get(CACHE):
        return Path(os.environ[CACHE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gtrxl"


def processor() -> str:
    """The processor and what it can do: code that was compiled for one may not run on another."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))}))


def features() -> frozenset[str]:
    """What the processor can do, in the system's words; empty where the system does not say."""
    lines = (line.partition(":") for line in processor().splitlines())
    return frozenset(word for name, _, words in lines if name.strip() in ("flags", "Features") for word in words.split())


def kind() -> str:
    """A short name for this kind of machine, for folders of compiled programs."""
    return hashlib.sha256(f"{platform.platform()}\n{processor()}".encode()).hexdigest()[:16]
