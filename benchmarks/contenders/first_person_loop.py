"""Another first-person environment, stepped with random actions on demand. Run by `render.py` with that environment's Python.

    python first_person_loop.py memory-maze | vizdoom

Says in its first line how high and wide its pictures are and its version; then for each line with a number, makes so many steps,
each with its picture, and answers with how many it made. Needs nothing of this project.
"""

import importlib.metadata
import json
import os
import random
import sys
import warnings
from collections.abc import Callable
from typing import Any

warnings.filterwarnings("ignore")


def memory_maze() -> tuple[Callable[[], Any], dict[str, Any]]:
    """Memory Maze 9x9 as its package makes it: MuJoCo, pictures of 64 x 64, drawn in software."""
    os.environ.setdefault("MUJOCO_GL", "osmesa")
    import gym  # pyright: ignore[reportMissingImports]

    env = gym.make("memory_maze:MemoryMaze-9x9-v0", disable_env_checker=True)
    picture = env.reset()

    def step() -> Any:
        observation, _, done, _ = env.step(env.action_space.sample())
        return env.reset() if done else observation

    return step, {"height": picture.shape[0], "width": picture.shape[1], "version": importlib.metadata.version("memory-maze")}


def vizdoom() -> tuple[Callable[[], Any], dict[str, Any]]:
    """ViZDoom's basic scenario, one tic for each step, RGB pictures of its smallest size."""
    import vizdoom as viz  # pyright: ignore[reportMissingImports]

    game = viz.DoomGame()
    game.load_config(os.path.join(viz.scenarios_path, "basic.cfg"))
    game.set_screen_resolution(viz.ScreenResolution.RES_160X120)
    game.set_screen_format(viz.ScreenFormat.RGB24)
    game.set_window_visible(False)
    game.init()
    game.new_episode()
    buttons = game.get_available_buttons_size()

    def step() -> Any:
        if game.is_episode_finished():
            game.new_episode()
        picture = game.get_state().screen_buffer
        game.make_action([random.random() < 0.5 for _ in range(buttons)])
        return picture

    return step, {"height": 120, "width": 160, "version": importlib.metadata.version("vizdoom")}


def main() -> None:
    """Steps as it is told to."""
    # What a library prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    step, about = {"memory-maze": memory_maze, "vizdoom": vizdoom}[sys.argv[1]]()
    print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        for _ in range(int(line)):
            step()
        print(int(line), file=answers, flush=True)
    # Some renderers raise while Python takes itself down.
    os._exit(0)


if __name__ == "__main__":
    main()
