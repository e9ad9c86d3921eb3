"""Whether an installed wheel has the native libraries inside, and they compute what XLA does: run where there is no compiler.

PATH=/nowhere PYTHON .ci/check_wheel.py          # PYTHON is that of an environment with nothing but the wheel
"""

import os
import subprocess
import sys

from gtrxl.cores.kernels import levels
from gtrxl.cores.kernels.library import CORES, INSIDE, NoCompilerError, compiler
from gtrxl.networks.kernels.torso import TORSO

CHILD = """
from gtrxl.cores.kernels import agreement as stacks
from gtrxl.cores.kernels.description import KINDS
from gtrxl.cores.transformer import Transformer
from gtrxl.networks.kernels import agreement as pictures
from gtrxl.networks.vision import ResNet
from gtrxl.training import programs

programs.keep()  # warns if something that it needs is not installed
assert all(stacks.holds(gate, norm_inputs, make=Transformer) for gate in KINDS for norm_inputs in (True, False))
assert pictures.holds(ResNet)
"""

try:
    raise SystemExit(f"there must be no compiler here, got {compiler()}")
except NoCompilerError:
    pass
for level in levels.run_here():
    given = {**os.environ, levels.LEVEL: level, "GTRXL_NATIVE": "1", "JAX_PLATFORMS": "cpu"}
    subprocess.run([sys.executable, "-W", "error", "-c", CHILD], env=given, check=True)
    print(f"{level}: both libraries give what XLA gives")
for library in (CORES, TORSO):
    inside = library.inside()
    if inside is None:
        raise SystemExit(f"the wheel must have the library {library.name} for this machine, got {sorted(INSIDE.iterdir())}")
    print(f"taken here: {inside.name}")
