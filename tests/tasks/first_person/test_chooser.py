"""The player that chooses: it goes to what it knows to be good, keeps away from the rest, and a new map is a blank one."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.levels.language.located import LocatedObject
from gtrxl.tasks.first_person.levels.language.random_task import RandomTask
from gtrxl.tasks.first_person.scene import cell_of
from gtrxl.tasks.players.chooser import Chooser
from gtrxl.tasks.players.navigator import Sketch, in_sight
from gtrxl.tasks.players.scripted import perfect_memory
from tests.tasks.first_person.walks import blind

pytestmark = pytest.mark.slow  # compiling players takes long

TASKS = [blind(LocatedObject), blind(RandomTask)]
STEPS = 150


def notes_of(task) -> Sketch:
    """What the player knew before each step of 32 episodes."""
    player = perfect_memory(task)

    def walk(key):
        def step(notes, _):
            return player.act(notes, None, key)[0], notes

        return jax.lax.scan(step, player.begin(task.reset(key)[0]), length=STEPS)[1]

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 32)))


@pytest.mark.parametrize("task", TASKS, ids=lambda task: type(task).__name__)
def test_after_a_restart_only_what_is_in_view_is_known(task):
    notes = notes_of(task)
    trial = notes.state.world.own.trial
    anew = np.argwhere(trial[:, 1:] != trial[:, :-1])
    assert len(anew) > 32
    for episode, time in anew[:40]:
        now = jax.tree.map(lambda leaf, at=(episode, time + 1): jnp.asarray(leaf[at]), notes)
        view = np.asarray(in_sight(now.state.world.scene.wall, now.state.world.body))
        inside = np.asarray(now.seen)[1:-1, 1:-1]
        np.testing.assert_array_equal(inside, view[1:-1, 1:-1])
        row, column = np.asarray(cell_of(now.state.world.scene.objects.place)).T
        assert view[row, column][np.asarray(now.found)].all()


def test_what_is_not_worth_it_is_kept_away_from_and_what_was_not_seen_is_neither():
    task = LocatedObject()
    state = task.reset(jax.random.key(3))[0]
    player = task.player()
    assert isinstance(player, Chooser)
    notes = player.begin(state)
    there = state.world.scene.objects.there
    row, column = np.asarray(cell_of(state.world.scene.objects.place)).T
    for seen in (jnp.zeros_like(there), there, there & (jnp.arange(len(there)) % 2 == 0)):
        known = dataclasses.replace(notes, found=seen, place=state.world.scene.objects.place)
        good, avoided = (np.asarray(each) for each in player.sorted_out(known))
        assert (good <= np.asarray(seen)).all()
        assert good.sum() <= 1
        expected = {(r, c) for r, c, s, g in zip(row, column, np.asarray(seen), good, strict=True) if s and not g}
        assert {tuple(cell) for cell in np.argwhere(avoided).tolist()} == expected
    assert good.sum() == bool(seen[0])


def test_near_is_known_only_when_both_were_seen():
    task = RandomTask()
    states = (task.reset(jax.random.key(seed))[0] for seed in range(40))
    state = next(state for state in states if "near" in task.instruction(jax.tree.map(np.asarray, state)))
    player = task.player()
    notes = player.begin(state)
    place, there = state.world.scene.objects.place, state.world.scene.objects.there
    for seen, knows in (([0], False), ([1], False), ([0, 1], True)):
        found = there & jnp.isin(jnp.arange(len(there)), jnp.asarray(seen))
        good, _ = player.sorted_out(dataclasses.replace(notes, found=found, place=place))
        assert bool(good[0]) == knows
