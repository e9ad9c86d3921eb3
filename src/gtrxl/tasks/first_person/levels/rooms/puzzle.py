"""Puzzles of rooms, keys and doors, drawn by a key: a chain of doors that leads to the goal, and much that leads nowhere.

Q rooms of a grid of 3 x 3, E walls between neighbouring ones, A ways through them, S places for things, C colours.

A puzzle grows room by room from where one starts. What is done to it is a table of operations that is drawn first; one compiled
step does any of them. If the chain finds no room the puzzle is thrown away and another is drawn.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

SIDE, A_ROOM = 3, 2
"""Rooms along a side of the grid, and places for things in each room."""
ROOMS = SIDE * SIDE
_NUMBER = np.arange(ROOMS).reshape(SIDE, SIDE)
ONE = np.concatenate([_NUMBER[:, :-1].ravel(), _NUMBER[:-1].ravel()])
OTHER = np.concatenate([_NUMBER[:, 1:].ravel(), _NUMBER[1:].ravel()])
"""The rooms on both sides of each wall: first those side by side, then those above each other."""
_FROM, _TO, _WALL = np.concatenate([ONE, OTHER]), np.concatenate([OTHER, ONE]), np.tile(np.arange(len(ONE)), 2)
_APART = np.abs(_NUMBER.ravel()[:, None] // SIDE - _NUMBER.ravel() // SIDE) + np.abs(
    _NUMBER.ravel()[:, None] % SIDE - _NUMBER.ravel() % SIDE
)

LINKS = 3
"""Doors of the longest chain."""
COLOURS = 5
"""Of keys and doors, numbered from 0."""
SOLID, OPEN, LOCKED = 0, 1, 2
"""What a wall is; from LOCKED on, a door of colour 0, 1 and so on."""
EMPTY, GOAL, KEY = 0, 1, 2
"""What is in a place; from KEY on, a key of colour 0, 1 and so on."""
NOWHERE = -1
_EMPTY_ROOM = np.array([0.8, 0.5, 0.0], np.float32)
"""How likely a room with nothing in it is before a link, by the length of the chain."""
TRIES = 200


class Puzzle(eqx.Module):
    """Rooms, doors and things."""

    start: Int[Array, "*s"]
    used: Bool[Array, "*s Q"]
    wall: Int[Array, "*s E"]
    """SOLID, OPEN or a door."""
    things: Int[Array, "*s S"]
    """EMPTY, GOAL or a key; two places for each room."""
    links: Int[Array, "*s"]
    """Length of the chain."""
    doors: Int[Array, "*s 3"]
    """The walls with its doors, in their order; NOWHERE past its end."""
    keys: Int[Array, "*s 3"]
    """The places of their keys."""
    rank: Int[Array, "*s Q"]
    """How many doors of the chain must be opened to come into a room; NOWHERE in rooms beside the way."""
    newest: Int[Array, "*s"]
    """The last room of the chain."""
    fits: Bool[Array, "*s"]


class Operation(eqx.Module):
    """One room more, by a wall or a door, and perhaps a thing."""

    active: Bool[Array, "*s"]
    wall: Int[Array, "*s"]
    """What leads into it: OPEN, or a door."""
    highest: Int[Array, "*s"]
    """It is next to a room of the chain with this rank at most; NOWHERE: next to the newest."""
    thing: Int[Array, "*s"]
    """What is put somewhere; EMPTY for nothing."""
    inside: Bool[Array, "*s"]
    """Whether that is the new room; otherwise it is in a room of the chain before."""
    in_newest: Bool[Array, "*s"]
    """Or in the newest of these."""
    link: Int[Array, "*s"]
    """The link that this is; NOWHERE for what is not one."""
    chain: Bool[Array, "*s"]
    """Whether the new room belongs to the chain: then it is the newest, and must find a place."""


def puzzle(key: PRNGKeyArray) -> Puzzle:
    """One in which everything has found its place."""

    def again(carry: tuple[Int[Array, ""], Puzzle]) -> tuple[Int[Array, ""], Puzzle]:
        tries, _ = carry
        return tries + 1, _attempt(jax.random.fold_in(key, tries))

    def unfit(carry: tuple[Int[Array, ""], Puzzle]) -> Bool[Array, ""]:
        return ~carry[1].fits & (carry[0] < TRIES)

    begun = dataclasses.replace(_blank(jnp.int32(0), jnp.int32(1)), fits=jnp.zeros((), bool))
    return jax.lax.while_loop(unfit, again, (jnp.int32(0), begun))[1]


def _blank(start: Int[Array, ""], links: Int[Array, ""]) -> Puzzle:
    used = jnp.arange(ROOMS) == start
    return Puzzle(
        start=start,
        used=used,
        wall=jnp.full(len(ONE), SOLID, jnp.int32),
        things=jnp.full(ROOMS * A_ROOM, EMPTY, jnp.int32),
        links=links,
        doors=jnp.full(LINKS, NOWHERE, jnp.int32),
        keys=jnp.full(LINKS, NOWHERE, jnp.int32),
        rank=jnp.where(used, 0, NOWHERE).astype(jnp.int32),
        newest=start,
        fits=jnp.ones((), bool),
    )


def _attempt(key: PRNGKeyArray) -> Puzzle:
    start_key, links_key, plan_key, grow_key, doors_key, spare_key = jax.random.split(key, 6)
    links = jax.random.randint(links_key, (), 1, LINKS + 1)
    begun = _blank(jax.random.randint(start_key, (), 0, ROOMS), links)
    colours, operations = _operations(plan_key, links)
    chances = jax.random.uniform(grow_key, (operations.active.shape[0], len(_FROM) + ROOMS * A_ROOM))
    grown, _ = jax.lax.scan(lambda draft, op: (_grow(draft, *op), None), begun, (operations, chances))
    # The goal in the last room, then a key without a door where there is a place left. The last of the colours is on no door.
    chance = jax.random.uniform(spare_key, (ROOMS * A_ROOM + 1,))
    goal = _free_place(grown, jnp.arange(ROOMS) == grown.newest, chance[1:])
    things = grown.things.at[goal].set(GOAL)
    with_goal = dataclasses.replace(grown, things=things)
    spare = _free_place(with_goal, grown.rank >= 0, chance[1:])
    useless = (chance[0] < 0.5) & (things[spare] == EMPTY)
    things = things.at[spare].set(jnp.where(useless, KEY + colours[COLOURS - 1], things[spare]))
    return dataclasses.replace(grown, things=things, wall=_more_doors(doors_key, grown, colours))


def _operations(key: PRNGKeyArray, links: Int[Array, ""]) -> tuple[Int[Array, " C"], Operation]:
    """The colours in the order of the links, those that no link has after them; and what is done, as one table."""
    colour_key, chance_key = jax.random.split(key)
    colours = jax.random.permutation(colour_key, COLOURS)
    chance = jax.random.uniform(chance_key, (16,))

    def below(number: int, most: Int[Array, ""]) -> Int[Array, ""]:
        return (chance[number] * most).astype(jnp.int32)

    def operation(
        *,
        active: Array | bool,
        wall: Array | int,
        highest: Array | int = NOWHERE,
        thing: Array | int = EMPTY,
        inside: bool = False,
        in_newest: Array | bool = False,
        link: int = NOWHERE,
        chain: bool = False,
    ) -> Operation:
        kinds = (bool, jnp.int32, jnp.int32, jnp.int32, bool, bool, jnp.int32, bool)
        values = (active, wall, highest, thing, inside, in_newest, link, chain)
        return Operation(*(jnp.asarray(value, kind) for value, kind in zip(values, kinds, strict=True)))

    def empty_room(*, active: Array) -> Operation:
        return operation(active=active, wall=OPEN, chain=True)

    def link(number: int) -> Operation:
        """The key in the newest room and the door anywhere, or the door on the newest room and the key anywhere before it."""
        key_here = chance[number] < 0.5
        return operation(active=number < links, wall=LOCKED + colours[number], highest=jnp.where(key_here, LINKS, NOWHERE),
                         thing=KEY + colours[number], in_newest=key_here, link=number, chain=True)  # fmt: skip

    def trap(*, active: Array, door: Array) -> Operation:
        """Behind a door like the chain's, from where that can be reached, the key of the next link: the wrong use of a key."""
        return operation(active=active & (links > 1), wall=LOCKED + colours[door], highest=door,
                         thing=KEY + colours[(door + 1) % COLOURS], inside=True)  # fmt: skip

    likely = jnp.asarray(_EMPTY_ROOM)[links - 1]
    early, empty_first = chance[3] < 0.5, chance[4] < likely
    unused = links + below(5, COLOURS - 1 - links)
    table = [
        empty_room(active=empty_first),
        link(0),
        trap(active=early, door=jnp.int32(0)),
        empty_room(active=~empty_first & (links == 2) & (chance[6] < likely)),
        link(1),
        link(2),
        trap(active=~early, door=below(7, links - 1)),
        # A red herring has nothing in it; one more room has a door that no key opens.
        operation(active=True, wall=LOCKED + colours[below(8, links)], highest=LINKS),
        operation(active=chance[9] < 0.5, wall=LOCKED + colours[unused], highest=LINKS),
    ]
    return colours, jax.tree.map(lambda *rows: jnp.stack(rows), *table)


