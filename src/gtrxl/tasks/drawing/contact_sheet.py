"""A strip of pictures of every first-person task: what its agent sees in an episode, and the way it went, seen from above.

    python -m gtrxl.tasks.drawing.contact_sheet FOLDER                 # one PNG for each, and overview.png
    python -m gtrxl.tasks.drawing.contact_sheet FOLDER NAME ...        # of these alone; the overview stays

H rows, W columns, T steps.
"""

import dataclasses
import itertools
import sys
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from gtrxl.tasks.catalogue import TASKS
from gtrxl.tasks.drawing.canvas import Canvas
from gtrxl.tasks.episodes import Episode, record
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.first_person.level import Level, seconds
from gtrxl.tasks.making import make_task
from gtrxl.tasks.players.scripted import RandomPlayer

HEIGHT, WIDTH, LARGER = 72, 96, 2
"""Pictures as the paper's agents see them, drawn this many times larger."""
FRAMES = 5
GAP, LINE = 6, 20
"""Between pictures; and the height of a line of text."""
_BEFORE = (4, 18, 7, 30)
"""Steps before a reward, picture by picture: what is about to be touched is in view then, near or far."""

Picture = UInt8[np.ndarray, "H W 3"]


def sheets(folder: Path, names: list[str] | None = None, *, seed: int = 2) -> None:
    """A strip of each first-person task, and one picture of them all; or only the strips of some."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = []
    levels = [name for name, entry in TASKS.items() if entry.first_person]
    for name in levels if names is None else names:
        task = make_task(name)
        if not isinstance(task, Level):
            raise TaskError(
                f"a contact sheet is of a first-person task, got {name!r}; `gtrxl.tasks.drawing.pictures` draws the others"
            )
        episode = _played(task, seed + levels.index(name))  # other colours in each
        shown = [0, *(_near(task, episode, t) for t in _telling(episode)[1:])]
        _save(_strip(name, task, episode, shown), folder / f"{name}.png", colours=200)
        cells.append(_cell(name, task, episode, shown[1]))
    if names is None:
        _save(_grid(cells, columns=3), folder / "overview.png", colours=255)


def _played(task: Level, seed: int) -> Episode:
    """An episode of the player with a perfect memory, or of a random one. Nobody looks: its pictures are small."""
    blind = dataclasses.replace(task, height=8, width=8)
    return record(blind, blind.player() or RandomPlayer(blind), jax.random.key(seed))


def _telling(episode: Episode) -> list[int]:
    """The first state, and states shortly before something was paid, spread over the episode."""
    last = len(episode.rewards)
    chosen = [0]
    for wanted, before in zip(np.linspace(0, last, FRAMES)[1:], itertools.cycle(_BEFORE), strict=False):
        paid = [max(1, t + 1 - before) for t, reward in enumerate(episode.rewards) if reward != 0]
        left = [t for t in paid if t > chosen[-1] + 2]
        near = min(left, key=lambda t: abs(t - wanted)) if left else None
        plain = int(max(wanted, chosen[-1] + 1))
        chosen.append(plain if near is None or abs(near - wanted) > last / FRAMES else near)
    return sorted({min(t, last) for t in chosen})


def _near(task: Level, episode: Episode, t: int) -> int:
    """The moment nearest to this one that says what the level is about; this one if none does."""
    return next(
        (at for at in sorted(range(len(episode.states)), key=lambda at: abs(at - t)) if task.is_telling(episode.states[at])), t
    )


def _strip(name: str, task: Level, episode: Episode, shown: list[int]) -> Picture:
    totals = np.concatenate([[0.0], np.cumsum(episode.rewards)])
    parts = []
    for t in shown:
        said = f"{t / seconds(1):.1f} s, return {totals[t]:.4g}"
        part = _under(_seen(task, episode, t), said)
        words = task.instruction(episode.states[t])
        parts.append(_under(part, f'"{words}"') if words else part)
    if task.has_plan:
        parts.append(_under(_from_above(task, episode, shown[-1]), "from above"))
    return _beside(parts, title=name)


def _cell(name: str, task: Level, episode: Episode, t: int) -> Picture:
    pictures = [_seen(task, episode, t)]
    if task.has_plan:
        pictures.append(_from_above(task, episode, t))
    return _beside(pictures, title=name)


def _seen(task: Level, episode: Episode, t: int) -> Picture:
    picture = task.view(episode.states[t], height=HEIGHT, width=WIDTH)
    return picture.repeat(LARGER, axis=0).repeat(LARGER, axis=1)


def _from_above(task: Level, episode: Episode, t: int) -> Picture:
    """With the way since the body was last put somewhere else, or the last 20 seconds of it."""
    path: Float[np.ndarray, "T 2"] = np.stack(
        [state.world.body.place for state in episode.states[max(0, t - seconds(20)) : t + 1]]
    )
    return task.plan(episode.states[t], side=HEIGHT * LARGER, path=path)


def _under(picture: Picture, text: str) -> Picture:
    line = Canvas(picture.shape[1], LINE)
    line.text((2, LINE / 2), text, size=11, anchor="lm")
    return np.concatenate([picture, line.pixels()])


def _beside(pictures: list[Picture], *, title: str) -> Picture:
    tall = max(len(picture) for picture in pictures)
    wide = max(sum(picture.shape[1] + GAP for picture in pictures) + GAP, 7 * len(title) + 2 * GAP)
    canvas = Canvas(wide, tall + LINE + GAP)
    canvas.text((GAP, LINE / 2 + 2), title, size=13, anchor="lm")
    sheet, x = canvas.pixels(), GAP
    for picture in pictures:
        sheet[LINE + GAP // 2 : LINE + GAP // 2 + len(picture), x : x + picture.shape[1]] = picture
        x += picture.shape[1] + GAP
    return sheet


def _grid(cells: list[Picture], *, columns: int) -> Picture:
    tall, wide = max(len(cell) for cell in cells), max(cell.shape[1] for cell in cells)
    rows = -(-len(cells) // columns)
    sheet = Canvas(columns * wide, rows * tall).pixels()
    for i, cell in enumerate(cells):
        y, x = i // columns * tall, i % columns * wide
        sheet[y : y + len(cell), x : x + cell.shape[1]] = cell
    return sheet


def _save(picture: Picture, path: Path, *, colours: int) -> None:
    """With few colours: the files stay small."""
    image = Image.fromarray(picture).quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    image.save(path, optimize=True)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        raise SystemExit("a folder to draw into, please: python -m gtrxl.tasks.drawing.contact_sheet docs/img/levels")
    sheets(Path(sys.argv[1]), sys.argv[2:] or None)
