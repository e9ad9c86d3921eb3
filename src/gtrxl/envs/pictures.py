"""Pictures of the tasks: one state as a frame, an episode as a GIF.

    python -m gtrxl.envs.pictures FOLDER      # a PNG and a GIF of every task, played by the player with a perfect memory

H rows, W columns.
"""

import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import UInt8
from PIL import Image

from gtrxl.envs.canvas import Canvas
from gtrxl.envs.catalogue import TASKS, make_task
from gtrxl.envs.contract import State, Task
from gtrxl.envs.drawings import SIDE, draw
from gtrxl.envs.episodes import Episode, record
from gtrxl.envs.errors import TaskError
from gtrxl.envs.grid_numpad import GridState
from gtrxl.envs.numpad import Numpad, NumpadState
from gtrxl.envs.players import perfect_memory
from gtrxl.envs.recall import Recall
from gtrxl.envs.t_maze import TMaze

CAPTION = 26
"""Height of the line under a picture."""
_COLOURS = 63
"""In a GIF; one more stands for "as before"."""

Picture = UInt8[np.ndarray, "H W 3"]


def frame(task: Task, state: State, *, caption: str = "", secret: bool = False) -> Picture:
    """The state of one stream as red, green and blue. `secret` also shows what is hidden from the agent."""
    canvas = Canvas(SIDE, SIDE + (CAPTION if caption else 0))
    draw(canvas, task, jax.tree.map(np.asarray, state), secret=secret)
    if caption:
        canvas.text((SIDE / 2, SIDE + CAPTION / 2 - 4), caption, size=13)
    return canvas.pixels()


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
    """A PNG and a GIF of every task of the catalogue."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in TASKS:
        task = make_task(name)
        episode = record(task, perfect_memory(task), jax.random.key(seed))
        frames = episode_frames(task, episode)
        Image.fromarray(frames[_telling(task, episode)]).save(folder / f"{name}.png", optimize=True)
        if isinstance(task, Numpad):
            episode_gif(frames[:161:2], folder / f"{name}.gif", fps=10)
        else:
            episode_gif(frames[:61], folder / f"{name}.gif", fps=6)


def _telling(task: Task, episode: Episode) -> int:
    """The state of an episode that says most about its task: many lights and a jump; the sign; a question."""
    if isinstance(task, TMaze):
        return 0
    if isinstance(task, Recall):
        return task.items + task.delay + task.ask // 2

    def interest(state: GridState | NumpadState) -> float:
        return float(state.pads.lit) + (5 * float(state.sphere.height) if isinstance(state, NumpadState) else 0.0)

    return max(range(len(episode.states)), key=lambda t: interest(episode.states[t]))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("one folder to draw into, please: python -m gtrxl.envs.pictures docs/img/tasks")
    gallery(Path(sys.argv[1]))
