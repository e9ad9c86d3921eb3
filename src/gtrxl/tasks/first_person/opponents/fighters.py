"""Those who shoot at each other: their health, their guns, what a shot meets, who is tagged and when they are back.

F fighters, the agent first; G guns; S places to start from.

A shot is there at once: it meets the nearest fighter on its line before the first wall. All who shoot in a step do so together.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.tasks.first_person.actions import REPEAT, STEPS_A_SECOND
from gtrxl.tasks.first_person.motion import free_length
from gtrxl.tasks.first_person.scene import EYES

MELEE, RAPID, LIGHTNING, ROCKET, RAIL = range(5)
"""The guns, from the worst to the best: one has the best that has shots in hand. Melee needs none."""
SHOTS = np.array([0, 100, 100, 10, 10])
"""That come with each gun."""
_DAMAGE = np.array([50.0, 7.0, 8.0, 100.0, 100.0], np.float32)
_PERIOD = np.array([24.0, 6.0, 3.0, 48.0, 90.0], np.float32)
"""Frames from shot to shot; there are 60 in a second."""
_REACH = np.array([0.9, 100.0, 7.68, 100.0, 100.0], np.float32)
"""In cells."""
_SPREAD = np.deg2rad(np.array([0.0, 1.0, 0.0, 0.0, 0.0], np.float32))
"""How far a shot goes aside."""
SPLASH = 1.2
"""How far from where it bursts a rocket hurts; half way half as much."""
WIDTH, TALL = 0.25, 0.95
"""A shot that passes within this of the middle of a fighter, below that height, hits."""
HEALTH, FULL = 125.0, 100.0
"""What one starts with; what is above the second number goes by 1 a second."""
SHIELDED = 2 / 3
"""The part of a shot that armour takes while there is some."""
BACK, FORCED = round(1.7 * STEPS_A_SECOND), round(20 * STEPS_A_SECOND)
"""Steps after which a tagged fighter can start anew by firing; and after which it does in any case."""


class Fighters(eqx.Module):
    """All that is known of them."""

    place: Float[Array, "*s F 2"]
    heading: Float[Array, "*s F"]
    pitch: Float[Array, "*s F"]
    health: Float[Array, "*s F"]
    armour: Float[Array, "*s F"]
    shots: Int[Array, "*s F G"]
    """In hand for each gun."""
    wait: Float[Array, "*s F"]
    """Frames until the next shot."""
    down: Int[Array, "*s F"]
    """Steps since one was tagged; 0 of those who are not."""
    fired: Bool[Array, "*s F"]
    """In the last step."""
    hurt: Float[Array, "*s F"]
    """What the last step cost in health and armour."""

    @classmethod
    def fresh(cls, place: Float[Array, "F 2"], heading: Float[Array, " F"]) -> "Fighters":
        """As they begin."""
        count = heading.shape[0]
        return cls(
            place=place.astype(jnp.float32),
            heading=heading,
            pitch=jnp.zeros(count),
            health=jnp.full(count, HEALTH),
            armour=jnp.zeros(count),
            shots=jnp.tile(_first_shots()[None], (count, 1)),
            wait=jnp.zeros(count),
            down=jnp.zeros(count, jnp.int32),
            fired=jnp.zeros(count, bool),
            hurt=jnp.zeros(count),
        )

    @property
    def up(self) -> Bool[Array, "*s F"]:
        """Those who are not tagged."""
        return self.down == 0

    @property
    def gun(self) -> Int[Array, "*s F"]:
        """What each has in hand."""
        return jnp.max(jnp.where(self.shots > 0, jnp.arange(len(SHOTS)), MELEE), axis=-1)


class Exchange(eqx.Module):
    """What the shots of a step led to."""

    fighters: Fighters
    tagged: Bool[Array, "*s F"]
    """Those who were tagged in this step."""
    by: Int[Array, "*s F"]
    """Who hurt each the most."""


def exchange(key: PRNGKeyArray, wall: Int[Array, "R C"], fighters: Fighters, trigger: Bool[Array, " F"]) -> Exchange:
    """A step of shooting by those who pull the trigger."""
    gun = fighters.gun
    period, up = jnp.asarray(_PERIOD)[gun], fighters.up
    in_hand = jnp.where(gun == MELEE, jnp.int32(1 << 20), jnp.take_along_axis(fighters.shots, gun[:, None], 1)[:, 0])
    # As many shots as fit in the frames of a step.
    fit = jnp.maximum(jnp.ceil((REPEAT - fighters.wait) / period), 0.0).astype(jnp.int32)
    number = jnp.where(trigger & up, jnp.minimum(fit, in_hand), 0)
    wait = jnp.maximum(fighters.wait + number * period - REPEAT, 0.0)
    aside = jax.random.uniform(key, gun.shape, minval=-1.0, maxval=1.0) * jnp.asarray(_SPREAD)[gun]
    harm = damage(wall, fighters, heading=fighters.heading + aside, number=number)
    total = jnp.sum(harm, 0)
    shield = jnp.minimum(total * SHIELDED, fighters.armour)
    health = fighters.health - (total - shield)
    health = jnp.where(health > FULL, jnp.maximum(health - 1 / STEPS_A_SECOND, FULL), health)
    tagged = up & (health <= 0)
    spent = number[:, None] * (jnp.arange(len(SHOTS))[None] == gun[:, None])
    return Exchange(
        fighters=dataclasses.replace(
            fighters,
            health=jnp.maximum(health, 0.0),
            armour=fighters.armour - shield,
            shots=jnp.maximum(fighters.shots - spent, 0),
            wait=wait,
            down=jnp.where(tagged, 1, jnp.where(up, 0, fighters.down + 1)),
            fired=number > 0,
            hurt=total,
        ),
        tagged=tagged,
        by=jnp.argmax(harm, 0).astype(jnp.int32),
    )


def damage(
    wall: Int[Array, "R C"], fighters: Fighters, *, heading: Float[Array, " F"], number: Int[Array, " F"]
) -> Float[Array, "F F"]:
    """What so many shots of each (row) cost each (column)."""
    gun, place, up = fighters.gun, fighters.place, fighters.up
    ahead = jnp.stack([jnp.cos(heading), jnp.sin(heading)], 1)
    away = place[None] - place[:, None]
    along = jnp.einsum("fjk,fk->fj", away, ahead)
    aside = away[..., 0] * ahead[:, None, 1] - away[..., 1] * ahead[:, None, 0]
    free = jnp.minimum(jax.vmap(lambda start, to: free_length(wall, start, to))(place, heading), jnp.asarray(_REACH)[gun])
    high = EYES + along * jnp.tan(fighters.pitch)[:, None]
    others = ~jnp.eye(len(heading), dtype=bool) & up[None]
    met = others & (along > 0) & (along < free[:, None]) & (jnp.abs(aside) < WIDTH) & (high > 0) & (high < TALL)
    first = met & (along == jnp.min(jnp.where(met, along, jnp.inf), 1, keepdims=True))
    direct = first * (number * jnp.asarray(_DAMAGE)[gun])[:, None]
    # A rocket bursts at whom it meets or at the wall, and hurts who is near: the one who shot it too.
    burst = jnp.minimum(jnp.min(jnp.where(met, along, jnp.inf), 1), free - 0.05)
    at = place + burst[:, None] * ahead
    far = jnp.linalg.norm(place[None] - at[:, None], axis=-1)
    splash = jnp.maximum(1 - far / SPLASH, 0.0) * (number * (gun == ROCKET) * _DAMAGE[ROCKET])[:, None]
    return direct + jnp.where(first | ~up[None], 0.0, splash)


def start_anew(key: PRNGKeyArray, fighters: Fighters, starts: Float[Array, "S 2"], asks: Bool[Array, " F"]) -> Fighters:
    """Those who are down long enough and ask for it stand up far from where they were tagged: at one of the farther half of the
    places, looking anywhere."""
    place_key, heading_key = jax.random.split(key)
    back = (asks & (fighters.down > BACK)) | (fighters.down > FORCED)
    far = jnp.linalg.norm(starts[None] - fighters.place[:, None], axis=-1)
    farther = far >= jnp.median(far, axis=1, keepdims=True)
    drawn = jnp.argmax(jax.random.uniform(place_key, far.shape) + farther, 1)
    heading = jax.random.uniform(heading_key, back.shape, maxval=2 * np.pi)
    new = Fighters.fresh(starts[drawn], heading)

    def chosen(yes: Array, no: Array) -> Array:
        return jnp.where(back.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)

    return jax.tree.map(chosen, new, fighters)


def _first_shots() -> Int[Array, " G"]:
    return jnp.asarray(np.where(np.arange(len(SHOTS)) == RAPID, SHOTS, 0), jnp.int32)
