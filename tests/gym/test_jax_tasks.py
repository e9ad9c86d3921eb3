"""Tasks of gymnax and navix: what the agent gets is what their environments give, stepped by hand with the same keys."""

import functools
import importlib.metadata
import pickle
import sys
from typing import Any

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.gym.bridge import TaskVectorEnv
from gtrxl.gym.jax_tasks import JaxTask, from_gymnax, is_jax, packages
from gtrxl.gym.jax_tasks.env import GymnaxEnv
from gtrxl.tasks.errors import TaskError
from gtrxl.tasks.specs import ObservationSpec


@pytest.fixture(autouse=True)
def _theirs():
    """Other people's code is not held to our strictness."""
    with jax.numpy_rank_promotion("allow"):
        yield


def installed(name: str) -> Any:
    """A package that the tests' extra brings; where it is missing, its tests are left out."""
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    return packages._package(name)


@functools.partial(jax.jit, static_argnums=0)
def step(task, state, action):
    return task.step(state, action)


def drawn(task, seed: int):
    """An action of the task."""
    space = task.action_space
    key = jax.random.key(seed)
    if isinstance(space, gymnasium.spaces.Discrete):
        return jax.random.randint(key, (), 0, int(space.n))
    return jax.random.uniform(key, space.shape, minval=-1, maxval=1)


def ours(task, key, steps: int) -> list[tuple[np.ndarray, float, bool, bool]]:
    """One episode, or its first steps, with random actions."""
    state, observation = jax.jit(task.reset)(key)
    told = [(np.asarray(observation), 0.0, False, False)]
    for i in range(steps):
        state, came = step(task, state, drawn(task, i))
        told.append((np.asarray(came.observation), float(came.reward), bool(came.terminated), bool(came.truncated)))
        if told[-1][2] or told[-1][3]:
            break
    return told


def test_names_are_told_apart_and_come_back():
    for text in (
        "jax:gymnax/MemoryChain-bsuite",
        "jax:gymnax/MemoryChain-bsuite:memory_length=10",
        "jax:gymnax/MemoryChain-bsuite:memory_length=10,previous=action+reward",
        "jax:navix/Navix-DoorKey-5x5-v0:observation_fn=symbolic_first_person,max_steps=20",
    ):
        assert is_jax(text)
        task, again = JaxTask.parse(text), JaxTask.parse(f" {text} ")
        assert task.name == text
        assert (task, hash(task)) == (again, hash(again)) == (pickle.loads(pickle.dumps(task)), hash(task))
    assert JaxTask.parse("jax:gymnax/CartPole-v1:previous=action") == JaxTask.parse("jax:gymnax/CartPole-v1")
    assert JaxTask.parse("jax:gymnax/CartPole-v1:previous=none") != JaxTask.parse("jax:gymnax/CartPole-v1")
    assert not is_jax("gym:CartPole-v1")


# gymnax


CASES = [
    ("CartPole-v1", {}, 100),
    ("MemoryChain-bsuite", {"memory_length": 4}, 20),
    ("UmbrellaChain-bsuite", {"chain_length": 6}, 20),
    ("Pendulum-v1", {"max_steps_in_episode": 7}, 20),
    ("FrozenLake-misc", {"max_steps_in_episode": 9}, 20),
]


def gymnax_by_hand(id: str, arguments: dict[str, Any], task, key, steps: int):
    """The same episode from gymnax itself: its public `step` hands out the last observation in `info`."""
    gymnax = installed("gymnax")
    env, params = gymnax.make(id)
    params = params.replace(**arguments)
    first, later = jax.random.split(key)
    observation, state = env.reset_env(first, params)
    told = [(np.asarray(observation), 0.0, False, False)]
    for i in range(steps):
        later, now = jax.random.split(later)
        action = drawn(task, i)
        if isinstance(env.action_space(params), gymnax.environments.spaces.Box):
            space = env.action_space(params)
            action = (space.low + space.high) / 2 + (space.high - space.low) / 2 * action
        observation, state, reward, terminated, _ = env.step_env(now, state, action, params)
        truncated = bool(env.is_truncated(state, params)) and not terminated
        told.append((np.asarray(observation), float(reward), bool(terminated), truncated))
        if terminated or truncated:
            break
    return told


