"""A trained agent in a compiled task: acting step by step from Python, whole episodes for a score, one episode for a picture.

E episodes.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, UInt8

from gtrxl.cores import State
from gtrxl.evaluation.trained_agent import OTHER, Ends, TrainedAgent, check_state, choose
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import RunError
from gtrxl.tasks.contract import Task
from gtrxl.tasks.episodes import returns as episodes_of
from gtrxl.tasks.making import spell
from gtrxl.tasks.players.scripted import RandomPlayer
from gtrxl.tasks.scores import scale_of
from gtrxl.tasks.specs import ObservationSpec

AT_ONCE, PICTURES_AT_ONCE = 128, 16
"""Episodes played side by side; fewer where pictures are seen, which take their room and their time."""
EPISODES, PICTURE_EPISODES = 256, 32
"""Episodes that a score is taken over, unless others are asked for."""
RANDOM_EPISODES = 100
"""Episodes that a random score is taken over, at most, where none is kept."""


class CompiledAgent(TrainedAgent):
    """A trained agent that acts in one stream of a compiled task."""

    agent: Agent
    task: Task = eqx.field(static=True)

    def initial_state(self, seed: int = 0) -> Any:
        """The state at the start of an episode."""
        return self.begin_thought(seed)

    def act(self, observation: Any, state: Any, *, reward: float = 0.0, greedy: bool = False) -> tuple[Any, Any]:
        """The action for an observation, and the next state. Compiled tasks show the reward in their observations; `reward`
        is not looked at."""
        del reward
        check_state(state, "memory")
        wanted = ObservationSpec.of(self.task.observation_space).zeros()
        if isinstance(wanted, dict) and (not isinstance(observation, dict) or set(observation) != set(wanted)):
            raise RunError(f"an observation must be a dict of {', '.join(wanted)}, got {_said(observation)}; see the task")
        if isinstance(wanted, dict):
            observation = {name: _checked(observation[name], part) for name, part in wanted.items()}
        else:
            observation = _checked(observation, wanted)
        action, state = self.think(observation, state, greedy=greedy)
        return jax.tree.map(np.asarray, action), state

    @property
    def name(self) -> str:
        """Of its task."""
        return spell(self.task)

    @property
    def usual_episodes(self) -> int:
        """Fewer where pictures are seen."""
        return PICTURE_EPISODES if _pictures(self.task) else EPISODES

    def returns(self, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
        """The scores of whole episodes."""
        return returns(self.agent, self.task, episodes=episodes, seed=seed, greedy=greedy)

    def ends(self, *, episodes: int, seed: int) -> Ends:
        """Those that are kept or quickly measured; where nobody wrote a player, the random one alone."""
        scale = scale_of(self.task)
        if scale is not None:
            return Ends(scale.random, scale.best, scale.best_is)
        key, few = jax.random.key(seed + OTHER), min(episodes, RANDOM_EPISODES)
        return Ends(random=float(episodes_of(self.task, RandomPlayer(self.task), key, episodes=few).mean()))

    def film(self, *, seed: int, greedy: bool, secret: bool) -> tuple[list[UInt8[np.ndarray, "H W 3"]], list[float]]:
        """One episode as pictures, and its rewards."""
        from gtrxl.tasks.drawing.pictures import frame  # Pillow

        played = episode(self, seed=seed, greedy=greedy)
        totals = np.concatenate([[0.0], np.cumsum(played.rewards)])
        captions = [f"step {step}     return {total:.4g}" for step, total in enumerate(totals)]
        drawn = list(zip(played.states, played.observations, captions, strict=True))[:: self.task.frames_apart]
        shown = {"secret": secret}
        return [frame(self.task, state, observation=seen, caption=said, **shown) for state, seen, said in drawn], played.rewards


def _checked(given: Any, wanted: np.ndarray) -> Array:
    """An observation, or a part of one, as the network takes it. Casting must not change what it says."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "biufO":  # complex numbers lose a part in casting, and texts of digits are no numbers
            raise TypeError
        cast = array.astype(wanted.dtype)
    except (TypeError, ValueError):
        raise RunError(f"an observation must be {wanted.dtype} of shape {list(wanted.shape)}, got {_said(given)}") from None
    if array.shape != wanted.shape:
        raise RunError(
            f"an observation must have shape {list(wanted.shape)}, got {list(array.shape)}; this agent plays one stream"
        )
    if cast.dtype.kind == "f":
        if not np.isfinite(cast).all():
            raise RunError(f"an observation must be finite, got {cast[~np.isfinite(cast)][0]} among its {cast.size} numbers")
    elif array.dtype != cast.dtype and (cast != array).any():
        other = array[cast != array][0]
        raise RunError(f"an observation of {cast.dtype} must be whole numbers that fit, got {other} among {array.dtype}")
    return jnp.asarray(cast)


