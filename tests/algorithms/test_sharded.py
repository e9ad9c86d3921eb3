"""A batch that is spread over devices has one better half."""

import subprocess
import sys


def test_a_batch_over_four_devices_is_one_batch():
    done = subprocess.run([sys.executable, "-m", "tests.algorithms.sharded"], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "OK", done.stderr
