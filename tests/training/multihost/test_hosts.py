"""One run on several devices and on two hosts, which are two processes here, by the commands that a user types."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pytest

import gtrxl
from gtrxl.runs import metrics
from gtrxl.runs import settings as configs
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import checkpoints_of, read_config
from gtrxl.training.multihost import hosts
from gtrxl.training.multihost.peers import LOST
from gtrxl.training.session import engine_of
from tests.training.multihost.test_peers import free_port
from tests.training.small import ENDS, NET

UPDATES = 6
"""In one report."""
REPORTS = 40
CONFIG = configs.change(
    gtrxl.defaults(task=ENDS, core="gru"),
    {
        "streams": 8,
        "unroll": 6,
        "steps": 8 * 6 * UPDATES * REPORTS,
        "reports": REPORTS,
        "checkpoint_every": 2,
        "final_rate": 1.0,  # runs of different lengths are compared
        "learner": {"target_period": 2},
    },
)
CONFIG = dataclasses.replace(CONFIG, net=NET)
SHORT = dataclasses.replace(CONFIG, steps=8 * 6 * UPDATES, reports=1)


def start(folder: Path, name: str, *arguments: object) -> subprocess.Popen:
    """A command of its own; what it says goes to NAME.out and NAME.err."""
    program = [sys.executable, "-m", "gtrxl", *map(str, arguments)]
    with (folder / f"{name}.out").open("w") as out, (folder / f"{name}.err").open("w") as err:
        return subprocess.Popen(program, cwd=folder, stdout=out, stderr=err, env=os.environ)


def on_two_hosts(folder: Path, name: str, *arguments: object) -> list[subprocess.Popen]:
    """The same command on both hosts. Only host 0 has the folder of the run: the other one is somewhere else."""
    (folder / "elsewhere").mkdir(exist_ok=True)
    where = ["--coordinator", f"127.0.0.1:{free_port()}", "--num-hosts", 2]
    first = start(folder, f"{name}0", *arguments, *where, "--host", 0)
    return [first, start(folder / "elsewhere", f"{name}1", *arguments, *where, "--host", 1)]


def wait_for(true, *running: subprocess.Popen, seconds: float = 180) -> None:
    begun = time.monotonic()
    while not true():
        assert time.monotonic() - begun < seconds
        assert all(one.poll() is None for one in running), "ended early"
        time.sleep(0.02)


def ended(*running: subprocess.Popen) -> list[int]:
    try:
        return [one.wait(timeout=180) for one in running]
    finally:
        for one in running:
            one.kill()


def rows_of(run: Path) -> list[dict]:
    return metrics.read(run / "metrics.jsonl") if (run / "metrics.jsonl").exists() else []


def state_of(run: Path) -> dict[str, np.ndarray]:
    """The last checkpoint by the names of its arrays."""
    state = engine_of(read_config(run)).restore(checkpoints_of(run, read_only=True))
    state = eqx.tree_at(lambda of: of.key, state, jax.random.key_data(state.key))
    named, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(state, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in named}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("hosts")
    configs.write(dataclasses.replace(CONFIG, devices=2), home / "two.json")
    configs.write(dataclasses.replace(SHORT, devices=4), home / "four.json")
    (home / "elsewhere").mkdir()
    (home / "elsewhere" / "two.json").write_text((home / "two.json").read_text())
    return home


@pytest.fixture(scope="module")
def one_device(home) -> Path:
    """One report."""
    return gtrxl.train(dataclasses.replace(SHORT, devices=1), run=home / "one", quiet=True, board=False).folder


@pytest.fixture(scope="module")
def four_devices(home) -> Path:
    """One report."""
    running = start(home, "four", "train", "--config", "four.json", "--run", "four", "--no-board")
    assert ended(running) == [0], (home / "four.err").read_text()
    return home / "four"


@pytest.fixture(scope="module")
def two_hosts(home) -> Path:
    """Two devices on each of two hosts; Ctrl-C on host 1 before the first report."""
    running = on_two_hosts(home, "begun", "train", "--config", "two.json", "--run", "two")
    wait_for(lambda: "compiling" in (home / "elsewhere" / "begun1.err").read_text(), *running)
    running[1].send_signal(signal.SIGINT)
    assert ended(*running) == [130, 130], (home / "begun0.err").read_text() + (home / "elsewhere" / "begun1.err").read_text()
    return home / "two"


@pytest.mark.parametrize("run", [pytest.param("four_devices", marks=pytest.mark.slow), "two_hosts"])
def test_devices_and_hosts_change_rounding_only(one_device, run, request):
    """The first updates: the loss and all else that is reported, and every array, of the network and of the streams."""
    other = request.getfixturevalue(run)
    (theirs,), (ours,) = rows_of(other), rows_of(one_device)
    assert theirs["updates"] == ours["updates"] == UPDATES
    assert ours["episodes"] > 20
    for name, value in metrics.without_clock(ours).items():
        expected = pytest.approx(value, rel=1e-4, abs=1e-6) if isinstance(value, float) else value
        assert theirs[name] == expected, name
    state = state_of(one_device)
    spread = state_of(other)
    assert state.keys() == spread.keys()
    for name in state:
        np.testing.assert_allclose(spread[name], state[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_an_interrupt_on_one_host_stops_all_with_a_checkpoint(home, two_hosts):
    assert json.loads((two_hosts / "result.json").read_text())["status"] == "stopped"
    assert checkpoints_of(two_hosts, read_only=True).latest == UPDATES
    assert "stopping at the next report" in (home / "elsewhere" / "begun1.err").read_text()
    assert "stopping at" not in (home / "begun0.err").read_text(), "host 0 was not asked"
    assert "the run is in two on host 0" in (home / "elsewhere" / "begun1.out").read_text()


def test_host_0_alone_writes(home, two_hosts):
    assert sorted(path.name for path in (home / "elsewhere").iterdir() if path.is_dir()) == []
    assert (two_hosts / "tensorboard").exists()


@pytest.fixture(scope="module")
def killed(home, two_hosts) -> tuple[Path, int]:
    """Gone on with, until host 1 is killed; and how host 0 ended."""
    running = on_two_hosts(home, "killed", "resume", "two")
    wait_for(lambda: len(rows_of(two_hosts)) > 4, *running)
    running[1].kill()
    code, _ = ended(*running)
    return two_hosts, code


@pytest.mark.slow
def test_a_killed_host_ends_the_others_with_a_line(home, killed):
    run, code = killed
    said = (home / "killed0.err").read_text().splitlines()
    assert code == LOST
    # Which of the two is seen first depends on whether something was on its way to it.
    assert re.fullmatch(
        "gtrxl: host 1 was lost: (its process ended|its connection broke); "
        "go on from the last checkpoint by `gtrxl resume` on all hosts",
        said[-1],
    ), "one line, and no stack trace after it"
    assert gtrxl.read_run(run).status == "stopped"


@pytest.mark.slow
def test_the_run_goes_on_with_one_host_and_one_device(killed):
    run, _ = killed
    latest = checkpoints_of(run, read_only=True).latest
    assert latest is not None
    assert latest > UPDATES, "two hosts had gone on from their own checkpoint"
    done = gtrxl.resume(run, devices=1, quiet=True, board=False)
    assert done.status == "finished"
    assert [row["updates"] for row in done.rows] == list(range(UPDATES, UPDATES * REPORTS + 1, UPDATES))
    assert read_config(run).devices == 1


BAD = {
    "host": (("10.0.0.1:4321", 2, 2), "--host must be from 0 to 1, got 2; --num-hosts counts them, host 0 included"),
    "negative host": (("10.0.0.1:4321", 2, -1), "--host must be from 0 to 1, got -1"),
    "hosts": (("10.0.0.1:4321", 0, 0), "--num-hosts must be at least 1, got 0; leave it out for one host"),
    "no port": (("10.0.0.1", 2, 0), "--coordinator must be host:port of host 0, got '10.0.0.1'; for example 10.0.0.1:4321"),
    "no host": ((":4321", 2, 0), "--coordinator must be host:port of host 0, got ':4321'"),
    "port": (("10.0.0.1:99999", 2, 0), "--coordinator must be host:port of host 0, got '10.0.0.1:99999'"),
    "no coordinator": ((None, 2, 0), "--coordinator and --num-hosts must come together, got None for 2; for two hosts add"),
    "no number": (("10.0.0.1:4321", 1, 0), "--coordinator and --num-hosts must come together, got 10.0.0.1:4321 for 1"),
    "too late": (("127.0.0.1:4321", 2, 0), "hosts must be joined before JAX is first used; call join before anything else"),
}


@pytest.mark.parametrize("case", BAD)
def test_hosts_that_cannot_be_are_refused_in_one_line(case):
    jax.local_devices()  # JAX has been used
    (coordinator, num_hosts, host), line = BAD[case]
    with pytest.raises(RunError) as error:
        hosts.join(coordinator, num_hosts=num_hosts, host=host, limit=1.0)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_one_host_is_the_first_of_one():
    hosts.join(None, num_hosts=1, host=0)
    assert (hosts.count(), hosts.number(), hosts.is_first()) == (1, 0, True)
    assert hosts.on_first(lambda: {"any": "thing"}) == {"any": "thing"}
    assert [hosts.anyone(flag) for flag in (True, False)] == [True, False]


class Said:
    """Peers that have given these answers."""

    def __init__(self, host: int, answers: list):
        self.host, self.answers, self.count = host, answers, len(answers)

    def exchange(self, value):
        return [value if host == self.host else answer for host, answer in enumerate(self.answers)]


def test_settings_must_be_the_same(monkeypatch):
    monkeypatch.setattr(hosts, "_peers", Said(0, [None, {"seed": 1, "core": "lstm"}]))
    hosts.check_same({"seed": 1, "core": "lstm"})
    with pytest.raises(RunError, match="settings must be the same on all hosts, got seed 1 on host 1 and 2 on host 0; give all"):
        hosts.check_same({"seed": 2, "core": "lstm"})


def test_the_error_of_the_first_is_everyones(monkeypatch):
    monkeypatch.setattr(hosts, "_peers", Said(1, [{"error": "the disk is full"}, None]))
    with pytest.raises(RunError, match="the disk is full"):
        hosts.on_first(lambda: pytest.fail("only the first does it"))
    monkeypatch.setattr(hosts, "_peers", Said(0, [None, {}]))
    with pytest.raises(ZeroDivisionError):
        hosts.on_first(lambda: 1 // 0)


def test_what_hosts_do_not_share_is_refused_for_many(monkeypatch):
    hosts.alone("this task is stepped by actors")
    monkeypatch.setattr(hosts, "_peers", Said(0, [None, None]))
    with pytest.raises(RunError, match="this task is stepped by actors, got 2 hosts for it; --engine ray spreads"):
        hosts.alone("this task is stepped by actors")


def test_one_host_that_stops_stops_all(monkeypatch):
    monkeypatch.setattr(hosts, "_peers", Said(0, [None, False, True]))
    assert hosts.anyone(False)
    monkeypatch.setattr(hosts, "_peers", Said(0, [None, False, False]))
    assert not hosts.anyone(False)
