"""A player with a perfect memory for every level with a map: it draws the map from what comes into view and forgets none of it.

R rows and C columns of cells, N things that are wanted, K lines of sight, P cells ahead on a way.

It is told the rules, and where it stands and which way it looks, as one who never gets lost would know. Of the rest it knows what
has been in view: cells, and things in them. If it knows of a thing that it wants, it takes the shortest way there; else it goes
to the nearest place from which there is something new to see.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.level import Level, LevelState, World
from gtrxl.tasks.first_person.mazes import UNREACHED, distances
from gtrxl.tasks.first_person.scene import FREE, RADIUS, Body, cell_of, centre
from gtrxl.tasks.players.player import Player
from gtrxl.tasks.players.steering import HALF_VIEW, bearing, steer

LINES = 41
"""Lines of sight, evenly over the view: at 16 cells they are half a cell apart."""
STRAIGHT, DIAGONAL = 5, 7
"""What a step on the map costs."""
UNSEEN = 10
"""What it costs besides to leave a cell that is not known: a way that is known is worth a detour."""
AHEAD = 10
"""Cells of a way that are looked at for the farthest that can be walked to straight."""
SAMPLES = 4
"""Points in each cell's length of a straight walk that must be clear."""

LEFT, RIGHT = (list(LAB_ACTIONS).index(f"large look {side}") for side in ("left", "right"))

Wanted = Callable[[World], tuple[Float[Array, "N 2"], Bool[Array, " N"]]]
"""The places of what is worth going to, and whether each is there."""


def all_objects(world: World) -> tuple[Float[Array, "N 2"], Bool[Array, " N"]]:
    """Everything in the scene is wanted."""
    return world.scene.objects.place, world.scene.objects.there


def first_object(world: World) -> tuple[Float[Array, "1 2"], Bool[Array, "1"]]:
    """The first object of the scene is wanted."""
    return world.scene.objects.place[:1], world.scene.objects.there[:1]


def no_changes(world: World) -> tuple[Int[Array, ""], Bool[Array, "R C"]]:
    """The cells never change."""
    return jnp.int32(0), jnp.zeros(world.scene.wall.shape, bool)


class Sketch(eqx.Module):
    """What a navigator knows."""

    state: LevelState
    """The task as it is. Only where it stands, and what is in view, is taken from here."""
    seen: Bool[Array, "R C"]
    """Cells whose content is known."""
    solid: Bool[Array, "R C"]
    """What those held when they were seen last."""
    found: Bool[Array, " N"]
    """Things that have been in view."""
    place: Float[Array, "N 2"]
    """Where that was."""
    epoch: Int[Array, ""]


