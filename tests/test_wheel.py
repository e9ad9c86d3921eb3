"""How wheels are built: with what compiling needs, and an editable install without it. .ci/run builds one and uses it."""

import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
import types
from pathlib import Path

import pytest

pytest.importorskip("hatchling")

import gtrxl
from gtrxl.cores.kernels import library

ROOT = Path(__file__).parents[1]


@pytest.fixture
def build(monkeypatch):
    """hatch_build.py as an installer imports it: in the project's folder."""
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("GTRXL_WHEEL", raising=False)
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module.shutil, "which", lambda name: f"/usr/bin/{name}")
    return module


def test_a_wheel_needs_jax_and_an_editable_install_does_not(build):
    assert any(each.startswith("jax") for each in build.get_requires_for_build_wheel())
    assert not any(each.startswith("jax") for each in build.get_requires_for_build_editable())
    assert not any(each.startswith("jax") for each in build.get_requires_for_build_sdist())


def test_without_a_compiler_a_wheel_is_built_without_libraries(build, monkeypatch):
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    assert not any(each.startswith("jax") for each in build.get_requires_for_build_wheel())
    monkeypatch.setenv("GTRXL_WHEEL", "1")
    with pytest.raises(RuntimeError, match=r"there is no C\+\+ compiler; install g\+\+ or clang\+\+"):
        build.get_requires_for_build_wheel()


def test_a_compiler_that_fails_is_said_and_the_wheel_is_built_without(build, monkeypatch, tmp_path):
    said = []

    def fails(folder):
        raise RuntimeError("c++ is too old")

    monkeypatch.setattr(build, "_compiled", fails)
    hook = build.Libraries(str(ROOT), {}, None, None, str(tmp_path), "wheel", types.SimpleNamespace(display_warning=said.append))
    data = {"force_include": {}, "pure_python": True}
    hook.initialize("standard", data)
    hook.finalize("standard", data, "")
    assert data == {"force_include": {}, "pure_python": True}
    assert said == ["gtrxl: a wheel without native libraries, because c++ is too old"]
    monkeypatch.setenv("GTRXL_WHEEL", "1")
    with pytest.raises(RuntimeError, match="too old"):
        hook.initialize("standard", data)


def test_an_editable_install_compiles_nothing(build, monkeypatch, tmp_path):
    monkeypatch.setattr(build, "_compiled", lambda folder: pytest.fail("compiled"))
    data = {"force_include": {}}
    build.Libraries(str(ROOT), {}, None, None, str(tmp_path), "wheel", None).initialize("editable", data)
    assert data == {"force_include": {}}


def test_libraries_can_be_left_out(build, monkeypatch):
    monkeypatch.setenv("GTRXL_WHEEL", "0")
    assert not any(each.startswith("jax") for each in build.get_requires_for_build_wheel())
    monkeypatch.setenv("GTRXL_WHEEL", "no")
    with pytest.raises(ValueError, match=r"GTRXL_WHEEL must be 0 .* got 'no'"):
        build.get_requires_for_build_wheel()


def test_libraries_are_put_where_the_package_looks_for_them(build):
    assert ROOT / "src" / build.INSIDE == library.INSIDE


def test_libraries_are_compiled_for_the_oldest_jax_that_the_package_goes_with(build):
    """XLA takes no library that is newer than itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = {re.match(r"[\w-]+", each)[0]: each for each in project["dependencies"]}  # pyright: ignore[reportOptionalSubscript]
    oldest = re.fullmatch(r"jax>=0\.(\d+)", wanted["jax"])
    assert oldest is not None
    assert build.HEADERS[0] == f"{wanted['jax']},<0.{int(oldest[1]) + 1}"
    assert build.HEADERS[1] == wanted["equinox"]


def release(tag, version, tmp_path):
    """What `.ci/version.py` makes of a source with this version, and what it says."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "src" / "gtrxl").mkdir(parents=True)
    script = shutil.copy(ROOT / ".ci" / "version.py", tmp_path / ".ci")
    source = tmp_path / "src" / "gtrxl" / "__init__.py"
    source.write_text(f'"""Before."""\n\n__version__ = "{version}"\n# after\n')
    done = subprocess.run([sys.executable, script, tag], capture_output=True, text=True, check=False)
    before, _, rest = source.read_text().partition('__version__ = "')
    found, _, after = rest.partition('"')
    assert (before, after) == ('"""Before."""\n\n', "\n# after\n")
    assert bool(done.returncode) == bool(done.stderr)
    return found, done.stderr


@pytest.mark.parametrize(("tag", "version", "made"), [
    ("v0.4.0", "0.4.0.dev0", "0.4.0"),
    ("v0.4.0", "0.4.0", "0.4.0"),
    ("v0.4.0rc1", "0.4.0.dev0", "0.4.0rc1"),
])  # fmt: skip
def test_a_release_has_the_version_of_its_tag(tag, version, made, tmp_path):
    assert release(tag, version, tmp_path) == (made, "")


@pytest.mark.parametrize("tag", ["v0.5.0", "0.4.0", "v0.4", "v0.4.0.dev0", "v0.4.0-final", ""])
def test_a_release_is_not_called_what_it_is_not(tag, tmp_path):
    found, said = release(tag, "0.4.0.dev0", tmp_path)
    assert found == "0.4.0.dev0"
    assert said == f"a tag must be v0.4.0, or that and a1, b1 or rc1, for 0.4.0.dev0, got {tag!r}; change one of them\n"


def test_the_source_has_a_version_that_a_tag_can_give():
    base = re.match(r"\d+\.\d+\.\d+", gtrxl.__version__)
    assert base is not None
    text = (ROOT / "src" / "gtrxl" / "__init__.py").read_text()
    assert f'__version__ = "{gtrxl.__version__}"' in text
    released = runpy.run_path(str(ROOT / ".ci" / "version.py"))["released"]
    assert released(f"v{base[0]}", text) == text.replace(gtrxl.__version__, base[0])
