"""A disk that fills up, for real: a small file system in memory. One line, and the run goes on when there is room again."""

import os
import shutil
import subprocess
import sys

import pytest

import gtrxl
from gtrxl.runs.metrics import read, without_clock
from tests.training.test_train import NET, TINY

SIZE = 1_500_000


@pytest.fixture
def disk(tmp_path):
    """A file system of its own, with little room."""
    home = tmp_path / "disk"
    home.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "none", str(home)], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("file systems cannot be mounted here")
    yield home
    subprocess.run(["umount", "-l", str(home)], check=True)


def gtrxl_command(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gtrxl", *words],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.parametrize("board", [True, False])
def test_a_full_disk_ends_in_one_line_and_the_run_goes_on_when_there_is_room(disk, tmp_path, board):
    run = disk / "run"
    words = ["--steps", "3200", "--reports", "5", "--streams", "4", "--unroll", "8", "--devices", "1", "--checkpoint-every", "2"]
    words += ["--final-rate", str(TINY["final_rate"])]
    words += [word for name, value in NET.items() for word in (f"--net.{name.replace('_', '-')}", str(value))]
    # Room for the first checkpoint and a row or two: what is left is taken by another file, as the others of a disk would.
    program = f"""
import sys
from gtrxl.training import session
from gtrxl.cli.main import main
written = session.Metrics.write
def write(self, row):
    if row["updates"] == 40:
        with open({str(disk / "others")!r}, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(64))
            except OSError:
                pass
    written(self, row)
session.Metrics.write = write
sys.exit(main(sys.argv[1:]))
"""
    words = ["train", "--run", str(run), *words, *([] if board else ["--no-board"])]
    ended = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=400, check=False)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(("gtrxl: metrics cannot be", "gtrxl: checkpoints cannot be", "gtrxl: the checkpoint of step")), last
    assert "No space left on device" in last
    assert os.statvfs(disk).f_bavail <= 4
    (disk / "others").unlink()
    ended = gtrxl_command("resume", str(run), "--quiet", "--no-board")
    assert ended.returncode == 0, ended.stderr
    whole = gtrxl.train(run=tmp_path / "whole", quiet=True, board=False, **TINY)
    assert [without_clock(row) for row in read(run / "metrics.jsonl")] == [without_clock(row) for row in whole.rows]
    shutil.rmtree(run)
