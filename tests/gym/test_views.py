"""An agent takes what `gymnasium.make` shows as well as what our own environment around it shows."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_core
from gtrxl.evaluation.gym_agent import GymAgent
from gtrxl.gym.by_name import parse
from gtrxl.gym.spaces.views import OneHotCells, WithoutVelocities, raw_space, views_of
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent
from gtrxl.networks.encoder import make_torso
from gtrxl.networks.policies import Head
from gtrxl.tasks.errors import TaskError

MINIGRID = ["MiniGrid-MemoryS13-v0", "MiniGrid-DoorKey-5x5-v0", "MiniGrid-Fetch-5x5-N2-v0", "BabyAI-GoToObj-v0"]


def raw_env(id: str) -> gymnasium.Env:
    """As a user makes it."""
    return gymnasium.make(id, disable_env_checker=True)


def player(task: GymTask) -> GymAgent:
    """Weights large enough for actions to differ from step to step."""
    spaces = task.spaces()
    random = np.random.default_rng(0)

    def build(key):
        keys = jax.random.split(key, 3)
        core = make_core("lstm", input_size=8, d_model=8, key=keys[1])
        torso = make_torso(spaces.lens.spec, 8, key=keys[0])
        return Agent(torso=torso, core=core, head=Head(spaces.hand.spec), hidden=8, key=keys[2])

    shapes = jax.eval_shape(build, jax.random.key(0))
    agent = jax.tree.map(lambda leaf: jnp.asarray(0.5 * random.standard_normal(leaf.shape), leaf.dtype), shapes)
    return GymAgent(agent=agent, task=task, spaces=spaces)


def played(agent: GymAgent, env: gymnasium.Env, steps: int = 60) -> list:
    """What the agent does, one episode after the other."""
    (observation, _), state, actions = env.reset(seed=3), agent.initial_state(), []
    for _ in range(steps):
        action, state = agent.act(observation, state)
        actions.append(np.asarray(action).tolist())
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            (observation, _), state = env.reset(), agent.initial_state()
    env.close()
    return actions


@pytest.mark.parametrize("id", ["MiniGrid-MemoryS13-v0", "MiniGrid-Fetch-5x5-N2-v0"])
def test_an_agent_of_minigrid_does_the_same_with_raw_observations(id):
    pytest.importorskip("minigrid")
    agent = player(parse(f"gym:{id}"))
    actions = played(agent, agent.task.make())
    assert len(set(actions)) > 2
    assert played(agent, raw_env(id)) == actions


@pytest.mark.parametrize("id", ["Pendulum-v1", "MountainCarContinuous-v0"])
def test_an_agent_without_velocities_does_not_see_them_in_raw_observations(id):
    agent = player(parse(f"gym:{id}", mask_velocity=True))
    actions = played(agent, agent.task.make())
    assert played(agent, raw_env(id)) == actions
    told = player(parse(f"gym:{id}"))
    assert played(told, raw_env(id)) != actions, "velocities would have made a difference"


@pytest.mark.parametrize("id", MINIGRID)
def test_cells_are_those_of_minigrids_own_wrapper_and_seen_twice_the_same(id):
    wrappers = pytest.importorskip("minigrid.wrappers")
    task = parse(f"gym:{id}")
    ours, theirs, raw = task.make(), wrappers.OneHotPartialObsWrapper(raw_env(id)), raw_env(id)
    (view,) = views_of(ours)
    assert isinstance(view, OneHotCells)
    seen = [env.reset(seed=1)[0] for env in (ours, theirs, raw)]
    random = np.random.default_rng(0)
    for _ in range(40):
        mine, other, plain = seen
        assert ours.observation_space.contains(mine)
        assert mine.keys() == ours.observation_space.spaces.keys()  # pyright: ignore[reportAttributeAccessIssue]
        np.testing.assert_array_equal(mine["image"], other["image"])
        for again in (view(mine), view(plain)):
            assert again.keys() == mine.keys()
            np.testing.assert_array_equal(again["image"], mine["image"])
        stepped = [env.step(action := int(random.integers(3))) for env in (ours,)]
        stepped += [env.step(action) for env in (theirs, raw)]
        seen = [each[0] for each in stepped]
        if stepped[0][2] or stepped[0][3]:
            break


def test_spaces_are_the_same_with_and_without_a_view():
    """What an agent sees in the end is compared, not where it came from."""
    plain, masked = (parse("gym:CartPole-v1", mask_velocity=mask).spaces() for mask in (False, True))
    assert masked.lens.views == (WithoutVelocities((1, 3)),)
    assert plain == masked
    assert hash(plain) == hash(masked)
    env = parse("gym:CartPole-v1", mask_velocity=True).make()
    assert raw_space(env) == env.observation_space


def test_what_does_not_fit_says_what_was_expected_and_what_came():
    pytest.importorskip("minigrid")
    lens = parse("gym:MiniGrid-MemoryS13-v0").spaces().lens
    cells = np.zeros((5, 5, 3), np.uint8)
    with pytest.raises(TaskError) as caught:
        lens({"image": cells, "direction": 0, "mission": "go"})
    said = str(caught.value)
    assert "\n" not in said
    assert "breaks its own" not in said
    expected = "a dict of direction: a whole number from 0 to 3, image: uint8 of shape [7, 7, 3], mission: text"
    came = "a dict of image: uint8 of shape [5, 5, 3], direction: 0 (int), mission: 'go'"
    assert said.startswith(f"an observation must be {expected}, got {came} (observation['image'] must have shape")
    assert said.endswith("; give what the environment's reset and step return")
    with pytest.raises(TaskError, match=r"must be float32 of shape \[4\], got float64 of shape \[3\]"):
        parse("gym:CartPole-v1").spaces().lens(np.zeros(3))
    with pytest.raises(TaskError, match=r"must be float32 of shape \[4\], got a tuple of float32 of shape \[4\], a dict of"):
        parse("gym:CartPole-v1").spaces().lens((np.zeros(4, np.float32), {}))
