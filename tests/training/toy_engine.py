"""An engine that learns nothing, in no time: for what a session does around it."""

import contextlib
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from gtrxl.evaluation import loading
from gtrxl.training import session
from gtrxl.training.engine import Advance


class ToyTrained(NamedTuple):
    agent: Any


class ToyState(NamedTuple):
    trained: ToyTrained
    updates: Any
    diverged: Any


class ToyEngine:
    """Weights that go round by what they were: a row tells them, so that rows are the same only if every bit is."""

    stops: ClassVar[str] = "at the next report"
    begins: str = "compiling"

    def __init__(self, config, tasks=None):
        self.config, self.tasks = config, config.tasks

    def start(self):
        weights = jnp.arange(20, dtype=jnp.float32) / 7 + self.config.seed
        return ToyState(ToyTrained(weights), jnp.int32(0), jnp.int32(-1))

    def shapes(self):
        return jax.eval_shape(self.start)

    def restore(self, checkpoints, which="last"):
        return checkpoints.restore(self.shapes(), which)

    def placed(self, state):
        return state

    def whole(self, state):
        return state

    @contextlib.contextmanager
    def running(self, state, *, before, say):
        yield self

    def advance(self, state, *, until, stop):
        weights = jnp.sin(state.trained.agent * 3 + until)
        state = state._replace(trained=ToyTrained(weights), updates=jnp.int32(until))
        row = {"frames": until * self.config.frames_per_update, "updates": until, "task": self.config.task, "episodes": 1}
        return Advance(state, row | {"return_mean": float(weights.sum()), "loss": float(weights[0])}, None)


def use_toy_engine(monkeypatch) -> None:
    """Every run is done by it, and its agents are loaded from it."""
    monkeypatch.setattr(session, "engine_of", lambda config, env_fn=None: ToyEngine(config))
    monkeypatch.setattr(loading, "engine_of", lambda config, env_fn=None: ToyEngine(config))
    monkeypatch.setattr(session, "_check_memory", lambda engine: None)