@pytest.mark.parametrize(("id", "arguments", "steps"), CASES)
def test_gymnax_gives_the_same_by_hand(id, arguments, steps):
    installed("gymnax")
    text = f"jax:gymnax/{id}:" + ",".join([*(f"{key}={value}" for key, value in arguments.items()), "previous=none"])
    task = JaxTask.parse(text)
    for seed in range(2):
        mine = ours(task, jax.random.key(seed), steps)
        theirs = gymnax_by_hand(id, arguments, task, jax.random.key(seed), steps)
        assert len(mine) == len(theirs)
        assert mine[-1][2] or mine[-1][3], "the episode ends"
        for (seen, reward, *ends), (shown, given, *ended) in zip(mine, theirs, strict=True):
            wanted = np.eye(16)[shown] if id.startswith("FrozenLake") else shown.reshape(-1)
            np.testing.assert_allclose(seen, wanted, rtol=1e-5, atol=1e-5)
            assert reward == pytest.approx(given, rel=1e-4, abs=1e-5)
            assert ends == ended


def test_time_running_out_is_not_the_end_of_everything():
    installed("gymnax")
    clock = ours(JaxTask.parse("jax:gymnax/Pendulum-v1:max_steps_in_episode=7"), jax.random.key(0), 50)
    assert (len(clock), clock[-1][2:]) == (1 + 7, (False, True))
    fallen = ours(JaxTask.parse("jax:gymnax/CartPole-v1"), jax.random.key(0), 200)
    assert fallen[-1][2:] == (True, False)
    assert all(not terminated and not truncated for _, _, terminated, truncated in fallen[:-1])
    assert np.abs(fallen[-1][0][2]) > 0.2, "the observation after the end is the episode's last, not the next one's first"


def test_the_previous_action_and_reward_are_shown_as_asked():
    installed("gymnax")
    for previous, size in (("none", 3), ("action", 4), ("action+reward", 5)):
        task = JaxTask.parse(f"jax:gymnax/Pendulum-v1:previous={previous}")
        assert ObservationSpec.of(task.observation_space) == ObservationSpec(size)
        played = ours(task, jax.random.key(1), 5)
        assert not played[0][0][3:].any(), "nothing was done before"
        for i, (seen, reward, *_) in enumerate(played[1:]):
            told = [*np.asarray(drawn(task, i)), reward][: size - 3]
            np.testing.assert_allclose(seen[3:], told, rtol=1e-6)


def test_an_argument_may_be_of_what_makes_the_environment():
    installed("gymnax")
    task = JaxTask.parse("jax:gymnax/DeepSea-bsuite:size=5,previous=none")
    assert task.observation_space.shape == (25,)


@pytest.mark.parametrize("id", ["MountainCarContinuous-v0", "Catch-bsuite"])
def test_tasks_of_gymnax_keep_the_contract(id):
    installed("gymnax")
    keeps_the_contract(JaxTask.parse(f"jax:gymnax/{id}"), steps=12)


@pytest.mark.slow
def test_all_tasks_of_gymnax_can_be_compiled():
    gymnax = installed("gymnax")
    for id in gymnax.registered_envs:
        if id == "MNISTBandit-bsuite":  # wants to download pictures
            continue
        task = JaxTask.parse(f"jax:gymnax/{id}")
        ObservationSpec.of(task.observation_space)
        if id.endswith(("-v0", "-v1", "Breakout-MinAtar", "-misc")):
            keeps_the_contract(task, steps=12)
        else:
            jax.eval_shape(lambda key, task=task: task.step(task.reset(key)[0], drawn(task, 0)), jax.random.key(0))


