"""Gymnasium tasks for tests, importable in other processes: one whose every number is known, one for each way to misbehave."""

import os
import signal
import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete


class Counter(gymnasium.Env):
    """Shows its episode and its step, ends for good when told 1 at step 3, and by the clock after 5 steps.

    The reward of a step is its number, and half more for action 1.
    """

    def __init__(self):
        self.observation_space = Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = Discrete(2)
        self.episode = -1

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.episode, self.step_number = self.episode + 1, 0
        if seed is not None:
            self.seed = seed % 1000
        return self._show(), {}

    def step(self, action) -> Any:
        assert self.action_space.contains(action)
        self.step_number += 1
        terminated = self.step_number == 3 and action == 1
        return self._show(), self.step_number + 0.5 * action, terminated, self.step_number >= 5, {}

    def _show(self):
        return np.array([self.episode, self.step_number, self.seed / 1000], np.float32)


class Bad(Counter):
    """A `Counter` that does `what` instead of its step `at`; `stubborn` hangs in a way that no signal ends."""

    def __init__(self, what: str, at: int = 2):
        super().__init__()
        self.what, self.at = what, at

    def reset(self, *, seed=None, options=None) -> Any:
        observation, info = super().reset(seed=seed)
        return (observation, info) if self.what != "reset" else observation

    def step(self, action) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.step_number < self.at:
            return observation, reward, terminated, truncated, info
        match self.what:
            case "raise":
                raise KeyError("no such\nroom")
            case "sleep":
                time.sleep(1000)
            case "swallow":
                try:
                    time.sleep(1000)
                except Exception:
                    time.sleep(1000)
            case "stubborn":
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM, signal.SIGTERM})
                time.sleep(1000)
            case "exit":
                os._exit(7)
            case "nan reward":
                reward = float("nan")
            case "two rewards":
                reward = np.array([1.0, 2.0])
            case "nan":
                observation = observation * np.nan
            case "shape":
                observation = observation[:2]
            case "dtype":
                observation = "three"
            case "flag":
                terminated = 0
            case "four":
                return observation, reward, terminated, info
        return observation, reward, terminated, truncated, info


class Broken(gymnasium.Env):
    """Cannot even be made."""

    def __init__(self):
        raise OSError("no display")


class Busy(Counter):
    """Keeps a core busy for a while at every step."""

    def __init__(self, seconds: float = 0.001):
        super().__init__()
        self.seconds = seconds

    def step(self, action) -> Any:
        until = time.perf_counter() + self.seconds
        while time.perf_counter() < until:
            pass
        return super().step(action)


class Mixed(gymnasium.Env):
    """A picture and a number to see; a choice and two numbers to act with."""

    def __init__(self):
        self.observation_space = Dict(eye=Box(0, 255, (8, 8, 3), np.uint8), speed=Box(-1, 1, (1,), np.float32))
        self.action_space = Dict(jump=Discrete(3), push=Box(-1, 1, (2,), np.float32))

    def reset(self, *, seed=None, options=None) -> Any:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action) -> Any:
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 1.0, False, False, {}
