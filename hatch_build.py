"""How wheels are built: with the native libraries inside, for every level of processor, where there is a compiler.

Both the build backend (pyproject.toml's `build-backend`), which is Hatchling and one answer more, and Hatchling's hook. The
libraries need the headers of jaxlib and the description of a block in Python: so a wheel is built with JAX and Equinox in its
environment. An editable install needs none of it and compiles nothing, and the same holds for the source distribution.

    GTRXL_WHEEL=0      a wheel without libraries, for every system
    GTRXL_WHEEL=1      one with them, or no wheel
"""

import importlib
import os
import platform
import shutil
import sys
import sysconfig
import tempfile
import types
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from hatchling import build as hatchling

# What a backend has; all but one are Hatchling's.
from hatchling.build import *  # noqa: F403
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
SWITCH = "GTRXL_WHEEL"
HEADERS = ("jax>=0.7,<0.8", "equinox>=0.13")
"""What compiling needs. XLA takes libraries that were built for an older version of its interface and none for a newer one: so
this is the oldest JAX that the package goes with."""
INSIDE = "gtrxl/cores/kernels/built"
"""Where the package looks for them (`gtrxl.cores.kernels.library.INSIDE`)."""


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What a wheel is built with. An editable install is not asked this."""
    return [*hatchling.get_requires_for_build_wheel(config_settings), *(HEADERS if _can_compile() else ())]


class Libraries(BuildHookInterface):
    """Compiles the libraries of a wheel, and names the wheel after the system they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel's files are gathered."""
        if self.target_name != "wheel" or version == "editable" or not _can_compile():
            return
        self._folder = Path(tempfile.mkdtemp())
        try:
            files = _compiled(self._folder)
        except Exception as error:  # a compiler that is too old; the package may find a better one where it is used
            if os.environ.get(SWITCH) == "1":
                raise
            self.app.display_warning(f"gtrxl: a wheel without native libraries, because {error}")
            return
        for file in files:
            build_data["force_include"][str(file)] = f"{INSIDE}/{file.name}"
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{_platform()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """When the wheel is there."""
        if getattr(self, "_folder", None) is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _can_compile() -> bool:
    wish = os.environ.get(SWITCH, "auto")
    if wish not in ("0", "1", "auto"):
        raise ValueError(f"{SWITCH} must be 0 (no libraries), 1 (or fail) or auto (if there is a compiler), got {wish!r}")
    if wish == "0":
        return False
    asked = os.environ.get("CXX", "")
    found = os.name == "posix" and any(map(shutil.which, (asked,) if asked else ("c++", "g++", "clang++")))
    if wish == "1" and not found:
        raise RuntimeError(f"{SWITCH}=1 asks for libraries in the wheel, and there is no C++ compiler; install g++ or clang++")
    return found


def _compiled(folder: Path) -> list[Path]:
    """Every library for every level, in a folder."""
    for name in ("gtrxl", "gtrxl.cores", "gtrxl.networks"):  # without what they import, which is not installed here
        package = sys.modules[name] = types.ModuleType(name)
        package.__path__ = [str(ROOT / "src" / name.replace(".", "/"))]
    library = importlib.import_module("gtrxl.cores.kernels.library")
    levels = importlib.import_module("gtrxl.cores.kernels.levels")
    torso = importlib.import_module("gtrxl.networks.kernels.torso")
    os.environ.setdefault("MACOSX_DEPLOYMENT_TARGET", "11.0")  # the first with these processors
    # Linux: it runs whatever C++ library a user has. What only a debugger reads is left out.
    link = ("-static-libstdc++", "-static-libgcc", "-s") if sys.platform == "linux" else ()
    wanted = [(each, level) for each in (library.CORES, torso.TORSO) for level in levels.of_wheels()]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        return list(threads.map(lambda pair: pair[0].build_for_wheel(folder, level=pair[1], link=link), wanted))


def _platform() -> str:
    """This system in a wheel's name. `auditwheel repair` says which versions of Linux it is for."""
    if sys.platform == "darwin":  # not what Python was built for, which may be several kinds of processors
        return f"macosx_{os.environ['MACOSX_DEPLOYMENT_TARGET'].replace('.', '_')}_{platform.machine()}"
    return sysconfig.get_platform().replace("-", "_").replace(".", "_")
