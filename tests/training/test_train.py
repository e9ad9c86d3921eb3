"""Training from the outside: what a run writes, what a kill costs (nothing), and how a run says that it went wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import gtrxl
from gtrxl.runs.errors import RunError
from gtrxl.runs.metrics import read, without_clock
from gtrxl.training import session as train

NET = {"layers": 1, "width": 16, "heads": 2, "head_dim": 8, "mlp": 16, "memory": 8, "torso": 16, "hidden": 16}
TINY = {"streams": 4, "unroll": 8, "steps": 3_200, "reports": 5, "checkpoint_every": 2, "devices": 1, "net": NET}
"""Ten updates a report, five reports, checkpoints after the second, the fourth and the last."""
TINY |= {"final_rate": 1.0}  # runs of different lengths are compared


def run_tiny(folder, **changes):
    return gtrxl.train(run=folder, quiet=True, board=False, **{**TINY, **changes})


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return run_tiny(tmp_path_factory.mktemp("whole") / "run")


def rows_of(folder):
    return [without_clock(row) for row in read(folder / "metrics.jsonl")]


def test_a_run_leaves_what_it_promises(whole):
    assert whole.status == "finished"
    assert [row["updates"] for row in whole.rows] == [20, 40, 60, 80, 100]
    assert [row["frames"] for row in whole.rows] == [640, 1280, 1920, 2560, 3200]
    last = whole.rows[-1]
    for name in (
        "return_mean", "return_std", "loss", "frames_per_second", "eta", "alpha_categorical", "kl_categorical", "entropy",
        "explained_variance", "gradient_norm", "memory_staleness",
    ):  # fmt: skip
        assert isinstance(last[name], float), name
    assert len(last["gate_openness"]) == NET["layers"]
    assert all(0 < opening < 1 for layer in last["gate_openness"] for opening in layer)
    assert json.loads((whole.folder / "result.json").read_text())["status"] == "finished"
    assert gtrxl.read_run(whole.folder).config == whole.config


def test_a_killed_run_resumes_to_the_same_bits(whole, tmp_path):
    """SIGKILL in the middle, and made longer besides: the rows are those of a run that was never stopped."""
    folder = tmp_path / "killed"
    program = f"""
import os, signal, gtrxl
from gtrxl.training import session as train
written = train.Metrics.write
def write(self, row):
    written(self, row)
    if row["updates"] == 60:
        os.kill(os.getpid(), signal.SIGKILL)  # after the third row; the last checkpoint is that of the second