def _grow(draft: Puzzle, operation: Operation, chance: Float[Array, " AS"]) -> Puzzle:
    """Does an operation: the new room is as near to the start as can be. What finds no place is left out; a chain must not."""
    ways, places = chance[: len(_FROM)], chance[len(_FROM) :]
    of_chain = draft.rank >= 0
    here = jnp.arange(ROOMS)
    parents = jnp.where(operation.highest == NOWHERE, here == draft.newest, of_chain & (draft.rank <= operation.highest))
    possible = draft.used[_FROM] & parents[_FROM] & ~draft.used[_TO]
    way = jnp.argmax(jnp.where(possible, ways - jnp.asarray(_APART)[draft.start][_TO], -99.0))
    room, wall = jnp.asarray(_TO)[way], jnp.asarray(_WALL)[way]
    rooms = jnp.where(operation.inside, here == room, of_chain & (~operation.in_newest | (here == draft.newest)))
    place = _free_place(draft, rooms, places)
    has_thing = operation.thing != EMPTY
    done = possible[way] & (~has_thing | (draft.things[place] == EMPTY)) & operation.active
    is_link = done & (operation.link != NOWHERE)
    joins = done & operation.chain
    at_link = is_link & (jnp.arange(LINKS) == operation.link)
    highest = jnp.max(draft.rank)
    return Puzzle(
        start=draft.start,
        used=draft.used | done & (here == room),
        wall=draft.wall.at[wall].set(jnp.where(done, operation.wall, draft.wall[wall])),
        things=draft.things.at[place].set(jnp.where(done & has_thing, operation.thing, draft.things[place])),
        links=draft.links,
        doors=jnp.where(at_link, wall, draft.doors),
        keys=jnp.where(at_link, place, draft.keys),
        rank=jnp.where(joins & (here == room), highest + is_link, draft.rank),
        newest=jnp.where(joins, room, draft.newest),
        fits=draft.fits & (done | ~operation.active | ~operation.chain),
    )


