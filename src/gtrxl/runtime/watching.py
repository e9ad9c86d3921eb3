"""An episode of a trained agent as a picture that moves."""

import os
from pathlib import Path

import gymnasium
import numpy as np
from jaxtyping import UInt8

from gtrxl.runtime.agents import EnvFn, load
from gtrxl.runtime.errors import RunError, first_line
from gtrxl.runtime.host_player import HostPlayer
from gtrxl.runtime.playing import OTHER, Player, episode
from gtrxl.runtime.runs import Which

MOST_STEPS = 2000
"""A Gymnasium episode that has no end is drawn this far."""

FIRST_PERSON_EVERY = 2
"""Of a first-person task, which takes 15 steps a second, every second step is drawn: 8 frames a second are as fast as life."""


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
) -> tuple[Path, float, int]:
    """Draws one episode to a GIF, or to PNG frames in a folder; returns where, the return and the number of steps. `task` is
    the one that is played: of several, the first if left out."""
    from PIL import Image

    from gtrxl.envs.pictures import episode_gif

    path = Path(run) / "episode.gif" if to is None else Path(to)
    if path.suffix not in (".gif", ""):
        raise RunError(f"an episode is written as .gif or as frames in a folder, got {path}; MP4 can be made from the frames")
    player = load(run, which, task=task, env_fn=env_fn)
    if isinstance(player, HostPlayer):
        frames, rewards = _host_frames(player, seed=seed, greedy=greedy)
    else:
        assert isinstance(player, Player)
        frames, rewards = _frames(player, seed=seed, greedy=greedy, secret=secret)
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


Picture = UInt8[np.ndarray, "H W 3"]


def _frames(player: Player, *, seed: int, greedy: bool, secret: bool) -> tuple[list[Picture], list[float]]:
    from gtrxl.envs.first_person.level import Level
    from gtrxl.envs.pictures import frame

    states, rewards = episode(player, seed=seed, greedy=greedy)
    totals = np.concatenate([[0.0], np.cumsum(rewards)])
    captions = [f"step {step}     return {total:.4g}" for step, total in enumerate(totals)]
    every = FIRST_PERSON_EVERY if isinstance(player.task, Level) else 1
    drawn = list(zip(states, captions, strict=True))[::every]
    return [frame(player.task, state, caption=said, secret=secret) for state, said in drawn], rewards


def _host_frames(player: HostPlayer, *, seed: int, greedy: bool) -> tuple[list[Picture], list[float]]:
    """One episode of a Gymnasium task, as the task itself draws it."""
    env = player.task.make(render_mode="rgb_array")
    try:
        observation, _ = env.reset(seed=seed + OTHER)
        state, frames, rewards, over = player.initial_state(seed), [_drawn(env, player)], [], False
        while not over:
            action, state = player.act(observation, state, reward=rewards[-1] if rewards else 0.0, greedy=greedy)
            observation, reward, terminated, truncated, _ = env.step(action)
            rewards.append(float(reward))
            frames.append(_drawn(env, player))
            over = terminated or truncated or len(rewards) >= MOST_STEPS
    finally:
        env.close()
    return frames, rewards


def _drawn(env: gymnasium.Env, player: HostPlayer) -> Picture:
    try:
        picture = env.render()
    except gymnasium.error.DependencyNotInstalled as error:
        raise RunError(f"{player.task.name} cannot draw itself: {first_line(error)}") from error
    except NotImplementedError:
        picture = None
    if not isinstance(picture, np.ndarray) or picture.ndim != 3:
        raise RunError(
            f"{player.task.name} must draw itself as an array (render_mode rgb_array), got {type(picture).__name__}; "
            "an episode of it cannot be shown"
        )
    return picture[..., :3].astype(np.uint8)
