"""Libraries for levels of processors: the fastest that runs here is taken, none that does not fit, and all give the same."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

from gtrxl import machine
from gtrxl.cores import kernels
from gtrxl.cores.kernels import levels, library
from gtrxl.networks.kernels.torso import TORSO

HERE = Path(__file__).parent

V3 = "fpu sse2 avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"  # of a Haswell, in part
V4 = f"{V3} avx512f avx512bw avx512cd avx512dq avx512vl"  # of a Skylake server


@pytest.mark.parametrize(("flags", "runs"), [
    ("fpu sse sse2", ("x86-64",)),
    (V3.replace("fma ", ""), ("x86-64",)),
    (V3, ("x86-64-v3", "x86-64")),
    (V4.replace("avx512vl", ""), ("x86-64-v3", "x86-64")),  # a Knights Landing has AVX-512 without this
    (V4, ("x86-64-v4", "x86-64-v3", "x86-64")),
])  # fmt: skip
def test_what_a_processor_can_run_and_the_fastest_first(monkeypatch, flags, runs):
    monkeypatch.setattr(levels.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(machine, "processor", lambda: f"flags\t\t: {flags}\nmodel name\t: a processor with avx512f in its name")
    assert levels.run_here() == runs


def test_other_kinds_of_processors_have_one_level_or_none(monkeypatch):
    for kind, runs in {"aarch64": ("arm64",), "arm64": ("arm64",), "riscv64": ()}.items():
        monkeypatch.setattr(levels.platform, "machine", lambda kind=kind: kind)
        assert levels.run_here() == runs
    assert levels.flags("arm64") == ()
    assert levels.flags("native") == ("-march=native",)


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """A folder as a wheel has it, on a processor of the third level; gives a function that puts a library there."""
    monkeypatch.setattr(library, "INSIDE", tmp_path)
    monkeypatch.setattr(levels, "of_wheels", lambda: ("x86-64-v4", "x86-64-v3", "x86-64"))
    monkeypatch.setattr(levels, "run_here", lambda: ("x86-64-v3", "x86-64"))
    monkeypatch.setattr(library, "_can_be_loaded", lambda file: "cannot" not in file.read_text())
    monkeypatch.setattr(library, "ffi_version", lambda: (0, 3))
    monkeypatch.setattr(library, "compiler", lambda: "c++")
    monkeypatch.delenv(levels.LEVEL, raising=False)

    def put(level, *, of=library.CORES, ffi="0.1", contents=None, text=""):
        file = tmp_path / f"{of.name}-{level}-ffi{ffi}-{contents or library._contents(of, level)}.so"
        file.write_text(text)
        return file

    return put


def test_the_wheel_s_library_for_this_processor_is_taken(wheel):
    assert library.CORES.inside() is None
    baseline = wheel("x86-64")
    assert library.CORES.inside() == library.CORES.place() == library.CORES.build() == baseline
    wheel("x86-64-v4")  # which this processor cannot run
    assert library.CORES.inside() == baseline
    third = wheel("x86-64-v3")
    assert library.CORES.inside() == third
    assert TORSO.inside() is None
    other = wheel("x86-64-v3", of=TORSO)
    assert (library.CORES.inside(), TORSO.inside()) == (third, other)


def test_what_does_not_fit_is_not_taken(wheel, monkeypatch):
    wheel("x86-64-v3", ffi="0.4")  # a newer XLA's
    wheel("x86-64-v3", ffi="1.0")
    wheel("x86-64-v3", text="cannot be loaded")
    wheel("x86-64-v3", contents="0" * 16)  # of other sources
    assert library.CORES.inside() is None
    assert library.CORES.place().parent == machine.cache_folder()
    fits = wheel("x86-64", ffi="0.3")
    assert library.CORES.inside() == fits
    monkeypatch.setattr(library, "FLAGS", (*library.FLAGS, "-O1"))
    library._contents.cache_clear()
    assert library.CORES.inside() is None
    library._contents.cache_clear()


def test_a_level_that_is_asked_for(wheel, monkeypatch):
    baseline = wheel("x86-64")
    wheel("x86-64-v3")
    monkeypatch.setenv(levels.LEVEL, "x86-64")
    assert library.CORES.inside() == baseline
    monkeypatch.setenv(levels.LEVEL, "native")
    assert library.CORES.inside() is None
    monkeypatch.setenv(levels.LEVEL, "x86-64-v4")
    with pytest.raises(kernels.NativeError, match="a level that this processor has, got x86-64-v4; choose one of native, x"):
        library.CORES.inside()


def test_the_version_is_that_of_the_headers():
    text = (Path(jax.ffi.include_dir()) / "xla/ffi/api/c_api.h").read_text()
    major, minor = library.ffi_version()
    assert f"#define XLA_FFI_API_MAJOR {major}\n" in text
    assert f"#define XLA_FFI_API_MINOR {minor}\n" in text


COMPARISONS = (
    "prepared_steps or gates_of_inputs or unrolls or attention_to or those_of_xla or not_lost or shows_in_xla or reaches"
)


@pytest.mark.slow
@pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")
@pytest.mark.parametrize("level", levels.run_here()[1:])  # the first has the vectors of this machine's own library
def test_every_level_gives_what_xla_gives(level):
    """The tests that hold the libraries to the XLA form, once more; libraries are compiled unless the cache has them."""
    files = [HERE / "test_native.py", HERE / "test_not_finite.py", HERE.parent / "networks" / "test_native_torso.py"]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-m", "not slow", "-k", COMPARISONS, *files]
    given = {**os.environ, levels.LEVEL: level, "GTRXL_NATIVE": "1"}
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stdout