def _free_place(draft: Puzzle, rooms: Bool[Array, " Q"], chance: Float[Array, " S"]) -> Int[Array, ""]:
    """One of the empty places in these rooms; any place, which is not empty or not in them, if there is none."""
    free = (draft.things == EMPTY) & jnp.repeat(rooms, A_ROOM)
    taken = jnp.argmax(draft.things != EMPTY)
    return jnp.where(jnp.any(free), jnp.argmax(jnp.where(free, chance, -1.0)), taken)


def _more_doors(key: PRNGKeyArray, draft: Puzzle, colours: Int[Array, " C"]) -> Int[Array, " E"]:
    """Up to two doors of colours without a key and one of the chain's, between rooms that have a wall between them."""
    count_key, order_key, colour_key = jax.random.split(key, 3)
    locked, like_chain = jax.random.randint(count_key, (2,), 0, jnp.array([3, 2]))
    between = draft.used[ONE] & draft.used[OTHER] & (draft.wall == SOLID)
    order = jnp.argsort(jnp.argsort(jnp.where(between, jax.random.uniform(order_key, between.shape), 2.0)))
    chance = jax.random.uniform(colour_key, between.shape)
    unused = draft.links + (chance * (COLOURS - 1 - draft.links)).astype(jnp.int32)
    of_chain = (chance * draft.links).astype(jnp.int32)
    colour = colours[jnp.where(order < locked, unused, of_chain)]
    return jnp.where(between & (order < locked + like_chain), LOCKED + colour, draft.wall)
