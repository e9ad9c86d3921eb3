"""Players of open rooms: walk straight to a place, around what must not be touched, and know only what has been in view.

R rows and C columns of cells, N objects.
"""

import abc
import dataclasses
import functools
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import LAB_ACTIONS, LAB_PACE, Pace, native
from gtrxl.tasks.first_person.level import REPEAT, Level, LevelState
from gtrxl.tasks.first_person.scene import FREE, RADIUS, Body, Scene, cell_of, centre
from gtrxl.tasks.players.player import Player

HALF_VIEW = np.deg2rad(35.0)
"""What is at most this far from the middle of the picture counts as seen: a little less than the picture shows."""
LOOK_ROUND = list(LAB_ACTIONS).index("large look right")
"""What to do when nothing is known yet."""
STRIDE = LAB_PACE.cells * REPEAT
"""Cells in a step of DeepMind Lab's pace."""
MARGIN = 0.15
"""How far around what must not be touched to walk."""
LOOSE = 3
"""Steps to walk anywhere for, when one would step to and fro."""
_STEPS = [list(LAB_ACTIONS).index(name) for name in ("forward", "backward", "strafe left", "strafe right")]


_AROUND = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1)])
"""A cell and the eight around it."""


class Discs(eqx.Module):
    """What to walk around, in a room."""

    wall: Int[Array, "R C"]
    place: Float[Array, "N 2"]
    clear: Float[Array, " N"]
    """How far from its middle to stay; 0 of what may be touched."""

    @classmethod
    def of(cls, scene: Scene, avoid: Bool[Array, " N"]) -> "Discs":
        """Those objects of a scene that are to be avoided and are there."""
        objects = scene.objects
        clear = jnp.where(avoid & objects.there, objects.size / 2 + RADIUS + MARGIN, 0.0)
        return cls(wall=scene.wall, place=objects.place, clear=clear)


class ShadowNotes(eqx.Module):
    """The task as it is, and what the player has seen of it. It acts on the second alone, and on where it stands."""

    state: LevelState
    memory: Any
    past: Float[Array, "2 4"]
    """How the body stood one step ago and two steps ago: `_stance`."""
    loose: Int[Array, ""]
    """Steps left in which it walks anywhere."""


@dataclasses.dataclass(frozen=True)
class Shadow(Player):
    """A player that steps its own copy of the task instead of looking at pictures. It forgets nothing.

    A subclass says what is remembered at first and after each step, and what to do. It may look into the state for what is in
    view (`in_view`), and for where it stands itself; never for what is hidden.

    One that steps to and fro between two places walks anywhere for some steps: near things that must not be touched, the next leg
    of a way round can be another one after each step, and lead back.
    """

    task: Level

    looks: ClassVar[bool] = False

    @abc.abstractmethod
    def first(self, state: LevelState) -> Any:
        """What is known at the start."""

    @abc.abstractmethod
    def choose(self, memory: Any, state: LevelState) -> Int[Array, ""]:
        """What to do."""

    @abc.abstractmethod
    def learn(self, memory: Any, before: LevelState, action: Int[Array, ""], after: LevelState) -> Any:
        """What is known after a step; `after.reward` is what it brought."""

    def begin(self, state: LevelState) -> ShadowNotes:
        """The task itself, and the first look."""
        return ShadowNotes(state=state, memory=self.first(state), past=jnp.full((2, 4), jnp.inf), loose=jnp.int32(0))

    def act(self, notes: ShadowNotes, observation: Any, key: PRNGKeyArray) -> tuple[ShadowNotes, Int[Array, ""]]:
        """Chooses, and follows what it leads to."""
        anywhere = jax.random.choice(key, jnp.asarray(_STEPS))
        action = jnp.where(notes.loose > 0, anywhere, self.choose(notes.memory, notes.state)).astype(jnp.int32)
        after, *_ = self.task.advance(notes.state, action)
        was, now, then = notes.past, _stance(notes.state.world.body), _stance(after.world.body)
        swings = _alike(then, was[0]) & _alike(now, was[1]) & ~_alike(then[:2], now[:2])
        notes = ShadowNotes(
            state=after,
            memory=self.learn(notes.memory, notes.state, action, after),
            past=jnp.stack([now, was[0]]),
            loose=jnp.where(swings, LOOSE, jnp.maximum(notes.loose - 1, 0)),
        )
        return notes, action


def _stance(body: Body) -> Float[Array, "4"]:
    return jnp.concatenate([body.place, jnp.stack([jnp.cos(body.heading), jnp.sin(body.heading)])])


def _alike(one: Float[Array, " n"], other: Float[Array, " n"]) -> Bool[Array, ""]:
    return jnp.max(jnp.abs(one - other)) < 1e-3


def bearing(body: Body, place: Float[Array, "*n 2"]) -> Float[Array, "*n"]:
    """How far to the right of where one looks a place is, in (-pi, pi]."""
    x, y = place[..., 0] - body.place[0], place[..., 1] - body.place[1]
    return _wrapped(jnp.arctan2(y, x) - body.heading)


def in_view(body: Body, place: Float[Array, "*n 2"]) -> Bool[Array, "*n"]:
    """Whether places are in the picture, in a room without walls inside."""
    return jnp.abs(bearing(body, place)) <= HALF_VIEW


