"""What is said of a run's returns: whether it kept what it had reached."""

import pytest

from gtrxl.runs.scores import steadiness

STEADY = {
    "never fell": ([0.1, 0.5, *[1.0] * 9], 1.0),
    "fell and came back": ([0.1, *[1.0] * 6, 0.4, *[1.0] * 6], 0.4),
    "fell before it had arrived": ([0.1, *[1.0] * 4, 0.4, *[1.0] * 6], 1.0),
    "fell late": ([*[40.0] * 6, 42.0, 41.0, 21.0], 0.5),
    "still rising": ([float(n) for n in range(1, 60)], None),
    "arrived with its last report": ([0.1, *[1.0] * 5], None),
    "losses": ([-1.0, *[-0.5] * 9], None),
    "below zero once": ([-1.0, *[2.0] * 9], None),
    "nothing ended": ([None, None], None),
    "with holes": ([None, *[1.0] * 3, None, *[1.0] * 3, None, 0.5], 0.5),
}


@pytest.mark.parametrize("name", STEADY)
def test_steadiness_is_the_worst_after_arriving(name):
    returns, kept = STEADY[name]
    assert steadiness([{"return_mean": score} for score in returns]) == kept
