"""Opponents that play by themselves: they go about a maze, notice whom they see, aim and shoot, step aside, and go after whom
they have lost.

B bots, F fighters (the agent first, then the bots), K places to go to, R rows and C columns of cells.

Nobody searches a way while a level runs: how far each cell is from each of K places is known from the start, and a bot goes down
these numbers.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import REPEAT, STEPS_A_SECOND, Command
from gtrxl.tasks.first_person.mazes import distances
from gtrxl.tasks.first_person.motion import sees, walk
from gtrxl.tasks.first_person.opponents.fighters import Fighters
from gtrxl.tasks.first_person.scene import Body, cell_of, centre

VIEW = np.deg2rad(60.0)
"""How far aside a bot sees; whom it was hurt by it notices anywhere."""
TURN = np.deg2rad(240.0) / STEPS_A_SECOND
"""How far it turns in a step."""
REACTION = np.round(np.array([1.0, 1.35, 1.75]) * STEPS_A_SECOND).astype(np.int32)
"""Steps from seeing to shooting, by the character."""
AIM = np.deg2rad(np.array([2.5, 3.5, 4.5], np.float32))
"""How far aside it aims: the standard deviation, by the character."""
STRAIGHT = np.deg2rad(10.0)
"""It shoots when it looks at its target so exactly."""
NEAR, FAR = 1.3, 2.8
"""It keeps a distance between these."""
SWAY = 0.07
"""How likely it steps to the other side, in a step."""


class Minds(eqx.Module):
    """What bots have in mind."""

    goal: Int[Array, "*s B"]
    """The place that each goes to."""
    noticed: Int[Array, "*s B"]
    """For how many steps it has seen someone."""
    quarry: Int[Array, "*s B"]
    """Whom it saw last, by the number of the fighter."""
    side: Float[Array, "*s B"]
    """-1 or 1: where it steps while it fights."""

    @classmethod
    def calm(cls, key: PRNGKeyArray, count: int, places: int) -> "Minds":
        """They have seen nobody yet."""
        return cls(
            goal=jax.random.randint(key, (count,), 0, places),
            noticed=jnp.zeros(count, jnp.int32),
            quarry=jnp.zeros(count, jnp.int32),
            side=jnp.ones(count),
        )


def guide(free: Bool[Array, "R C"], cells: Int[Array, "K 2"]) -> Int[Array, "K R C"]:
    """How far each cell is from each of these: what bots find their way by."""

    def one(cell: Int[Array, "2"]) -> Int[Array, "R C"]:
        return distances(free, jnp.zeros_like(free).at[cell[0], cell[1]].set(True))

    return jnp.minimum(jax.vmap(one)(cells), 1000).astype(jnp.int16)


def next_place(away: Int[Array, "R C"], place: Float[Array, "2"]) -> Float[Array, "2"]:
    """The middle of the next cell on the way to where the numbers go down to."""
    near = cell_of(place)[None] + jnp.asarray([(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0)])
    near = jnp.clip(near, 0, jnp.asarray(away.shape)[None] - 1)
    return centre(near[jnp.argmin(away[near[:, 0], near[:, 1]])])


def seen_by(wall: Int[Array, "R C"], fighters: Fighters) -> Bool[Array, "B F"]:
    """Whom each bot sees: no wall is between, and it looks there or was hurt. Nobody sees those who are down."""
    line = jax.vmap(lambda one: jax.vmap(lambda other: sees(wall, one, other))(fighters.place))(fighters.place[1:])
    away = fighters.place[None] - fighters.place[1:, None]
    turn = _wrapped(jnp.arctan2(away[..., 1], away[..., 0]) - fighters.heading[1:, None])
    aware = (jnp.abs(turn) < VIEW) | (fighters.hurt[1:, None] > 0)
    itself = jnp.arange(fighters.heading.shape[0])[None] == jnp.arange(1, fighters.heading.shape[0])[:, None]
    return line & aware & fighters.up[None] & ~itself


def play(
    key: PRNGKeyArray, wall: Int[Array, "R C"], ways: Int[Array, "K R C"], fighters: Fighters, minds: Minds
) -> tuple[Fighters, Minds, Bool[Array, " B"], Float[Array, " B"]]:
    """A step of all bots: where they are then, what they have in mind, who shoots, and how far aside each aims."""
    goal_key, side_key, aim_key = jax.random.split(key, 3)
    bots = minds.goal.shape[0]
    character = np.arange(bots) % len(REACTION)
    place, heading, up = fighters.place[1:], fighters.heading[1:], fighters.up[1:]
    visible = seen_by(wall, fighters)
    away = jnp.linalg.norm(fighters.place[None] - place[:, None], axis=-1)
    fights = jnp.any(visible, 1) & up
    quarry = jnp.where(fights, jnp.argmin(jnp.where(visible, away, jnp.inf), 1), minds.quarry).astype(jnp.int32)
    # Whom it has just lost it looks for where it was: at the place that is nearest to there by foot.
    lost = (minds.noticed > 0) & ~fights
    cell = cell_of(fighters.place[quarry])
    towards = jnp.argmin(ways[:, cell[:, 0], cell[:, 1]], 0)
    here = cell_of(place)
    arrived = ways[minds.goal, here[:, 0], here[:, 1]] <= 0
    drawn = jax.random.randint(goal_key, (bots,), 0, ways.shape[0])
    goal = jnp.where(lost, towards, jnp.where(arrived | ~up, drawn, minds.goal)).astype(jnp.int32)
    way = jax.vmap(next_place)(ways[goal], place)
    wanted = jnp.where(fights[:, None], fighters.place[quarry], way) - place
    turn = _wrapped(jnp.arctan2(wanted[:, 1], wanted[:, 0]) - heading)
    turned = jnp.clip(turn, -TURN, TURN)
    side = jnp.where(jax.random.uniform(side_key, (bots,)) < SWAY, -minds.side, minds.side)
    far = jnp.linalg.norm(wanted, axis=1)
    to_fight = jnp.where(far > FAR, 1.0, jnp.where(far < NEAR, -1.0, 0.0))
    command = Command(
        look_right=jnp.rad2deg(turned) / REPEAT,
        look_up=jnp.zeros(bots),
        strafe=jnp.where(fights & (far < 2 * FAR), side, 0.0) * up,
        move=jnp.where(fights, to_fight, (jnp.abs(turn) < np.deg2rad(50.0)) * 1.0) * up,
        fire=jnp.zeros(bots, bool),
    )
    bodies = Body(place=place, heading=heading, pitch=jnp.zeros(bots))
    after = jax.vmap(lambda body, command: walk(wall, body, command, frames=REPEAT))(bodies, command)
    noticed = jnp.where(fights, minds.noticed + 1, 0)
    shoots = fights & (noticed > jnp.asarray(REACTION[character])) & (jnp.abs(turn - turned) < STRAIGHT)
    aside = jax.random.normal(aim_key, (bots,)) * jnp.asarray(AIM[character])
    moved = eqx.tree_at(
        lambda of: (of.place, of.heading),
        fighters,
        (
            fighters.place.at[1:].set(jnp.where(up[:, None], after.place, place)),
            fighters.heading.at[1:].set(jnp.where(up, after.heading, heading)),
        ),
    )
    return moved, Minds(goal=goal, noticed=noticed, quarry=quarry, side=side), shoots, aside


def _wrapped(angle: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.arctan2(jnp.sin(angle), jnp.cos(angle))