def nearest(body: Body, place: Float[Array, "N 2"], among: Bool[Array, " N"]) -> tuple[Int[Array, ""], Bool[Array, ""]]:
    """The place that is reached first among some, turning counted; and whether there is any."""
    away = jnp.linalg.norm(place - body.place[None], axis=1) + 0.4 * jnp.abs(bearing(body, place))
    return jnp.argmin(jnp.where(among, away, jnp.inf)), jnp.any(among)


def steer(body: Body, target: Float[Array, "2"], *, around: Discs | None = None, pace: Pace = LAB_PACE) -> Int[Array, ""]:
    """The one of the 15 actions that brings one soonest to `target`, around what must not be touched."""
    place, clear = jnp.zeros((0, 2)), jnp.zeros(0)
    if around is not None:
        place, clear = around.place, around.clear
        target = _first_leg(body, target, around)
    rows = native(LAB_ACTIONS)
    turns = jnp.asarray(np.deg2rad(rows[:, :1] * pace.degrees) * np.arange(1, REPEAT + 1, dtype=np.float32))
    heading = body.heading + turns
    move, strafe = jnp.asarray(rows[:, 3]), jnp.asarray(rows[:, 2])
    ahead, aside = jnp.sum(jnp.cos(heading), axis=1), jnp.sum(jnp.sin(heading), axis=1)
    x = body.place[0] + pace.cells * (move * ahead - strafe * aside)
    y = body.place[1] + pace.cells * (move * aside + strafe * ahead)
    after = jnp.stack([x, y], axis=1)
    turn_left = jnp.abs(_wrapped(jnp.arctan2(target[1] - y, target[0] - x) - heading[:, -1]))
    stride, large = pace.cells * REPEAT, float(np.deg2rad(60 * pace.degrees * REPEAT))
    left = jnp.linalg.norm(after - target[None], axis=1) / stride + turn_left / large
    inside = jnp.sum(jnp.maximum(clear[None] - MARGIN / 2 - jnp.linalg.norm(after[:, None] - place[None], axis=-1), 0.0), axis=1)
    idle = jnp.asarray((rows[:, 1] != 0) | (rows[:, 4] != 0))
    return jnp.argmin(jnp.where(idle, jnp.inf, left + 1000.0 * inside)).astype(jnp.int32)


def _first_leg(body: Body, target: Float[Array, "2"], around: Discs) -> Float[Array, "2"]:
    """`target` if the straight way there is clear, else the middle of the next cell on a way round.

    From the middle of a cell to that of one beside it or at its corner one touches nothing that stands in a third cell.
    """
    cells = jnp.where(around.wall != FREE, jnp.inf, 0.0)
    row, column = jnp.moveaxis(cell_of(around.place), 1, 0)
    # What must not be touched costs a lot, but a way through it is better than none.
    cells = cells.at[row, column].add(jnp.where(around.clear > 0, 50.0, 0.0))
    goal = jnp.zeros(cells.shape, bool).at[tuple(cell_of(target))].set(True)
    to_goal = jax.lax.fori_loop(
        0, sum(cells.shape), lambda _, far: jnp.where(goal, 0.0, _one_on(far) + cells), jnp.where(goal, 0.0, jnp.inf)
    )
    near = cell_of(body.place)[None] + jnp.asarray(_AROUND)
    middle = centre(near)
    cost = to_goal[near[:, 0], near[:, 1]] + jnp.linalg.norm(middle - body.place[None], axis=1)
    # Its own middle is only a detour.
    cost = cost + jnp.asarray(0.2 * np.all(_AROUND == 0, axis=1), jnp.float32)
    legs = jnp.concatenate([target[None], middle])
    blocked = _blocked(body.place, legs, around)
    return jnp.where(blocked[0], middle[jnp.argmin(cost + 20.0 * blocked[1:])], target)


def _blocked(start: Float[Array, "2"], ends: Float[Array, "L 2"], around: Discs) -> Bool[Array, " L"]:
    """Which straight ways would touch what must not be touched."""
    way = ends - start[None]
    length = jnp.maximum(jnp.linalg.norm(way, axis=1, keepdims=True), 1e-6)
    ahead = way / length
    apart = around.place - start[None]
    along = ahead @ apart.T
    side = ahead[:, :1] * apart[None, :, 1] - ahead[:, 1:] * apart[None, :, 0]
    # The nearest point of the way; one that only leads away from a disc does not touch it.
    beyond = jnp.maximum(along - length, 0.0)
    nearest_on = jnp.hypot(side, beyond)
    return jnp.any((along > 0) & (nearest_on < around.clear[None] - MARGIN / 2), axis=1)


def _one_on(far: Float[Array, "R C"]) -> Float[Array, "R C"]:
    """The length of the way from each cell by the best of the eight around it."""
    rows, columns = far.shape
    wide = jnp.pad(far, 1, constant_values=jnp.inf)
    ways = [wide[1 + r : 1 + r + rows, 1 + c : 1 + c + columns] + float(np.hypot(r, c)) for r, c in _AROUND]
    return functools.reduce(jnp.minimum, ways)


def _wrapped(angle: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.arctan2(jnp.sin(angle), jnp.cos(angle))
