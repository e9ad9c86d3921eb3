"""Located objects: one object fits the instruction, neither colour alone tells which, and what each costs."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import WORDS
from gtrxl.tasks.first_person.levels.language.located import LocatedObject
from gtrxl.tasks.first_person.parts.naming import HUES
from gtrxl.tasks.first_person.parts.suites import ROOMS
from gtrxl.tasks.first_person.scene import COLOURS, carpet
from gtrxl.tasks.words import buckets_of
from tests.tasks.first_person.playing import blind, built, moved, one_step, played, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
TASK = blind(LocatedObject)
_FLOOR = {int(carpet(COLOURS.index(name))): name for name in HUES}


def looks(world) -> list[tuple[str, str]]:
    """The colour of each object that is there, and of the floor under it: what one sees."""
    objects = world.scene.objects
    cells = np.floor(np.asarray(objects.place)[:, ::-1]).astype(int)
    return [
        (COLOURS[int(objects.colour[number])], _FLOOR[int(world.scene.floor[tuple(cell)])])
        for number, cell in enumerate(cells)
        if bool(objects.there[number])
    ]


@pytest.fixture(scope="module")
def worlds():
    worlds = jax.tree.map(np.asarray, built(TASK, jax.random.key(0)))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], worlds) for at in range(64)]


def said(colour: str, floor: str) -> list[int]:
    return buckets_of(f"Pick the {colour} object in the {floor} room", words=WORDS).tolist()


def test_one_object_fits_and_each_of_its_colours_is_elsewhere_too(worlds):
    for world in worlds:
        found = looks(world)
        assert len(found) == 2 * ROOMS[world.own.plan]
        fitting = [each for each in found if said(*each) == world.instruction.tolist()]
        assert len(fitting) == 1
        colour, floor = fitting[0]
        assert [each[0] for each in found if each[1] == floor and each != fitting[0]] != []
        assert sum(each[0] == colour for each in found) >= 2
        beside = next(each[0] for each in found if each[1] == floor and each[0] != colour)
        assert any(each[0] == beside and each[1] != floor for each in found)
        assert len({each[1] for each in found}) == ROOMS[world.own.plan], "a colour for each room"


def test_two_rooms_come_as_often_as_four_and_six_together(worlds):
    rooms = ROOMS[[int(world.own.plan) for world in worlds]]
    assert 20 <= (rooms == 2).sum() <= 44
    assert (rooms == 4).sum() >= 6
    assert (rooms == 6).sum() >= 6
    assert {each for world in worlds for pair in looks(world) for each in pair} == set(HUES)


@pytest.mark.slow
def test_the_named_one_pays_ten_others_cost_their_share_and_all_bring_a_new_task():
    for seed in range(8):
        state = start(TASK, jax.random.key(seed))
        found, meant = looks(state.world), state.world.instruction.tolist()
        for number, each in enumerate(found):
            after, reward = one_step(TASK, moved(state, state.world.scene.objects.place[number]), FIRE)
            assert float(reward) == (10 if said(*each) == meant else {4: -3, 8: -1, 12: -1}[len(found)])
            assert int(after.world.own.trial) == 1
            assert sum(said(*other) == after.world.instruction.tolist() for other in looks(after.world)) == 1
            assert not bool(jnp.array_equal(after.world.scene.objects.place, state.world.scene.objects.place))


@pytest.mark.slow
def test_without_a_touch_nothing_is_paid_and_nothing_changes():
    state = start(TASK, jax.random.key(3))
    after, reward = one_step(TASK, state, FIRE)
    assert float(reward) == 0
    for before, now in zip(jax.tree.leaves(state.world.scene), jax.tree.leaves(after.world.scene), strict=True):
        np.testing.assert_array_equal(before, now)


@pytest.mark.slow
def test_the_player_takes_what_is_named():
    rewards = played(TASK, 300).rewards
    assert (rewards > 0).sum() > 50 * (rewards < 0).sum()
    assert (rewards.sum(1) > 0).mean() > 0.95
