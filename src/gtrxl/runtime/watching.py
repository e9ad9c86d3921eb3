"""An episode of a trained agent as a picture that moves."""

import os
from pathlib import Path

import numpy as np

from gtrxl.runtime.errors import RunError
from gtrxl.runtime.playing import episode, load
from gtrxl.runtime.runs import Which


def watch(
    run: str | os.PathLike[str],
    to: str | os.PathLike[str] | None = None,
    *,
    seed: int = 0,
    which: Which | int = "best",
    greedy: bool = False,
    secret: bool = False,
    fps: float = 8.0,
) -> tuple[Path, float, int]:
    """Draws one episode to a GIF, or to PNG frames in a folder; returns where, the return and the number of steps."""
    from PIL import Image

    from gtrxl.envs.pictures import episode_gif, frame

    path = Path(run) / "episode.gif" if to is None else Path(to)
    if path.suffix not in (".gif", ""):
        raise RunError(f"an episode is written as .gif or as frames in a folder, got {path}; MP4 can be made from the frames")
    player = load(run, which)
    states, rewards = episode(player, seed=seed, greedy=greedy)
    totals = np.concatenate([[0.0], np.cumsum(rewards)])
    frames = [
        frame(player.task, state, caption=f"step {step}     return {totals[step]:.4g}", secret=secret)
        for step, state in enumerate(states)
    ]
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
    return path, float(totals[-1]), len(rewards)