train.Metrics.write = write
gtrxl.train(run={str(folder)!r}, quiet=True, board=False, **{ {**TINY, "steps": 2_560, "reports": 4}!r})
"""
    ended = subprocess.run([sys.executable, "-c", program], timeout=400, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert [row["updates"] for row in rows_of(folder)] == [20, 40, 60]
    with pytest.raises(RunError, match="steps must be at least the 2560"):
        gtrxl.resume(folder, steps=100)
    resumed = gtrxl.resume(folder, steps=3_200, quiet=True, board=False)
    assert resumed.status == "finished"
    assert rows_of(folder) == rows_of(whole.folder)
    ours, theirs = gtrxl.load(folder, "last").agent, gtrxl.load(whole.folder, "last").agent
    assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), ours, theirs))


def test_an_interrupted_run_stops_with_a_checkpoint(tmp_path, monkeypatch):
    written = train.Metrics.write

    def write(self, row):
        written(self, row)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(train.Metrics, "write", write)
    run = run_tiny(tmp_path / "run", core="none", algorithm="vtrace")
    assert run.status == "stopped"
    assert [row["updates"] for row in run.rows] == [20]
    assert sorted(os.listdir(run.folder / "checkpoints")) == ["0", "20"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_divergence_ends_the_run_and_keeps_the_last_good_checkpoint(tmp_path, capsys):
    """A step size of 1e30 makes weights that are not finite."""
    from gtrxl.cli.main import main

    words = ["train", "--run", str(tmp_path / "run"), "--steps", "3200", "--reports", "5", "--streams", "4", "--unroll", "8"]
    words += [
        "--net.width",
        "16",
        "--net.layers",
        "1",
        "--devices",
        "1",
        "--no-board",
        "--quiet",
        "--learner.learning-rate",
        "1e30",
    ]
    assert main(words) == 3
    assert "diverged" in capsys.readouterr().err
    run = gtrxl.read_run(tmp_path / "run")
    assert run.status == "diverged"
    assert len(run.rows) == 1
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert 1 <= result["diverged_at_update"] <= 20
    agent = gtrxl.load(tmp_path / "run", "last").agent
    assert os.listdir(tmp_path / "run" / "checkpoints") == ["0"]
    assert bool((abs(agent.policy.output.weight) < 10).all())


def test_weights_that_are_not_finite_are_not_saved(tmp_path, monkeypatch):
    """The first loss and gradient are fine, but the step they lead to is more than a float holds."""
    monkeypatch.setattr(gtrxl.VMPO, "optimiser", lambda self: optax.chain(optax.scale(-1e38), optax.scale(1e38)))
    learner = {"target_period": 1}
    run = run_tiny(tmp_path / "run", core="none", steps=64, reports=2, checkpoint_every=1, learner=learner)
    assert run.status == "diverged"
    assert json.loads((run.folder / "result.json").read_text())["diverged_at_update"] == 1
    assert isinstance(run.rows[0]["loss"], float)
    assert isinstance(run.rows[0]["gradient_norm"], float)
    assert os.listdir(run.folder / "checkpoints") == ["0"]
    agent = gtrxl.load(run.folder, "last").agent
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(agent) if eqx.is_inexact_array(leaf))


def test_a_folder_that_holds_a_run_is_not_overwritten(whole):
    with pytest.raises(RunError, match="must not hold a run yet"):
        run_tiny(whole.folder)


def test_a_folder_that_cannot_be_written_is_said_at_the_start(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot be written"):
        run_tiny(tmp_path / "file" / "run")


def test_settings_that_there_are_not(tmp_path):
    with pytest.raises(RunError, match="must name settings there are, got 'stepss'"):
        gtrxl.train(run=tmp_path / "run", stepss=3)
    with pytest.raises(RunError, match="there is no run in"):
        gtrxl.resume(tmp_path / "nothing")


@pytest.mark.slow
def test_a_continuous_task_trains_by_ppo(tmp_path):
    run = run_tiny(tmp_path / "run", task="numpad:episode_steps=20", core="lstm", algorithm="ppo", steps=640, reports=1)
    row = run.rows[-1]
    assert row["kl_mean"] > 0
    assert row["kl_covariance"] > 0
    assert row["gate_openness"] is None


@pytest.mark.slow
def test_a_run_goes_on_to_the_same_bits_from_the_checkpoint_before_a_damaged_one_and_from_any(whole, tmp_path):
    """The compiled engine: its state is larger than a toy's, and a flipped bit anywhere in it must not be learned on from."""
    for name, given in {"damaged": {}, "chosen": {"checkpoint": 80}}.items():
        folder = tmp_path / name
        shutil.copytree(whole.folder, folder)
        if name == "damaged":
            state = folder / "checkpoints" / "100" / "state.safetensors"
            content = bytearray(state.read_bytes())
            content[len(content) // 2] ^= 1
            state.write_bytes(content)
            (folder / "result.json").unlink()
        assert gtrxl.resume(folder, quiet=True, board=False, **given).status == "finished"
        assert rows_of(folder) == rows_of(whole.folder)
        ours, theirs = gtrxl.load(folder, "last").agent, gtrxl.load(whole.folder, "last").agent
        assert jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), ours, theirs))


@pytest.mark.slow
def test_a_kill_before_the_first_checkpoint_and_one_while_another_waits_lose_nothing(whole, tmp_path):
    """SIGKILL between config.json and checkpoint 0; then a second process that was refused as long as the first was alive."""
    folder = tmp_path / "killed"
    program = f"""
import os, signal, gtrxl
from gtrxl.runs.checkpoints import Checkpoints
def save(self, *_, **__):
    os.kill(os.getpid(), signal.SIGSTOP)
Checkpoints.save = save
gtrxl.train(run={str(folder)!r}, quiet=True, board=False, **{TINY!r})
"""
    stopped = subprocess.Popen([sys.executable, "-c", program])
    try:
        while not (folder / "metrics.jsonl").exists():
            assert stopped.poll() is None
            time.sleep(0.05)
        with pytest.raises(RunError, match=f"which process {stopped.pid} on .* since .* works on; wait for it, or stop that one"):
            gtrxl.resume(folder, quiet=True, board=False)
    finally:
        stopped.kill()
        stopped.wait()
    assert gtrxl.resume(folder, quiet=True, board=False).status == "finished"
    assert rows_of(folder) == rows_of(whole.folder)