@dataclasses.dataclass(frozen=True)
class Navigator(Player):
    """Walks by a map of what it has seen.

    A thing stays known once it has been in view, also when it is taken and put back; one that turns up elsewhere must be found
    again. `changes(world)` counts the restarts and gives the cells that may hold something else after each: these are forgotten.
    """

    task: Level
    wanted: Wanted = all_objects
    changes: Callable[[World], tuple[Int[Array, ""], Bool[Array, "R C"]]] = no_changes

    looks: ClassVar[bool] = False

    def begin(self, state: LevelState) -> Sketch:
        """The first look."""
        place, there = self.wanted(state.world)
        cells = state.world.scene.wall.shape
        # That the outermost cells are walls is a rule of this world, and need not be seen.
        edge = jnp.ones(cells, bool).at[1:-1, 1:-1].set(False)
        blank = Sketch(
            state=state,
            seen=edge,
            solid=edge,
            found=jnp.zeros_like(there),
            place=jnp.zeros_like(place),
            epoch=self.changes(state.world)[0],
        )
        return self._look(blank)

    def act(self, notes: Sketch, observation: Any, key: PRNGKeyArray) -> tuple[Sketch, PyTree]:
        """A step towards what it wants, or to where there is something new to see."""
        body = notes.state.world.body
        place = self._next_place(notes)
        row, column = cell_of(place)
        action = self.steer(body, place, look_first=~notes.seen[row, column])
        state, *_ = self.task.advance(notes.state, action)
        return self._look(eqx.tree_at(lambda of: of.state, notes, state)), action

    def _look(self, notes: Sketch) -> Sketch:
        """Adds what is in view to what is known."""
        world = notes.state.world
        epoch, volatile = self.changes(world)
        seen = notes.seen & ~(volatile & (epoch != notes.epoch))
        view = in_sight(world.scene.wall, world.body)
        place, there = self.wanted(world)
        cell = cell_of(place)
        visible = there & view[cell[:, 0], cell[:, 1]]
        # What stood in cells that are forgotten is forgotten with them.
        was = cell_of(notes.place)
        kept = notes.found & ~(volatile & (epoch != notes.epoch))[was[:, 0], was[:, 1]]
        return Sketch(
            state=notes.state,
            seen=seen | view,
            solid=jnp.where(view, world.scene.wall != FREE, notes.solid),
            found=visible | (kept & jnp.all(place == notes.place, axis=1)),
            place=jnp.where(visible[:, None], place, notes.place),
            epoch=epoch,
        )

    def sorted_out(self, notes: Sketch) -> tuple[Bool[Array, " N"], Bool[Array, "R C"]]:
        """Which of the things that have been in view to go to, and which cells to keep out of. Here all, and none."""
        _, there = self.wanted(notes.state.world)
        return notes.found & there, jnp.zeros_like(notes.seen)

    def _next_place(self, notes: Sketch) -> Float[Array, "2"]:
        """Where to walk straight to now."""
        world = notes.state.world
        known, avoided = self.sorted_out(notes)
        any_known = jnp.any(known)
        free = notes.seen & ~notes.solid & ~avoided
        row, column = cell_of(notes.place).T
        goals = jnp.zeros_like(free).at[row, column].max(known)
        # Cells that nobody has seen may be free. To explore is to go to the nearest of those that border on free ones.
        border = ~notes.seen & _neighbours(free)
        passable = jnp.where(any_known, free | ~notes.seen, free | border)
        away = distances(
            passable,
            jnp.where(any_known, goals, border),
            straight=STRAIGHT,
            diagonal=DIAGONAL,
            extra=jnp.where(free, 0, UNSEEN),
        )
        cells, left = _way(away, cell_of(world.body.place))
        # At the end of a way to a thing is the thing, which need not be in the middle of its cell.
        there_now = jnp.argmin(jnp.where(known, jnp.linalg.norm(notes.place - world.body.place[None], axis=1), jnp.inf))
        places = centre(cells)
        final = (left == 0) & any_known
        same = known[None] & jnp.all(cell_of(notes.place)[None] == cells[:, None], axis=-1)
        places = jnp.where(final[:, None], notes.place[jnp.where(jnp.any(same, 1), jnp.argmax(same, 1), there_now)], places)
        straight = jax.vmap(lambda place: _clear(free, world.body.place, place))(places)
        return places[jnp.where(jnp.any(straight), AHEAD - 1 - jnp.argmax(straight[::-1]), 0)]

    def steer(self, body: Body, place: Float[Array, "2"], *, look_first: Bool[Array, ""]) -> PyTree:
        """The action that leads to a place; one that turns alone while the place is out of view, if it must `look_first`. Here
        one of the 15 Lab actions: a level with others has its own navigator."""
        turn, only_turn = self.towards(body, place, look_first=look_first)
        return jnp.where(only_turn, jnp.where(turn < 0, LEFT, RIGHT), steer(body, place, pace=self.task.pace))

    def towards(
        self, body: Body, place: Float[Array, "2"], *, look_first: Bool[Array, ""]
    ) -> tuple[Float[Array, ""], Bool[Array, ""]]:
        """How far to the right a place is, and whether to do nothing but turn there."""
        turn = bearing(body, place)
        return turn, look_first & (jnp.abs(turn) > HALF_VIEW / 2)