def _said(given: Any) -> str:
    if isinstance(given, dict):
        return f"a dict of {', '.join(map(str, given)) or 'nothing'}"
    return f"an array of {given.dtype}" if isinstance(given, np.ndarray) else type(given).__name__


def _pictures(task: Task) -> bool:
    return bool(ObservationSpec.of(task.observation_space).images)


def returns(agent: Agent, task: Task, *, episodes: int, seed: int = 0, greedy: bool = False) -> Float[np.ndarray, " E"]:
    """The scores of `episodes` episodes."""
    return in_turns(lambda key, streams: play(agent, task, key, streams, greedy)[0], task, episodes=episodes, seed=seed)


def in_turns(play: Callable[[PRNGKeyArray, int], Any], task: Task, *, episodes: int, seed: int) -> Float[np.ndarray, " E"]:
    """The scores of so many episodes, as many at a time as there is room for: `play(key, streams)` gives one of each stream."""
    streams = min(PICTURES_AT_ONCE if _pictures(task) else AT_ONCE, episodes)
    played = []
    for number in range(math.ceil(episodes / streams)):
        key = jax.random.fold_in(jax.random.key(seed + OTHER), number)
        played.append(np.asarray(play(key, streams)))
    return np.concatenate(played)[:episodes].astype(np.float64)


@eqx.filter_jit
def play(agent: Agent, task: Task, key: PRNGKeyArray, streams: int, greedy: bool) -> tuple[Float[Array, " E"], State]:
    """One episode of every stream: their scores, and the task's states that they began with."""
    reset_key, act_key = jax.random.split(key)
    state, observation = jax.vmap(task.reset)(jax.random.split(reset_key, streams))
    memory = agent.prepare(agent.initial_state(streams))

    def step(carry: Any, now: tuple[Array, PRNGKeyArray]):
        memory, state, observation, playing, score = carry
        number, key = now
        policy, _, memory = agent.step(observation, memory, reset=jnp.broadcast_to(number == 0, playing.shape))
        state, after = jax.vmap(task.step)(state, choose(agent, policy, key, streams, greedy))
        score = score + jnp.where(playing, after.reward, 0.0)
        return (memory, state, after.observation, playing & ~(after.terminated | after.truncated), score), None

    first = state
    start = (memory, state, observation, jnp.ones(streams, bool), jnp.zeros(streams))
    steps = (jnp.arange(task.episode_steps), jax.random.split(act_key, task.episode_steps))
    (_, _, _, _, score), _ = jax.lax.scan(step, start, steps)
    return score, first


class Played(NamedTuple):
    """One episode: the task's states and what the agent saw of them, first to last, and the rewards between them."""

    states: list[State]
    observations: list[PyTree]
    rewards: list[float]


def episode(player: CompiledAgent, *, seed: int = 0, greedy: bool = False) -> Played:
    """One episode, played step by step."""
    reset = jax.jit(player.task.reset)
    step = jax.jit(player.task.step)
    state, observation = reset(jax.random.key(seed + OTHER))
    thought = player.initial_state(seed)
    states, observations, rewards = [state], [observation], []
    for _ in range(player.task.episode_steps):
        action, thought = player.act(observation, thought, greedy=greedy)
        state, after = step(state, jax.tree.map(jnp.asarray, action))
        observation = after.observation
        states.append(state)
        observations.append(observation)
        rewards.append(float(after.reward))
        if after.terminated or after.truncated:
            break
    return Played(states, observations, rewards)
