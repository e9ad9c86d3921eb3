"""Pictures of the tasks: one state as a frame, an episode as a GIF.

    python -m gtrxl.envs.pictures FOLDER      # a PNG and a GIF of every task that is seen from above, its player remembering all

H rows, W columns, T steps.
"""

import functools
import itertools
import sys
from collections.abc import Iterable
from pathlib import Path

import jax
import numpy as np
from jaxtyping import Array, Float, UInt8
from PIL import Image

from gtrxl.envs.canvas import Canvas
from gtrxl.envs.catalogue import TASKS, make_task
from gtrxl.envs.contract import State, Task
from gtrxl.envs.drawings import SIDE, draw
from gtrxl.envs.episodes import Episode, record
from gtrxl.envs.errors import TaskError
from gtrxl.envs.first_person.level import Level, LevelState
from gtrxl.envs.first_person.plan import draw_plan, read
from gtrxl.envs.grid_numpad import GridState
from gtrxl.envs.numpad import Numpad, NumpadState
from gtrxl.envs.players import perfect_memory
from gtrxl.envs.recall import Recall
from gtrxl.envs.t_maze import TMaze

CAPTION = 26
"""Height of the line under a picture."""
VIEW = (288, 384)
"""Height and width of a first-person picture for people."""
_COLOURS = 63
"""In a GIF; one more stands for "as before"."""

Picture = UInt8[np.ndarray, "H W 3"]


def frame(task: Task, state: State, *, caption: str = "", secret: bool = False) -> Picture:
    """The state of one stream as red, green and blue. `secret` also shows what is hidden from the agent.

    Of a first-person task it is what the agent sees, larger; the secret is the world from above."""
    state = jax.tree.map(np.asarray, state)
    if isinstance(task, Level):
        return _first_person(task, state, caption=caption, secret=secret)
    canvas = Canvas(SIDE, SIDE + (CAPTION if caption else 0))
    draw(canvas, task, state, secret=secret)
    if caption:
        canvas.text((SIDE / 2, SIDE + CAPTION / 2 - 4), caption, size=13)
    return canvas.pixels()


def _first_person(task: Level, state: LevelState, *, caption: str, secret: bool) -> Picture:
    shown = eyes(task, state, height=VIEW[0], width=VIEW[1])
    if secret and has_plan(task):
        shown = np.concatenate([shown, plan(state, side=VIEW[0])], axis=1)
    if not caption:
        return shown
    said = "     ".join(filter(None, (caption, instruction(task, state))))
    line = Canvas(shown.shape[1], CAPTION)
    line.text((shown.shape[1] / 2, CAPTION / 2), said, size=13)
    return np.concatenate([shown, line.pixels()])


def eyes(task: Level, state: LevelState, *, height: int, width: int) -> Picture:
    """What the agent of a first-person task sees, at any size."""
    return np.asarray(_seen(task, state, height=height, width=width))


@functools.partial(jax.jit, static_argnums=0, static_argnames=("height", "width"))
def _seen(task: Level, state: LevelState, *, height: int, width: int) -> UInt8[Array, "H W 3"]:
    return task.picture(state.world, height=height, width=width)


def plan(state: LevelState, *, side: int, path: Float[np.ndarray, "T 2"] | None = None) -> Picture:
    """A first-person world from above, with the way that was walked."""
    canvas = Canvas(side, side)
    draw_plan(canvas, state.world.scene, state.world.body, corner=(0, 0), side=side, path=path)
    return canvas.pixels()


def has_plan(task: Level) -> bool:
    """Whether one walks in this world: a level that paints its own picture is a screen, and has nothing to see from above."""
    return type(task).picture is Level.picture


def instruction(task: Task, state: State) -> str:
    """What a first-person task says to its agent, in words; nothing for the others."""
    return read(np.asarray(state.world.instruction)) if isinstance(task, Level) else ""


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
    for name in TASKS:
        task = make_task(name)
        if isinstance(task, Level):
            continue  # `python -m gtrxl.envs.contact_sheet` draws these
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
