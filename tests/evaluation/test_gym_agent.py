"""A trained agent plays Gymnasium tasks from what they show, and remembers what it did."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_core
from gtrxl.evaluation.gym_agent import GymAgent, enlarged
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent
from gtrxl.networks.encoder import make_torso
from gtrxl.networks.policies import Head
from gtrxl.tasks.errors import TaskError


class Walk(gymnasium.Env):
    """Shows numbers; takes two choices and a push."""

    observation_space = gymnasium.spaces.Dict({"x": gymnasium.spaces.Box(-9, 9, (2,)), "n": gymnasium.spaces.Discrete(3)})
    action_space = gymnasium.spaces.Dict({"push": gymnasium.spaces.Box(0, 4, (1,)), "say": gymnasium.spaces.MultiBinary(2)})

    def reset(self, *, seed=None, options=None):
        return {"x": np.zeros(2, np.float32), "n": 0}, {}


@pytest.fixture(scope="module")
def player() -> GymAgent:
    """Weights large enough for actions to differ from step to step."""
    task = GymTask("walk", previous="action+reward", env_fn=Walk)
    spaces = task.spaces()
    random = np.random.default_rng(0)

    def build(key):
        keys = jax.random.split(key, 3)
        core = make_core("lstm", input_size=6, d_model=6, key=keys[1])
        torso = make_torso(spaces.lens.spec, 6, key=keys[0])
        return Agent(torso=torso, core=core, head=Head(spaces.hand.spec), hidden=6, key=keys[2])

    shapes = jax.eval_shape(build, jax.random.key(0))
    agent = jax.tree.map(lambda leaf: jnp.asarray(0.9 * random.standard_normal(leaf.shape), leaf.dtype), shapes)
    return GymAgent(agent=agent, task=task, spaces=spaces)


def test_it_does_what_the_agent_would_that_is_told_of_its_last_action(player):
    random = np.random.default_rng(1)
    raw = [{"x": random.standard_normal(2).astype(np.float32), "n": int(random.integers(3))} for _ in range(4)]
    rewards = [0.0, 1.0, -2.0, 0.5]
    state, lens = player.initial_state(), player.spaces.lens
    before, seen, done = None, [], []
    for observation, reward in zip(raw, rewards, strict=True):
        seen.append(lens(observation, action=before, reward=reward))
        action, state = player.act(observation, state, reward=reward, greedy=True)
        assert player.task.make().action_space.contains(action)
        before = state.action
        done.append(before)
    agent, resets = player.agent, jnp.array([[True, False, False, False]])
    policy, _, _ = jax.jit(lambda xs: agent.unroll(xs, agent.initial_state(1), resets=resets))(jnp.asarray(np.stack(seen))[None])
    wanted = policy.mode()
    np.testing.assert_array_equal(np.stack([action["discrete"] for action in done]), wanted["discrete"][0])
    np.testing.assert_allclose(np.stack([action["continuous"] for action in done]), wanted["continuous"][0], atol=1e-5)
    assert len({tuple(action["continuous"].tolist()) for action in done}) == 4


def test_draws_differ_by_seed_and_not_otherwise(player):
    def pushes(seed):
        state = player.initial_state(seed)
        return player.act({"x": np.zeros(2, np.float32), "n": 1}, state)[1].action["continuous"].tolist()

    assert pushes(3) == pushes(3) != pushes(4)


def test_an_observation_of_another_task_is_named(player):
    with pytest.raises(TaskError, match=r"observation\['n'\] must be from 0 to 2, got 7"):
        player.act({"x": np.zeros(2, np.float32), "n": 7}, player.initial_state())


def test_small_pictures_are_filmed_large():
    """DeepMind Lab's are 72 x 96, which nobody can look at; what is large stays as it is."""
    small = np.random.default_rng(0).integers(0, 256, (72, 96, 3), dtype=np.uint8)
    film = enlarged(small)
    assert film.shape == (288, 384, 3)
    assert np.array_equal(film[::4, ::4], small)
    assert np.array_equal(film[3::4, 3::4], small)
    large = np.zeros((150, 90, 3), np.uint8)
    assert enlarged(large).shape == large.shape