def keeps_the_contract(task, *, steps: int) -> None:
    """Runs under jit, vmap and scan; shapes and types stay; the same keys give the same, streams do not mix."""

    actions = jax.tree.map(lambda *each: jnp.stack(each), *(drawn(task, i) for i in range(steps)))

    def stream(key):
        state, observation = task.reset(key)

        def one(state, i):
            return task.step(state, jax.tree.map(lambda numbers: numbers[i], actions))

        after, came = jax.lax.scan(one, state, jnp.arange(steps))
        assert jax.tree.map(jnp.shape, after) == jax.tree.map(jnp.shape, state)
        return observation, came

    keys = jax.random.split(jax.random.key(0), 3)
    run = jax.jit(jax.vmap(stream))
    first, again = run(keys), run(keys)
    alone = jax.jit(stream)(keys[1])
    for leaf, same, one in zip(*map(jax.tree.leaves, (first, again, alone)), strict=True):
        np.testing.assert_array_equal(leaf, same)
        np.testing.assert_allclose(leaf[1], one, rtol=1e-5, atol=1e-5)
    space = task.observation_space
    member = jax.tree.map(lambda leaf: np.asarray(leaf)[0], first[0])
    assert space.contains(member)
    assert first[1].reward.dtype == jnp.float32
    assert first[1].terminated.dtype == first[1].truncated.dtype == jnp.bool


# navix


NAVIX = [
    ("Navix-DoorKey-5x5-v0", "symbolic"),
    ("Navix-Empty-Random-5x5-v0", "symbolic_first_person"),
    ("Navix-Dynamic-Obstacles-5x5-v0", "symbolic_first_person"),
    pytest.param("Navix-LavaGapS5-v0", "symbolic", marks=pytest.mark.slow),
    pytest.param("Navix-DoorKey-5x5-v0", "symbolic_first_person", marks=pytest.mark.slow),
]


def cells(shown: np.ndarray) -> np.ndarray:
    """Objects, colours and states, one-hot."""
    return np.concatenate([np.eye(count)[shown[..., i]] for i, count in enumerate((11, 6, 4))], axis=-1).reshape(-1)


@pytest.mark.parametrize(("id", "view"), NAVIX)
def test_navix_gives_the_same_by_hand(id, view):
    navix = installed("navix")
    task = JaxTask.parse(f"jax:navix/{id}:observation_fn={view},max_steps=30,previous=none")
    env = navix.make(id, max_steps=30, observation_fn=getattr(navix.observations, view))
    their_reset, their_step = jax.jit(env.reset), jax.jit(env.step)
    for seed in range(2):
        key = jax.random.key(seed)
        mine = ours(task, key, 40)
        timestep = their_reset(jax.random.split(key)[0])
        for i, (seen, reward, terminated, truncated) in enumerate(mine):
            if i:
                timestep = their_step(timestep, drawn(task, i - 1))
            shown = np.asarray(timestep.observation)
            assert (shown < [11, 6, 4]).all(), "nothing falls out of the one-hot numbers"
            np.testing.assert_array_equal(seen, cells(shown))
            assert reward == float(timestep.reward)
            assert (terminated, truncated) == (bool(timestep.is_termination()), bool(timestep.is_truncation()))
        assert mine[-1][2] or mine[-1][3], "the episode ends"


