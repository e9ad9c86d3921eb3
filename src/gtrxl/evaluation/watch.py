"""An episode of a trained agent as a picture that moves."""

import os
from pathlib import Path
from typing import Any

from gtrxl.evaluation.exported import file_of, place_for
from gtrxl.evaluation.loading import load
from gtrxl.runs.errors import RunError
from gtrxl.runs.folder import Which, check_inside
from gtrxl.training.session import EnvFn


def watch(
    run: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    which: Which | int = "best",
    greedy: bool = False,
    secret: bool = False,
    fps: float = 8.0,
    task: str | None = None,
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> tuple[Path, float, int]:
    """Draws one episode to a GIF, or to PNG frames in a folder; returns where, the return and the number of steps. `task` is
    the one that is played: of several, the first if left out. The rest is as in `load`."""
    from PIL import Image

    from gtrxl.tasks.drawing.pictures import episode_gif

    path = place_for(run, "episode.gif") if to is None else Path(to)
    if path.suffix not in (".gif", ""):
        raise RunError(f"an episode is written as .gif or as frames in a folder, got {path}; MP4 can be made from the frames")
    if to is None and not trust and file_of(run) is None:
        check_inside(Path(run), path.name)
    agent = load(run, which, task=task, env_fn=env_fn, trust=trust, **given)
    frames, rewards = agent.film(seed=seed, greedy=greedy, secret=secret)
    try:
        if path.suffix == ".gif":
            path.parent.mkdir(parents=True, exist_ok=True)
            episode_gif(frames, path, fps)
        else:
            path.mkdir(parents=True, exist_ok=True)
            for number, picture in enumerate(frames):
                Image.fromarray(picture).save(path / f"{number:04d}.png")
    except OSError as error:
        raise RunError(
            f"cannot write the episode to {path}: {error.strerror or error}; choose another place with --to"
        ) from error
    return path, float(sum(rewards)), len(rewards)
