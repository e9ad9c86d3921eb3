"""A stand-in for the module `deepmind_lab`: its calls, types, errors and sharp edges, as they were seen of the real one.

`install(folder)` makes it importable as `deepmind_lab`, in processes started from here too. What it does beside is told by
variables, so that it reaches those as well: FAKE_LAB_FRAMES (of an episode), FAKE_LAB_COMPILE (seconds that a map takes without
a cache hit), FAKE_LAB_EXIT (a file: the next step that finds it removes it and ends the process), FAKE_LAB_LOUD (it logs
whatever it was told of logging).
"""

import contextlib
import os
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

THIRTY = [
    "rooms_collect_good_objects",
    "rooms_exploit_deferred_effects",
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "language_select_described_object",
    "language_select_located_object",
    "language_execute_random_task",
    "language_answer_quantitative_question",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_small",
    "lasertag_one_opponent_large",
    "lasertag_three_opponents_large",
    "natlab_fixed_large_map",
    "natlab_varying_map_regrowth",
    "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "explore_object_locations_small",
    "explore_object_locations_large",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
]
SPLIT = ("rooms_collect_good_objects", "rooms_exploit_deferred_effects")
OTHERS = ("seekavoid_arena_01", "tests/missing_map")
KEYS = {"width", "height", "fps", "datasetPath", "allowHoldOutLevels", "mixerSeed", "logLevel", "randomSeed"}
CRASH = 139
SAID = {
    "language_answer_quantitative_question": "Are most hair_brush objects red?",
    "language_select_located_object": "Pick the red object in the blue room",
}
"""What is said in levels, where it is of another kind."""


