"""The target network's copies."""

import jax.numpy as jnp
import numpy as np

from gtrxl.learner import target_due, update_target


def test_a_copy_every_period():
    assert [bool(target_due(step, 3)) for step in range(7)] == [True, False, False, True, False, False, True]


def test_the_target_is_the_network_as_it_was():
    online = {"w": jnp.zeros(2), "name": "net"}
    target, seen = online, []
    for step in range(1, 8):
        online = {"w": online["w"] + 1, "name": "net"}
        target = update_target(online=online, target=target, step=step, period=3)
        seen.append(float(target["w"][0]))
    np.testing.assert_array_equal(seen, [0, 0, 3, 3, 3, 6, 6])
    assert target["name"] == "net"
