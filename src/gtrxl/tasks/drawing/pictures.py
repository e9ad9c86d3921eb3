"""Pictures of the tasks: one state as a frame, an episode as a GIF.

    python -m gtrxl.tasks.drawing.pictures FOLDER      # a PNG and a GIF of every task that is seen from above

H rows, W columns, T steps.
"""

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import PyTree, UInt8
from PIL import Image

from gtrxl.tasks.catalogue import TASKS
from gtrxl.tasks.contract import State, Task
from gtrxl.tasks.drawing.canvas import Canvas
from gtrxl.tasks.episodes import Episode, in_numpy, record
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.making import make_task
from gtrxl.tasks.players.scripted import perfect_memory

CAPTION = 26
"""Height of the line under a picture."""
FAST = 10.0
"""A task that people play with more steps a second is shown with every second one."""
_COLOURS = 63
"""In a GIF; one more stands for "as before"."""

Picture = UInt8[np.ndarray, "H W 3"]


def frame(task: Task, state: State, *, caption: str = "", secret: bool = False, observation: PyTree = None) -> Picture:
    """The state of one stream as red, green and blue. `secret` also shows what is hidden from the agent; `observation` is for
    tasks that do not say how they are drawn.

    Of a first-person task it is what the agent sees, larger; the secret is the world from above."""
    state = in_numpy(state)
    picture = task.draw(state, observation=in_numpy(observation), secret=secret)
    if not caption:
        return picture
    said = "     ".join(filter(None, (caption, task.instruction(state))))
    line = Canvas(picture.shape[1], CAPTION)
    line.text((picture.shape[1] / 2, CAPTION / 2), said, size=13)
    return np.concatenate([picture, line.pixels()])


def episode_frames(task: Task, episode: Episode, *, secret: bool = False) -> list[Picture]:
    """Every state of an episode, with the step and the return so far."""
    totals = np.concatenate([[0.0], np.cumsum(episode.rewards)])
    return [
        frame(task, state, caption=f"step {t}     return {totals[t]:.4g}", secret=secret)
        for t, state in enumerate(episode.states)
    ]


def episode_gif(frames: Iterable[Picture], path: Path | str, fps: float | int = 10) -> None:
    """Writes frames as a GIF that repeats; the last frame stays for a second."""
    images = [Image.fromarray(each) for each in frames]
    if not images:
        raise TaskError("a GIF must have at least one frame, got none; play an episode first")
    # One palette for all frames, and what did not change is left out: GIFs are large otherwise.
    table = _palette([*images[:: max(1, len(images) // 16)], images[-1]])
    palette = Image.new("P", (1, 1))
    palette.putpalette(table)
    whole = [np.array(image.quantize(palette=palette, dither=Image.Dither.NONE)) for image in images]
    changes = [np.where(now == before, np.uint8(_COLOURS), now) for before, now in itertools.pairwise(whole)]
    flat = [Image.fromarray(each) for each in (whole[0], *changes)]
    for image in flat:
        image.putpalette(table)
    durations = [max(20, round(1000 / fps))] * (len(flat) - 1) + [1000]
    flat[0].save(
        path,
        format="GIF",
        save_all=True,
        append_images=flat[1:],
        duration=durations,
        loop=0,
        disposal=1,
        transparency=_COLOURS,
        optimize=False,
    )


def _palette(images: list[Image.Image]) -> list[int]:
    """Half of the colours are the most frequent ones, unchanged; the others cover what is left. One more is never used."""
    strip = np.concatenate([np.asarray(image) for image in images])
    colours, counts = np.unique(strip.reshape(-1, 3), axis=0, return_counts=True)
    frequent = colours[np.argsort(-counts, kind="stable")[: (_COLOURS + 1) // 2]]
    rest = Image.fromarray(strip).quantize(_COLOURS // 2, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    table = [*frequent.ravel().tolist(), *rest][: 3 * _COLOURS]
    return table + [0] * (3 * (_COLOURS + 1) - len(table))


def gallery(folder: Path, *, seed: int = 3) -> None:
    """A PNG and a GIF of every task of the catalogue that is seen from above."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, entry in TASKS.items():
        if entry.first_person:
            continue  # `python -m gtrxl.tasks.drawing.contact_sheet` draws these
        task = make_task(name)
        episode = record(task, perfect_memory(task), jax.random.key(seed))
        frames = episode_frames(task, episode)
        telling = max(range(len(episode.states)), key=lambda t: task.interest(episode.states[t]))
        Image.fromarray(frames[telling]).save(folder / f"{name}.png", optimize=True)
        if task.controls().pace > FAST:
            episode_gif(frames[:161:2], folder / f"{name}.gif", fps=10)
        else:
            episode_gif(frames[:61], folder / f"{name}.gif", fps=6)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("one folder to draw into, please: python -m gtrxl.tasks.drawing.pictures docs/img/tasks")
    gallery(Path(sys.argv[1]))