def in_sight(wall: Int[Array, "R C"], body: Body) -> Bool[Array, "R C"]:
    """The cells that some line of sight enters, the wall that ends it included; and the one that the body stands in."""
    angle = body.heading + jnp.linspace(-HALF_VIEW, HALF_VIEW, LINES)
    along = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=1)  # rows, columns
    along = jnp.where(jnp.abs(along) < 1e-6, 1e-6, along)
    start = jnp.broadcast_to(body.place[::-1], along.shape)
    step = jnp.sign(along).astype(jnp.int32)
    cell = jnp.floor(start).astype(jnp.int32)
    # How far along its line each crossing into the next row and the next column is.
    ahead = (cell + (step > 0) - start) / along
    apart = 1 / jnp.abs(along)

    def cross(carry: tuple[Array, ...]) -> tuple[Array, ...]:
        cell, ahead, open_, view = carry
        view = view.at[cell[:, 0], cell[:, 1]].max(open_)
        open_ = open_ & (wall[cell[:, 0], cell[:, 1]] == FREE)
        down = ahead[:, 0] < ahead[:, 1]
        moves = jnp.stack([down, ~down], axis=1) & open_[:, None]
        return jnp.where(moves, cell + step, cell), jnp.where(moves, ahead + apart, ahead), open_, view

    begin = (cell, ahead, jnp.ones(LINES, bool), jnp.zeros(wall.shape, bool))
    return jax.lax.while_loop(lambda carry: jnp.any(carry[2]), cross, begin)[3]


def _way(away: Int[Array, "R C"], cell: Int[Array, "2"]) -> tuple[Int[Array, "P 2"], Int[Array, " P"]]:
    """The next cells on the shortest way by these distances (the last again and again), and how far each is from its end."""
    # To stay comes last: as far as the best neighbour and the step to it, so it is for the end of the way alone.
    shifts = jnp.asarray([(0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (1, -1), (-1, 1), (-1, -1), (0, 0)])
    rows, columns = away.shape

    def step(cell: Int[Array, "2"], _: None) -> tuple[Int[Array, "2"], tuple[Int[Array, "2"], Int[Array, ""]]]:
        near = cell[None] + shifts
        near = jnp.clip(near, 0, jnp.array([[rows - 1, columns - 1]]))
        reach = away[near[:, 0], near[:, 1]]
        # No corner is cut: across one, both cells beside it must be on the map too.
        beside = (away[near[:, 0], cell[1]] < UNREACHED) & (away[cell[0], near[:, 1]] < UNREACHED)
        cost = jnp.asarray([STRAIGHT] * 4 + [DIAGONAL] * 4 + [0])
        best = jnp.argmin(jnp.where(beside, reach + cost, 2 * UNREACHED))
        return near[best], (near[best], reach[best])

    _, (cells, left) = jax.lax.scan(step, cell, length=AHEAD)
    return cells, left


def _clear(free: Bool[Array, "R C"], start: Float[Array, "2"], end: Float[Array, "2"]) -> Bool[Array, ""]:
    """Whether a body can walk straight from place to place over these cells."""
    along = jnp.linspace(0.0, 1.0, AHEAD * SAMPLES)[:, None]
    corners = jnp.asarray([(-1, -1), (-1, 1), (1, -1), (1, 1)]) * (RADIUS * 0.9)
    points = (start[None] * (1 - along) + end[None] * along)[:, None] + corners[None]
    cells = cell_of(points)
    return jnp.all(free[cells[..., 0], cells[..., 1]])


def _neighbours(cells: Bool[Array, "R C"]) -> Bool[Array, "R C"]:
    """The cells beside these."""
    padded = jnp.pad(cells, 1)
    return padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