FAMILIES = [
    "Navix-FourRooms-v0", "Navix-KeyCorridorS3R1-v0", "Navix-KeyCorridorS3R2-v0", "Navix-LavaGapS5-v0",
    "Navix-SimpleCrossingS9N1-v0", "Navix-Dynamic-Obstacles-5x5-v0", "Navix-DistShift1-v0", "Navix-GoToDoor-5x5-v0",
    "Navix-DoorKey-Random-6x6-v0", "Navix-Empty-5x5-v0",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("id", FAMILIES)
@pytest.mark.parametrize("view", ["symbolic", "symbolic_first_person", "categorical"])
def test_cells_of_navix_hold_what_we_make_one_hot(id, view):
    """Its own spaces promise less than it shows, so they are not asked."""
    installed("navix")
    task = JaxTask.parse(f"jax:navix/{id}:observation_fn={view},previous=none")

    def stream(key):
        def one(state, key):
            state, _ = task.step(state, jax.random.randint(key, (), 0, 7))
            return state, state.env.observation

        return jax.lax.scan(one, task.reset(key)[0], jax.random.split(key, 40))[1]

    seen = np.asarray(jax.jit(jax.vmap(stream))(jax.random.split(jax.random.key(0), 4)))
    if view == "categorical":
        assert seen.min() >= -1
        assert seen.max() < 11
    else:
        assert (seen[..., :2] < [11, 6]).all()
        assert set(np.unique(seen[..., 2])) <= {0, 1, 2, 3, 254}


def test_navix_in_colours_is_a_picture():
    installed("navix")
    task = JaxTask.parse("jax:navix/Navix-DoorKey-5x5-v0:observation_fn=rgb,max_steps=5")
    spec = ObservationSpec.of(task.observation_space)
    (name, (height, width, channels)), *_ = spec.images
    assert (name, height, width, channels) == ("image", height, height, 3)
    _, seen = jax.jit(task.reset)(jax.random.key(0))
    assert seen["image"].dtype == jnp.uint8
    assert len(np.unique(seen["image"])) > 3
    assert not seen["vector"].any()


def test_states_of_navix_carry_no_pictures_that_nobody_sees():
    installed("navix")
    task = JaxTask.parse("jax:navix/Navix-DoorKey-5x5-v0")
    state, _ = jax.eval_shape(task.reset, jax.random.key(0))
    assert sum(leaf.size for leaf in jax.tree.leaves(state)) < 1000


def test_navix_compiles_and_steps_as_gymnasium_vectors():
    installed("navix")
    task = JaxTask.parse("jax:navix/Navix-Empty-5x5-v0:max_steps=6")
    keeps_the_contract(task, steps=5)
    envs = TaskVectorEnv(task, 3)
    envs.reset(seed=0)
    ends = [envs.step(np.zeros(3, np.int64))[3].tolist() for _ in range(8)]
    assert ends == [[False] * 3] * 5 + [[True] * 3] + [[False] * 3] * 2, "it turns on the spot until time is up, then again"


# Doors and errors


class Corridor:
    """A stranger's environment with the older interface: `done` is both kinds of end."""

    class _Params:
        def __init__(self, goal: int):
            self.goal = goal

    default_params = _Params(3)

    def reset_env(self, key, params):
        del key
        return {"at": jnp.zeros(2), "which": jnp.int32(1)}, (jnp.int32(0), 0)

    def step_env(self, key, state, action, params):
        del key
        at, steps = state[0] + action[0], state[1] + 1
        return {"at": jnp.array([at, steps], jnp.float32), "which": at % 3}, (at, steps), 1, at >= params.goal, {}

    def observation_space(self, params):
        return SimpleSpace(spaces={"at": Box(-9.0, 9.0, (2,)), "which": SimpleSpace(n=3)})

    def action_space(self, params):
        return SimpleSpace(spaces=(SimpleSpace(n=2), Box(0.0, 4.0, (1,))))


class SimpleSpace:
    """Has what it is given."""

    def __init__(self, **fields):
        vars(self).update(fields)


def Box(low, high, shape):  # noqa: N802 (a space)
    return SimpleSpace(low=low, high=high, shape=shape, dtype=np.float32)


def test_any_object_with_the_interface_is_a_task():
    env = Corridor()
    task = from_gymnax(env, name="corridor", episode_steps=5, previous="none")
    again = from_gymnax(env, name="corridor", episode_steps=5, previous="none")
    assert (task, hash(task)) == (again, hash(again))
    assert task != from_gymnax(env, name="corridor", episode_steps=6, previous="none")
    assert task.own_name() == "corridor"
    assert set(task.action_space.spaces) == {"discrete", "continuous"}  # pyright: ignore[reportAttributeAccessIssue]
    for choice, ends in ((1, [(False, False)] * 2 + [(True, False)]), (0, [(False, False)] * 4 + [(False, True)])):
        state, seen = task.reset(jax.random.key(0))
        np.testing.assert_array_equal(seen, [0, 0, 0, 1, 0])
        action = {"discrete": jnp.array([choice]), "continuous": jnp.array([0.5])}
        told = []
        for _ in ends:
            state, came = step(task, state, action)
            told.append((bool(came.terminated), bool(came.truncated)))
        assert told == ends
    with pytest.raises(TaskError, match=r"must have an end, got params without max_steps_in_episode .*; give episode_steps"):
        from_gymnax(env, name="corridor")
    with pytest.raises(TaskError, match="corridor must have gymnax's interface, got no reset_env, step_env"):
        from_gymnax(object(), (), name="corridor")


def test_an_older_environments_end_by_the_clock_is_told_from_its_other_ends():
    class Older(Corridor):
        def step_env(self, key, state, action, params) -> Any:
            observation, after, reward, done, info = super().step_env(key, (state.at, state.time), action, params)
            after = Clocked(at=after[0], time=after[1])
            return observation, after, reward, done | (after.time >= params.max_steps_in_episode), info

        def reset_env(self, key, params) -> Any:
            return super().reset_env(key, params)[0], Clocked(at=jnp.int32(0), time=jnp.int32(0))

    params = SimpleSpace(goal=3, max_steps_in_episode=4)
    env = GymnaxEnv(Older(), params, name="older")
    for choice, wanted in ((1, (3, True, False)), (0, (4, False, True))):
        state, _ = env.reset(jax.random.key(0))
        ends, count = (False, False), 0
        while not any(ends):
            state, _, _, terminated, truncated = env.step(jax.random.key(0), state, (jnp.int32(choice), jnp.zeros(1)))
            ends, count = (bool(terminated), bool(truncated)), count + 1
        assert (count, *ends) == wanted


class Clocked(eqx.Module):
    """A state with a clock."""

    at: Any
    time: Any


@pytest.mark.parametrize(("text", "said"), [
    ("gym:CartPole-v1", "a compiled task of others is written jax:PACKAGE/ID, got 'gym:CartPole-v1'"),
    ("jax:gymnx/CartPole-v1", "comes from gymnax, navix, craftax, pobax, got 'gymnx'; did you mean gymnax?"),
    ("jax:gymnax/", "a task of gymnax needs an id, got none"),
    ("jax:gymnax/MemoryChain", "gymnax has no task MemoryChain; did you mean MemoryChain-bsuite?"),
    ("jax:gymnax/zzz", "gymnax has no task zzz; it has CartPole-v1, "),
    ("jax:gymnax/CartPole-v1:gravty=3", "got 'gravty'; did you mean gravity?"),
    ("jax:gymnax/CartPole-v1:previous=all", "previous must be none, action or action+reward, got 'all'"),
    ("jax:navix/Navix-DoorKey-5x5", "navix has no task Navix-DoorKey-5x5; did you mean Navix-DoorKey-5x5-v0?"),
    ("jax:navix/Navix-DoorKey-5x5-v0:observation_fn=symbolc", "got 'symbolc'; did you mean symbolic?"),
    ("jax:navix/Navix-DoorKey-5x5-v0:observation_fn=none", "must show something that is known here, got observation_fn 'none'"),
    ("jax:navix/Navix-DoorKey-5x5-v0:height=9", "got 'height'"),
    ("jax:pobax/tmaze_5", "give it to gtrxl.gym.jax_tasks.from_gymnax"),
])  # fmt: skip
def test_what_cannot_be_made_is_said_in_one_line(text, said):
    if text.startswith(("jax:gymnax", "jax:navix")):
        installed(text[4:].partition("/")[0])
    with pytest.raises(TaskError) as caught:
        _ = JaxTask.parse(text).observation_space
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("package", "module", "install"), [
    ("gymnax", "gymnax", r"pip install 'gtrxl\[jax-tasks\]'"),
    ("navix", "navix", r"pip install 'gtrxl\[jax-tasks\]'"),
    ("craftax", "craftax", "pip install craftax"),
])  # fmt: skip
def test_a_missing_package_is_named_with_the_install(package, module, install, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not there
    task = JaxTask(package, "Craftax-Symbolic-v1" if package == "craftax" else "Missing-v0")
    with pytest.raises(TaskError, match=f"jax:{package}/... needs the package {module}, got none installed; {install}$"):
        _ = task.observation_space
