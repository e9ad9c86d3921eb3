"""What tests of the bridge to DeepMind Lab share."""

import pytest

from gtrxl.gym.dmlab.task import LabEnv
from tests.gym import fake_lab


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """The stand-in, importable; no Lab is left open."""
    fake_lab.install(tmp_path, monkeypatch)
    monkeypatch.setattr(LabEnv, "_open", None)
    return monkeypatch
