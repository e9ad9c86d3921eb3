"""What docs/levels.md shows is true: its example runs, its table has all levels with our scores, and its pictures are there."""

import re
from pathlib import Path

import pytest

from gtrxl.gym.registration import LEVELS
from gtrxl.tasks import make_task
from gtrxl.tasks.first_person.level import seconds
from gtrxl.tasks.scores import load

FILE = Path(__file__).parent.parent / "docs" / "levels.md"
PAGE = FILE.read_text()
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for cells in (line.strip("|").split("|") for line in PAGE.splitlines() if line.startswith("| `"))
}


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(example, names)
    assert names["observation"]["image"].shape == (36, 48, 3)
    assert names["picture"].shape == (288, 384, 3)
    assert str(names["envs"].single_action_space) in example


def test_every_level_is_in_the_table():
    assert sorted(ROWS) == sorted(LEVELS)


@pytest.mark.parametrize("level", LEVELS)
def test_a_row_says_what_the_level_is(level):
    length, _, _, random, best = ROWS[level]
    assert make_task(level).episode_steps == seconds(int(length.removesuffix(" s")))
    known = load()[level]
    assert (random, best) == (f"{known.random:.2f}", f"{known.best:.2f}")


def test_pictures_are_there_and_small():
    shown = re.findall(r"\]\((img/[^)]+\.png)\)", PAGE)
    assert len(shown) == 3
    files = [FILE.parent / name for name in (*shown, *(f"img/levels/{level}.png" for level in LEVELS))]
    sizes = {file.name: file.stat().st_size for file in files}
    assert max(sizes.values()) < 600_000, sizes
