"""Without PyTorch and ONNX: one line that says what to install. This runs with and without them."""

import importlib.util
import subprocess
import sys

ABSENT = """
import importlib.machinery, sys
absent = None
find = importlib.machinery.PathFinder.find_spec
there = lambda name, path=None, target=None: None if name.partition(".")[0] == absent else find(name, path, target)
importlib.machinery.PathFinder.find_spec = staticmethod(there)

from gtrxl.cli.main import main

for absent, format, suffix in (("onnxscript", "onnx", ".onnx"), ("torch", "onnx", ".onnx"), ("torch", "torch", ".pt2")):
    if absent == "torch":  # it has been imported: as if it had not
        for name in [name for name in sys.modules if name.startswith(("torch", "gtrxl.torch"))]:
            del sys.modules[name]
    assert main(["export", "zoo:grid-numpad", "--format", format, "--to", sys.argv[1] + suffix]) == 2, absent
absent = "torch"
try:
    import gtrxl.torch
except ModuleNotFoundError as error:
    print(error, file=sys.stderr)
"""
"""In an environment where a package cannot be found."""


def test_what_is_not_installed_is_told_with_its_extra(tmp_path):
    command = [sys.executable, "-c", ABSENT, str(tmp_path / "agent")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    said = done.stderr.strip().splitlines()
    first = next((name for name in ("torch", "onnx") if importlib.util.find_spec(name) is None), "onnxscript")
    needed = [(first, "onnx"), ("torch", "onnx"), ("torch", "torch"), ("PyTorch", "torch")]
    assert len(said) == len(needed), said
    for line, (package, extra) in zip(said, needed, strict=True):
        assert f"{package}, which is not installed; pip install 'gtrxl[{extra}]'" in line
    assert not list(tmp_path.iterdir())
