"""Players of open rooms: one whose choices lead to and fro gets away all the same."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.tasks.first_person.actions import LAB_ACTIONS
from gtrxl.tasks.first_person.levels.rooms.watermaze import Watermaze
from gtrxl.tasks.players.steering import LOOSE, Shadow
from tests.tasks.first_person.playing import blind

FORWARD, BACKWARD = (list(LAB_ACTIONS).index(name) for name in ("forward", "backward"))
STEPS = 60


@dataclasses.dataclass(frozen=True)
class ToAndFro(Shadow):
    """Forward, backward, forward ..."""

    def first(self, state):
        return None

    def choose(self, memory, state):
        return jnp.where(state.elapsed % 2 == 0, FORWARD, BACKWARD)

    def learn(self, memory, before, action, after):
        return None


def test_who_steps_to_and_fro_walks_anywhere_for_some_steps():
    task = blind(Watermaze, arena=20, height=8, width=8)
    player = ToAndFro(task)

    def walk(key):
        def step(notes, key):
            notes, action = player.act(notes, None, key)
            return notes, (action, notes.state.world.body.place)

        return jax.lax.scan(step, player.begin(task.reset(key)[0]), jax.random.split(key, STEPS))[1]

    actions, places = (np.asarray(each) for each in jax.jit(jax.vmap(walk))(jax.random.split(jax.random.key(0), 16)))
    # Three steps show it; then some are free.
    usual = np.where(np.arange(STEPS) % 2 == 0, FORWARD, BACKWARD)
    np.testing.assert_array_equal(actions[:, :3], np.broadcast_to(usual[:3], (16, 3)))
    assert not (actions[:, 3 : 3 + LOOSE] == usual[3 : 3 + LOOSE]).all()
    back = np.linalg.norm(places[:, 2:] - places[:, :-2], axis=-1) < 1e-3
    back &= np.linalg.norm(places[:, 2:] - places[:, 1:-1], axis=-1) > 1e-3  # the platform may hold one
    longest = max(len(run) for row in back for run in "".join("x" if same else " " for same in row).split())
    assert longest <= 4
    assert np.linalg.norm(places[:, -1] - places[:, 0], axis=-1).max() > 0.5, "it gets away"
