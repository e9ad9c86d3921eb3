"""What is said of a run's returns: whether it kept what it had reached."""

import pytest

from gtrxl.runs.scores import recent, steadiness

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


def rows(*told):
    return [{"return_mean": score, "episodes": episodes} for score, episodes in told]


def test_an_agent_is_judged_by_twenty_episodes_or_by_all_there_are():
    assert recent(rows((1.0, 30), (5.0, 20))) == 5.0, "enough in the last report"
    assert recent(rows((1.0, 30), (5.0, 15), (None, 0), (9.0, 5))) == 6.0, "one lucky report is not enough"
    assert recent(rows((1.0, 30), (5.0, 10))) == 2.0, "whole reports"
    assert recent(rows((4.0, 1), (6.0, 3))) == 5.5
    assert recent(rows((None, 0))) is None
    assert recent([]) is None
