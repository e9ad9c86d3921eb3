"""Attacks on runs, each with a judgement: what `benchmarks/faults.py` does many times and the tests do a few times.

cases        what an attack was and what came of it; what a part of the attacks is
processes    commands of ours as processes that can be found again, with all that they started
tiny         runs that take a second, and how two of them are compared
kills        SIGKILL for compiled runs, for learners, for sweeps
fleets       SIGKILL and SIGSTOP for actors, here and on Ray
damage       bits flipped, files cut, emptied, removed
hostile      run folders that a stranger made
numbers      NaN in weights, in what a task shows, in what it pays
failing      tasks that raise, hang, exit; tasks itself has them
page         the counts as tables
"""

import sys
from pathlib import Path

# Folders with hostile settings are data that the tests have, and the tests are not installed.
sys.path.append(str(Path(__file__).parents[2]))
