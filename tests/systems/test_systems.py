"""Without what only some systems have: Windows and macOS, pretended (`pretend/sitecustomize.py`), train, resume and lock."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRETEND = Path(__file__).parent / "pretend"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems are pretended on Linux")


def run(system, program, *arguments):
    """What a program prints on that system."""
    given = {**os.environ, "GTRXL_TESTS_PRETEND": system, "PYTHONWARNDEFAULTENCODING": "1", "JAX_PLATFORMS": "cpu"}
    given["PYTHONPATH"] = os.pathsep.join([str(PRETEND), *filter(None, [os.environ.get("PYTHONPATH", "")])])
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=300, check=False)
    assert not done.returncode, done.stderr
    return done.stdout


def test_what_is_pretended_is_gone_for_the_package_and_there_for_python():
    program = """
import os, sys, subprocess
from gtrxl import machine
import gtrxl.gym.child_process as ours
assert hasattr(os, "sched_getaffinity") and sys.platform == "linux"
assert not hasattr(machine.os, "sched_getaffinity") and ours.sys.platform == "win32" and machine.os.name == "nt"
assert not hasattr(ours.signal, "SIGKILL") and ours.signal.SIGTERM
try:
    import fcntl
except ImportError:
    print("none")
"""
    assert run("windows", program) == "none\n"


LOCK = """
import subprocess, sys
from pathlib import Path
from gtrxl.runs import lock
from gtrxl.runs.errors import TakenError

OTHER = "import sys; from pathlib import Path; from gtrxl.runs import lock; print(lock.holder(Path(sys.argv[1])))"


def other():
    return subprocess.run([sys.executable, "-c", OTHER, folder], capture_output=True, text=True, check=True).stdout.strip()


folder = Path(sys.argv[1])
assert other() == "None"
with lock.hold(folder):
    import os
    assert other().startswith(f"process {os.getpid()} on "), other()
    try:
        with lock.hold(folder):
            print("two at once")
    except TakenError as error:
        assert f"process {os.getpid()}" in str(error)
assert other() == "None" and lock.holder(folder) is None
with lock.hold(folder, wait=True):
    print("taken again")
"""


@pytest.mark.parametrize("system", ["windows", pytest.param("macos", marks=pytest.mark.slow)])
def test_a_run_is_locked(system, tmp_path):
    assert run(system, LOCK, tmp_path) == "taken again\n"


TRAIN = """
import sys
from pathlib import Path
import gtrxl

folder = Path(sys.argv[1])
net = {"layers": 1, "width": 8, "heads": 2, "head_dim": 4, "mlp": 8, "memory": 4, "torso": 8, "hidden": 8}
sizes = {"streams": 2, "unroll": 4, "reports": 4, "checkpoint_every": 1, "net": net, "quiet": True, "board": False}
run = gtrxl.train(run=folder / "run", devices=1, steps=640, **sizes)
assert run.status == "finished", run.status
last = max(folder.glob("run/checkpoints/[0-9]*"), key=lambda place: int(place.name))
(last / "arrays.safetensors").write_bytes(b"cut")  # so that rows are taken back, and written again
(folder / "run" / "result.json").unlink()
again = gtrxl.resume(folder / "run", quiet=True, board=False)
assert again.status == "finished", again.status
assert [row["updates"] for row in again.rows] == [row["updates"] for row in run.rows]
print(len(again.rows))
"""


@pytest.mark.slow
@pytest.mark.parametrize("system", ["windows", "macos"])
def test_a_run_trains_and_resumes(system, tmp_path):
    assert run(system, TRAIN, tmp_path) == "4\n"


ACTORS = """
import sys
from pathlib import Path
import gtrxl

if __name__ == "__main__":
    net = {"layers": 1, "width": 8, "heads": 2, "head_dim": 4, "mlp": 8, "memory": 4, "torso": 8, "hidden": 8}
    run = gtrxl.train(
        task="gym:CartPole-v1", run=Path(sys.argv[1]) / "run", streams=2, unroll=4, steps=64, reports=2, net=net,
        fleet={"actors": 1}, quiet=True, board=False,
    )
    print(run.status)
"""


@pytest.mark.slow
def test_actors_act(tmp_path):
    assert run("windows", ACTORS, tmp_path) == "finished\n"


STOPPED = """
import dataclasses, json, sys, time
from pathlib import Path
import gtrxl
from gtrxl.experiments import sweeps

folder = Path(sys.argv[1]) / "a"
config = gtrxl.defaults(task="grid-numpad", core="none")
net = gtrxl.Net(layers=1, width=8, torso=8, hidden=8)
sweeps._plan(folder, dataclasses.replace(config, net=net, streams=2, unroll=4, steps=80_000_000, reports=50_000))
processes = sweeps._Processes(1)
run = processes.start(folder)
while run.poll() is None and not ((folder / "metrics.jsonl").exists() and (folder / "metrics.jsonl").read_bytes()):
    time.sleep(0.02)
processes.stop(run)
run.wait(60)
print(json.loads((folder / "result.json").read_text("utf-8"))["status"])
"""


@pytest.mark.slow
def test_a_run_of_a_sweep_is_asked_to_stop(tmp_path):
    """By Ctrl-Break, which is what one process can send to another on Windows."""
    assert run("windows", STOPPED, tmp_path) == "stopped\n"
