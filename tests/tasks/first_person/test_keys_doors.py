"""Keys and doors: every puzzle can be solved and most can be spoilt; what keys and doors do; what is seen of it."""

import collections
import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.rooms import keys_doors, puzzle
from gtrxl.tasks.first_person.levels.rooms.keys_doors import KEY_COLOURS, KeysDoorsPuzzle
from gtrxl.tasks.first_person.levels.rooms.puzzle import GOAL, KEY, LOCKED, ONE, OPEN, OTHER, SOLID
from gtrxl.tasks.first_person.looks.materials import PAINT
from gtrxl.tasks.first_person.parts.locks import NOTHING, Locks
from gtrxl.tasks.first_person.rooms import facing
from gtrxl.tasks.first_person.scene import COLOURS, FREE, GLASS, SHAPES, centre
from tests.tasks.first_person.playing import blind, moved, one_step, played, start

FIRE = jnp.int32(list(LAB_ACTIONS).index("fire"))
TASK = blind(KeysDoorsPuzzle)
MANY = 256


@functools.cache
def puzzles():
    made = jax.tree.map(np.asarray, jax.jit(jax.vmap(puzzle.puzzle))(jax.random.split(jax.random.key(0), MANY)))
    return [jax.tree.map(lambda leaf, at=at: leaf[at], made) for at in range(MANY)]


class Position(collections.namedtuple("Position", "room carried opened taken")):
    """Of one who plays it: the room, the colour of the key or None, doors that are open, keys that are taken."""


def moves(of, at: Position):
    """All that can be done next: walk to a room, take a key, open a door."""
    for place in (2 * at.room, 2 * at.room + 1):
        if of.things[place] >= KEY and place not in at.taken:
            yield at._replace(carried=int(of.things[place]) - KEY, taken=at.taken | {place})
    for number, (one, other) in enumerate(zip(ONE, OTHER, strict=True)):
        if at.room not in (one, other):
            continue
        beyond = int(other if at.room == one else one)
        if of.wall[number] == OPEN or number in at.opened:
            yield at._replace(room=beyond)
        elif of.wall[number] >= LOCKED and of.wall[number] - LOCKED == at.carried:
            yield at._replace(carried=None, opened=at.opened | {number})


def explored(of) -> tuple[dict[Position, list[Position]], set[Position]]:
    """Every position that can come up, with what can follow it; and those in the room of the goal."""
    goal = int(np.flatnonzero(of.things == GOAL)[0]) // 2
    first = Position(int(of.start), None, frozenset(), frozenset())
    follow, left = {}, [first]
    while left:
        at = left.pop()
        if at not in follow:
            follow[at] = [] if at.room == goal else list(moves(of, at))
            left += follow[at]
    return follow, {at for at in follow if at.room == goal}


def test_every_puzzle_can_be_solved_and_none_without_a_door():
    for of in puzzles():
        _, won = explored(of)
        assert won
        assert min(len(at.opened) for at in won) >= 1


def test_most_puzzles_with_a_trap_can_be_spoilt():
    """There are positions from which the goal cannot be reached any more: keys can be wasted."""
    spoilt = []
    for of in puzzles()[:96]:
        follow, won = explored(of)
        before = collections.defaultdict(set)
        for at, after in follow.items():
            for each in after:
                before[each].add(at)
        good, left = set(won), list(won)
        while left:
            for each in before[left.pop()] - good:
                good.add(each)
                left.append(each)
        spoilt.append(len(good) < len(follow))
    assert np.mean(spoilt) > 0.8


def test_the_chain_leads_to_the_goal_each_key_before_its_door():
    for of in puzzles():
        links = int(of.links)
        opened: set[int] = set()
        for link in range(links):
            door, place = int(of.doors[link]), int(of.keys[link])
            assert of.things[place] - KEY == of.wall[door] - LOCKED
            reach = reached(of, opened)
            assert place // 2 in reach, "its key can be had"
            assert {int(ONE[door]), int(OTHER[door])} & reach, "and its door be walked to"
            opened.add(door)
        assert int(np.flatnonzero(of.things == GOAL)[0]) // 2 in reached(of, opened)
        colours = [int(of.wall[door]) for door in of.doors[:links]]
        assert len(set(colours)) == links, "a colour for each"


def reached(of, opened: set[int]) -> set[int]:
    """Rooms that one can walk to."""
    found = {int(of.start)}
    for _ in range(9):
        for number, (one, other) in enumerate(zip(ONE.tolist(), OTHER.tolist(), strict=True)):
            if (of.wall[number] == OPEN or number in opened) and {one, other} & found:
                found |= {one, other}
    return found


def test_rooms_doors_and_keys_are_as_many_as_they_should_be():
    links = np.array([int(of.links) for of in puzzles()])
    assert all(abs((links == length).mean() - 1 / 3) < 0.15 for length in (1, 2, 3))
    for of in puzzles():
        chain = {int(of.wall[door]) - LOCKED for door in of.doors[: of.links]}
        keys = collections.Counter(int(thing) - KEY for thing in of.things if thing >= KEY)
        doors = collections.Counter(int(wall) - LOCKED for wall in of.wall if wall >= LOCKED)
        assert (of.things == GOAL).sum() == 1
        assert sum(keys.values()) <= of.links + 2, "one in a trap, one without a door"
        assert all(of.used[[int(ONE[n]), int(OTHER[n])]].all() for n in np.flatnonzero(of.wall != SOLID))
        useless = set(keys) - chain
        assert len(useless) <= 1
        assert not useless & set(doors), "a key that is not of the chain has no door"
        assert sum(count for colour, count in doors.items() if colour not in chain) <= 3
    empty = {length: np.mean([(of.wall == OPEN).any() for of in puzzles() if of.links == length]) for length in (1, 2, 3)}
    assert empty[1] == pytest.approx(0.8, abs=0.15)
    assert empty[2] == pytest.approx(0.75, abs=0.15), "before the first link or, if not, before the second"
    assert empty[3] == 0
    assert len({of.wall.tobytes() + of.things.tobytes() for of in puzzles()}) > 0.95 * MANY