class Lab:
    """Keeps nothing that can be set from outside, as a type written in C does."""

    __slots__ = ("_cache", "_closed", "_config", "_episode", "_frames", "_last", "_level", "_random", "_wanted", "reads")

    def __init__(self, level, observations, config=None, renderer="software", level_cache=None, temp_folder=""):
        config = {} if config is None else config
        if not isinstance(level, str):
            raise TypeError("Lab() argument 1 must be str")
        for key, value in config.items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise TypeError("Lab() config must hold strings")
            if key not in KEYS:
                raise RuntimeError(f"Invalid setting '{key}' = '{value}'")
        if renderer not in ("software", "hardware"):
            raise RuntimeError("Failed to load renderer")
        if set(observations) - {"RGB_INTERLEAVED", "INSTR"}:
            raise RuntimeError("Unknown observation")
        if int(config.get("height", 240)) % 4 or int(config.get("width", 320)) % 4:
            raise RuntimeError("Invalid screen size")
        name = level.removeprefix("contributed/dmlab30/")
        base = name.removesuffix("_train").removesuffix("_test")
        ours = level != name and base in THIRTY and (name != base) == (base in SPLIT)
        if not ours and level not in OTHERS:
            raise RuntimeError(f"Failed to find level '{level}'")
        if name.endswith("_test") and config.get("allowHoldOutLevels") != "true":
            raise RuntimeError("Hold-out levels are not allowed")
        if base in ("psychlab_arbitrary_visuomotor_mapping", "psychlab_continuous_recognition") and "datasetPath" not in config:
            raise RuntimeError("datasetPath must be set")
        if config.get("logLevel") != "WARN" or "FAKE_LAB_LOUD" in os.environ:
            os.write(1, b"Initialize Lab\n" * 42)  # from C: Python's stdout knows nothing of it
        self._level, self._config, self._wanted, self._cache = name, dict(config), list(observations), level_cache
        self._episode, self._frames, self._closed = -1, None, False
        self._random, self._last = np.random.default_rng(0), None
        self.reads: list[list[int]] = []

    def reset(self, episode=-1, seed=None):
        self._crash_if_closed()
        if seed is not None and type(seed) is not int:
            raise ValueError("'seed' must be int or None")
        if self._level == "tests/missing_map":
            os._exit(1)
        self._episode += 1
        # Unseeded processes that start in the same second are the same; the first episode differs from later ones.
        seed = int(time.time()) if seed is None else seed % 2**32
        mixed = [seed, int(self._config.get("mixerSeed", "0")), self._episode == 0]
        self._random = np.random.default_rng(mixed)
        self._compile(f"{self._level}/{mixed[0] % 4}")
        self._frames, self._last = 0, np.zeros(7, int)
        return True

    def step(self, action, num_steps=1):
        self._crash_if_closed()
        if not isinstance(action, np.ndarray):
            raise TypeError("action must be an array")
        if action.dtype != np.intc or action.shape != (7,):
            raise ValueError("action must hold 7 of np.intc")
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to step")
        sentinel = os.environ.get("FAKE_LAB_EXIT")
        if sentinel and Path(sentinel).exists():
            with contextlib.suppress(FileNotFoundError):
                Path(sentinel).unlink()
                os._exit(1)
        # Whatever the strides are, seven neighbours in memory are read.
        read = np.lib.stride_tricks.as_strided(action, shape=(7,), strides=(action.itemsize,))
        self._last = np.array(read, int)
        self.reads.append(self._last.tolist())
        self._frames = self._frames + int(num_steps)  # pyright: ignore[reportOptionalOperand]
        self._random.random()
        return float(num_steps * self._last[3])

    def observations(self):
        self._crash_if_closed()
        if not self.is_running():
            raise RuntimeError("Environment in wrong status for call to observations")
        data = self._config.get("datasetPath", "dummy")
        if data != "dummy" and not (Path(data) / "0001.png").exists():
            os._exit(CRASH)
        height, width = int(self._config.get("height", 240)), int(self._config.get("width", 320))
        state = zlib.crc32(repr(self._random.bit_generator.state["state"]).encode())
        picture = (np.arange(height * width * 3) * (state % 251 + 1) % 256).astype(np.uint8).reshape(height, width, 3)
        text = SAID.get(self._level, "collect the red ball" if self._level.startswith("language") else "")
        return {name: {"RGB_INTERLEAVED": picture, "INSTR": text}[name] for name in self._wanted}

    def is_running(self):
        return not self._closed and self._frames is not None and self._frames < int(os.environ.get("FAKE_LAB_FRAMES", "48"))

    def num_steps(self):
        return self._frames or 0

    def observation_spec(self):
        self._crash_if_closed()
        return [{"name": "RGB_INTERLEAVED", "dtype": np.uint8, "shape": (0, 0, 3)}, {"name": "INSTR", "dtype": str, "shape": ()}]

    def action_spec(self):
        return [{"name": "LOOK_LEFT_RIGHT_PIXELS_PER_FRAME", "min": -512, "max": 512}]

    def close(self):
        self._closed = True
        return True

    def _compile(self, key: str) -> None:
        """Mazes are made and compiled, unless the cache has them."""
        if not self._level.startswith("explore"):
            return
        file = Path(os.environ.get("TMPDIR", "/tmp")) / f"fake-lab-{os.getpid()}.pk3"
        try:
            if self._cache is not None and self._cache.fetch(key, str(file)):
                assert file.read_text() == key
                return
            time.sleep(float(os.environ.get("FAKE_LAB_COMPILE", "0")))
            file.write_text(key)
            if self._cache is not None:
                self._cache.write(key, str(file))
        finally:
            file.unlink(missing_ok=True)

    def _crash_if_closed(self) -> None:
        if self._closed:
            os._exit(CRASH)


def install(folder: Path, patch: Any) -> None:
    """Makes `import deepmind_lab` find this; `patch` is pytest's monkeypatch."""
    package = folder / "fake"
    package.mkdir(exist_ok=True)
    (package / "deepmind_lab.py").write_text("from tests.gym.fake_lab import Lab\n")
    patch.syspath_prepend(str(package))
    patch.delitem(__import__("sys").modules, "deepmind_lab", raising=False)
    patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    patch.setenv("TMPDIR", str(folder))
