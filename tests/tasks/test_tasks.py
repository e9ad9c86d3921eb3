"""What every task promises, on every task; and the catalogue: names, arguments, errors, the way there and back."""

import dataclasses
import subprocess
import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.tasks import TASKS, GridNumpad, Numpad, Recall, TaskError, TMaze, make_task, spell
from gtrxl.tasks.contract import Task
from tests.tasks.stepping import begin, random_actions, run

SHORT = (GridNumpad(episode_steps=20), Numpad(size=3, episode_steps=20), TMaze(corridor=8, patience=2), Recall(items=3, delay=4))
each_task = pytest.mark.parametrize("task", SHORT, ids=lambda task: type(task).__name__)
STEPS = 12


@each_task
def test_observations_fit_their_space(task):
    space = task.observation_space
    assert space.dtype == np.float32
    state, first = begin(task, jax.random.key(0))
    seen = np.asarray(run(task, state, random_actions(task, jax.random.key(1), STEPS))[1].observation)
    for observation in (np.asarray(first), *seen):
        assert space.contains(observation)
    assert isinstance(task.action_space, gymnasium.spaces.Discrete | gymnasium.spaces.Box)


@each_task
def test_the_same_key_and_actions_give_the_same_episode_and_another_key_another(task):
    actions = random_actions(task, jax.random.key(1), STEPS)
    states = [begin(task, jax.random.key(seed))[0] for seed in (5, 5)]
    for one, other in zip(*(jax.tree.leaves(run(task, state, actions)) for state in states), strict=True):
        np.testing.assert_array_equal(one, other)
    starts = [jax.tree.leaves(begin(task, jax.random.key(seed))[0]) for seed in range(8)]
    assert any(
        (np.asarray(one) != np.asarray(other)).any() for rest in starts[1:] for one, other in zip(starts[0], rest, strict=True)
    )


@each_task
def test_batches_equal_single_streams(task):
    keys = jax.random.split(jax.random.key(2), 3)
    actions = jnp.stack([random_actions(task, key, STEPS) for key in keys])

    def play(key: jax.Array, actions: jax.Array):
        state, first = task.reset(key)
        return first, run(task, state, actions)

    together = jax.jit(jax.vmap(play))(keys, actions)
    for i, key in enumerate(keys):
        state, first = begin(task, key)
        alone = (first, run(task, state, actions[i]))
        for a, b in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(np.asarray(a[i], float), np.asarray(b, float), atol=1e-5)


@each_task
def test_no_episode_is_longer_than_it_says(task):
    state, _ = begin(task, jax.random.key(0))
    steps = run(
        task, state, jnp.zeros((task.episode_steps, *task.action_space.shape), random_actions(task, jax.random.key(0), 1).dtype)
    )[1]
    ended = np.asarray(steps.terminated | steps.truncated)
    assert not ended[:-1].any()
    assert ended[-1]
    assert not np.asarray(steps.terminated & steps.truncated).any()


@each_task
def test_a_task_can_be_a_constant_of_a_program(task):
    assert hash(task) == hash(dataclasses.replace(task))
    assert task == dataclasses.replace(task)
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.episode_steps = 3


@pytest.mark.parametrize("name", TASKS)
def test_every_name_makes_a_task_that_is_spelled_by_that_name(name):
    task = make_task(name)
    assert isinstance(task, Task)
    assert spell(task) == name
    assert TASKS[name].about


def test_the_catalogue_has_the_usual_sizes():
    assert make_task("grid-numpad") == make_task("grid-numpad-2x2") == GridNumpad(size=2, episode_steps=50)
    assert make_task("grid-numpad-3x3") == GridNumpad(size=3, episode_steps=100)
    assert make_task("grid-numpad-4x4") == GridNumpad(size=4, episode_steps=200)
    assert make_task("numpad") == make_task("numpad-2x2") == Numpad(size=2, episode_steps=500)
    assert make_task("numpad-4x4").episode_steps == 500


def test_arguments_in_the_text_and_by_keyword():
    assert make_task("grid-numpad:size=3,episode_steps=100") == make_task("grid-numpad-3x3")
    assert make_task(" t-maze: corridor = 7 ") == make_task("t-maze", corridor=7) == TMaze(corridor=7)
    assert make_task("recall:items=6,ask=3", ask=2) == Recall(items=6, ask=2)


pads = st.integers(2, 4).flatmap(
    lambda size: st.fixed_dictionaries(
        {"size": st.just(size), "sequence": st.none() | st.integers(1, size * size), "episode_steps": st.integers(1, 600)}
    )
)
any_task = st.one_of(
    st.builds(lambda arguments: GridNumpad(**arguments), pads),
    st.builds(lambda arguments: Numpad(**arguments), pads),
    st.builds(TMaze, corridor=st.integers(1, 500), patience=st.integers(1, 20)),
    st.integers(1, 9).flatmap(
        lambda items: st.builds(
            Recall, items=st.just(items), ask=st.integers(1, items), kinds=st.integers(2, 9), delay=st.integers(0, 99)
        )
    ),
)


@given(any_task)
def test_the_spelling_of_a_task_makes_an_equal_one(task):
    assert make_task(spell(task)) == task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tmaze", "there is no task 'tmaze'; did you mean t-maze\\? `gtrxl tasks` lists all"),
        ("", "there is no task ''; `gtrxl tasks` lists all"),
        ("t-maze:length=5", "t-maze takes corridor, patience, got 'length'; for example 't-maze:corridor=40'"),
        ("t-maze:coridor=5", "got 'coridor'; did you mean corridor\\? for example"),
        ("lab-memory", "one task is meant, got the set lab-memory; its tasks are rooms_select"),
        ("grid-numpad:episode_steps=many", "episode_steps must be a whole number, got 'many'"),
        ("grid-numpad:size=2.5", "size must be a whole number, got '2.5'"),
        ("t-maze:", "after the colon a task takes name=number, got 't-maze:'"),
        ("t-maze:corridor", "a task takes name=number with commas between, got 'corridor'"),
        ("recall:items=4,", "a task takes name=number with commas between, got ''"),
        ("grid-numpad:size=7", "size must be from 2 to 4, got 7"),
    ],
)
def test_errors_are_one_line_with_rule_value_and_remedy(text, message):
    with pytest.raises(TaskError, match=message) as caught:
        make_task(text)
    assert "\n" not in str(caught.value)
    assert "; " in str(caught.value)


def test_unknown_keywords_are_named():
    with pytest.raises(TaskError, match="recall takes ask, delay, items, kinds, got 'cards'"):
        make_task("recall", cards=3)


@pytest.mark.parametrize("module", ["gtrxl", "gtrxl.tasks", "gtrxl.tasks.catalogue", "gtrxl.gym.registration"])
def test_importing_the_names_needs_no_jax(module):
    line = f"import sys, {module}, gymnasium; assert 'jax' not in sys.modules; gymnasium.spec('gtrxl/Numpad-v0')"
    subprocess.run([sys.executable, "-c", line], check=True)