def a_state(links: int):
    """The start of an episode with a chain of this length."""
    states = (start(TASK, jax.random.key(seed)) for seed in range(40))
    return next(state for state in states if int(state.world.own.puzzle.links) == links)


def at_door(state, door: int):
    """The body where it touches a door, in a room that is there."""
    cell = state.world.own.locks.cell[door]
    beside = door < 6
    offset = jnp.array([-0.7, 0.0]) if beside else jnp.array([0.0, -0.7])
    return moved(state, centre(cell) + offset)


@pytest.mark.slow
def test_a_key_pays_is_carried_and_opens_a_door_of_its_colour_for_good():
    state = a_state(1)
    own = state.world.own
    door, place = int(own.puzzle.doors[0]), int(own.puzzle.keys[0])
    cell = tuple(own.locks.cell[door].tolist())
    assert int(own.carried) == NOTHING
    shut, reward = one_step(TASK, at_door(state, door), FIRE)
    assert (float(reward), int(shut.world.scene.wall[cell])) == (0, GLASS), "without the key nothing happens"
    state, reward = one_step(TASK, moved(state, state.world.scene.objects.place[place]), FIRE)
    assert float(reward) == 1
    assert int(state.world.own.carried) == int(own.locks.colour[door])
    assert not bool(state.world.scene.objects.there[place])
    state, reward = one_step(TASK, at_door(state, door), FIRE)
    assert float(reward) == 1
    assert int(state.world.own.carried) == NOTHING
    assert int(state.world.scene.wall[cell]) == FREE
    assert not bool(state.world.scene.objects.there[keys_doors.PLACES + door])
    again, reward = one_step(TASK, at_door(state, door), FIRE)
    assert (float(reward), int(again.world.scene.wall[cell])) == (0, FREE)


@pytest.mark.slow
def test_another_key_takes_the_place_of_the_first_and_does_not_open_its_door():
    state = a_state(3)
    own = state.world.own
    for link in (0, 1):
        state, _ = one_step(TASK, moved(state, state.world.scene.objects.place[int(own.puzzle.keys[link])]), FIRE)
        assert int(state.world.own.carried) == int(own.locks.colour[own.puzzle.doors[link]])
    door = int(own.puzzle.doors[0])
    state, reward = one_step(TASK, at_door(state, door), FIRE)
    assert float(reward) == 0
    assert bool(state.world.own.locks.shut[door])


@pytest.mark.slow
def test_the_goal_pays_fifty_and_ends():
    state = a_state(2)
    place = int(jnp.argmax(state.world.own.puzzle.things == GOAL))
    assert SHAPES[int(state.world.scene.objects.shape[place])] == "ice_lolly"
    _, reward, terminated, truncated = jax.jit(TASK.advance)(moved(state, state.world.scene.objects.place[place]), FIRE)
    assert (float(reward), bool(terminated), bool(truncated)) == (50, True, False)


@pytest.mark.slow
def test_the_carried_key_is_shown_in_the_corner():
    state = a_state(1)
    empty = jnp.full((72, 96, 3), 90, jnp.uint8)
    np.testing.assert_array_equal(TASK.overlay(state.world, empty), empty)
    for number in KEY_COLOURS.tolist():
        carrying = eqx.tree_at(lambda of: of.own.carried, state.world, jnp.int32(number))
        assert TASK.overlay(carrying, empty)[5, 5].tolist() == list(PAINT[COLOURS[number]])


def test_one_key_opens_one_door_and_only_where_one_stands():
    locks = Locks(cell=jnp.array([[1, 3], [3, 3], [3, 3]]), colour=jnp.array([0, 0, 0]), shut=jnp.array([True, True, True]))
    for place, expected in (((2.8, 1.5), 0), ((3.5, 2.78), 1), ((2.7, 1.5), None), ((3.5, 2.5), None)):
        opened = np.flatnonzero(locks.opened_by(facing(jnp.array(place)), jnp.int32(0))).tolist()
        assert opened == ([] if expected is None else [expected]), place
    assert not locks.opened_by(facing(jnp.array([2.8, 1.5])), jnp.int32(1)).any()
    wall = locks.shut_in(jnp.zeros((5, 5), jnp.int32))
    assert np.argwhere(wall == GLASS).tolist() == [[1, 3], [3, 3]]
    left = locks.without(jnp.array([True, False, False]))
    assert left.shut.tolist() == [False, True, True]
    assert np.argwhere(locks.open_in(wall, jnp.array([True, False, False])) == GLASS).tolist() == [[3, 3]]
    assert left.fences().there.tolist() == left.shut.tolist()


@pytest.mark.slow
def test_the_player_solves_every_puzzle():
    rewards = played(TASK, TASK.episode_steps).rewards
    assert (rewards >= 50).any(1).all()
