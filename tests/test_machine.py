"""What a machine has is shared out whole, and nobody gets nothing."""

import os
import subprocess
import sys

import pytest

from gtrxl import machine

needs_affinity = pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not bind processes")


@needs_affinity
@pytest.mark.parametrize(("processors", "number", "shares"), [
    ({0, 1}, 2, [[0], [1]]),
    ({2, 3, 5, 7, 8}, 2, [[2, 3], [5, 7, 8]]),
    ({0, 1}, 1, [[]]),
    ({0, 1}, 3, [[], [], []]),
])  # fmt: skip
def test_several_get_a_share_each_and_one_or_too_many_get_all(monkeypatch, processors, number, shares):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: processors)
    assert machine.shares(number) == shares


def test_where_processes_cannot_be_bound_all_get_all(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert machine.shares(2) == [[], []]
    machine.keep_to([])


@needs_affinity
def test_a_process_keeps_to_its_share():
    first = min(os.sched_getaffinity(0))
    program = f"from gtrxl import machine; machine.keep_to([{first}]); print(machine.processors())"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "1\n"
