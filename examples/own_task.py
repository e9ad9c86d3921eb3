"""A compiled task of your own: Echo. Say now what was shown some steps ago.

    python examples/own_task.py
    gtrxl train own_task:Echo:delay=3 --from examples
    gtrxl watch RUN --trust --from examples

Two pure functions, `reset` and `step`, written for one stream: then the task compiles into one program with acting and learning.
It is a frozen record of whole numbers, so that a program can take it as a constant, and a text can name it.
`gtrxl.testing.check_task` says whether it keeps what a task promises.

S symbols, N of them in an episode.
"""

import dataclasses
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

import gtrxl
from gtrxl.tasks.defaults import TaskDefaults
from gtrxl.tasks.scale import Scale
from gtrxl.testing import check_task


class EchoState(eqx.Module):
    """All symbols of the episode, drawn at its start, and how many were shown."""

    symbols: Int[Array, " N"]
    elapsed: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Echo(gtrxl.Task):
    """Every step shows a symbol, and pays 1 for naming the one that was shown `delay` steps before."""

    delay: int = 3
    symbols: int = 4
    episode_steps: int = 32

    @property
    def observation_space(self) -> gymnasium.spaces.Box:
        """The symbol, one-hot."""
        return gymnasium.spaces.Box(0.0, 1.0, (self.symbols,), np.float32)

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        """A symbol."""
        return gymnasium.spaces.Discrete(self.symbols)

    def reset(self, key: PRNGKeyArray) -> tuple[EchoState, Float[Array, " S"]]:
        """All that is random comes from the key."""
        state = EchoState(jax.random.randint(key, (self.episode_steps + 1,), 0, self.symbols), jnp.int32(0))
        return state, self._shown(state)

    def step(self, state: EchoState, action: Int[Array, ""]) -> tuple[EchoState, gtrxl.Step]:
        """Pays for the echo; the clock ends the episode."""
        asked = state.elapsed >= self.delay
        right = action == state.symbols[state.elapsed - self.delay]
        state = EchoState(state.symbols, state.elapsed + 1)
        return state, gtrxl.Step(
            observation=self._shown(state),
            reward=(asked & right).astype(jnp.float32),
            terminated=jnp.zeros((), bool),
            truncated=state.elapsed >= self.episode_steps,
        )

    def _shown(self, state: EchoState) -> Float[Array, " S"]:
        return jax.nn.one_hot(state.symbols[state.elapsed], self.symbols)

    # What follows may be left out, as may all that has a default in `gtrxl.tasks.contract`.

    def scale(self) -> Scale:
        """What returns are compared with."""
        asked = self.episode_steps - self.delay
        return Scale(random=asked / self.symbols, best=float(asked))

    def defaults(self) -> TaskDefaults:
        """Settings to learn it with: an answer pays at once, so nothing far ahead matters."""
        vmpo = {"eps_eta": 0.2, "eps_alpha": 0.02, "alpha_init": 0.3, "learning_rate": 1e-3}
        return TaskDefaults(memory=self.episode_steps, steps=300_000, discount=0.5, vmpo=vmpo)


def main(*, delay: int = 3, episode_steps: int = 32, **changes: Any) -> gtrxl.Run:
    """Checks the task; trains, scores and films an agent."""
    task = Echo(delay=delay, episode_steps=episode_steps)
    check_task(task)
    run = gtrxl.train(task=task, **changes)
    score = gtrxl.evaluate(run.folder)
    path, *_ = gtrxl.watch(run.folder)
    print(f"{run.config.task}: {score.mean_return:.1f} of {task.scale().best:.0f} echoes; {path} shows an episode")
    return run


if __name__ == "__main__":
    main()
