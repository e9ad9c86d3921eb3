"""What MERLIN's decoders lose, against NumPy: every part of an observation, actions of every kind, reward and return."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cores import Happened, Observed
from gtrxl.cores.merlin.decoding import Decoders
from tests.cores.building import normal
from tests.marks import few

B, T, Z = 2, 5, 3
KINDS = {
    "a vector and a choice": Observed(vector=4, choices=(3,)),
    "pictures and numbers": Observed(images=(("eye", (6, 9, 3)), ("map", (4, 4, 1))), numbers=2),
    "all of it": Observed(vector=2, images=(("eye", (5, 4, 3)),), choices=(2, 4), numbers=1),
}


def happened(observed, seed=0):
    random = np.random.default_rng(seed)
    return Happened(
        vector=jnp.asarray(normal(seed, B, T, observed.vector)),
        images={name: jnp.asarray(random.integers(0, 256, (B, T, *shape)), jnp.uint8) for name, shape in observed.images},
        choices=jnp.asarray(
            np.stack([random.integers(0, size, (B, T)) for size in observed.choices], axis=-1)
            if observed.choices
            else np.zeros((B, T, 0)),
            jnp.int32,
        ),
        numbers=jnp.asarray(normal(seed + 1, B, T, observed.numbers)),
        reward=jnp.asarray(normal(seed + 2, B, T)),
        returns=jnp.asarray(normal(seed + 3, B, T)),
        reset=jnp.asarray(np.arange(T)[None] == np.array([2, 0])[:, None]),
        valid=jnp.ones((B, T), bool),
    )


@pytest.mark.parametrize("kind", few(KINDS, keep=lambda _, kind: kind == "all of it"))
def test_every_part_loses_what_it_should(kind):
    observed = KINDS[kind]
    decoders = eqx.filter_jit(lambda key: Decoders(Z, observed, hidden=7, spread=0.5, key=key))(jax.random.key(0))
    decoders = jax.tree.map(lambda leaf: leaf + 0.3, decoders)  # no zero bias, nothing small
    seen, z = happened(observed), normal(9, B, T, Z)
    losses = eqx.filter_jit(decoders.losses)(jnp.asarray(z), seen)
    expected, run = {name: np.zeros((B, T)) for name in losses}, eqx.filter_jit(lambda net, z: net(z))
    for b in range(B):
        for t in range(T):
            told = lambda net, *more, b=b, t=t: np.asarray(run(net, np.concatenate([z[b, t], *more], dtype=np.float32)))  # noqa: E731
            if observed.vector:
                expected["vector"][b, t] = sum((told(decoders.vector) - np.asarray(seen.vector[b, t])) ** 2) / 2 / 0.5**2
            for name, _ in observed.images:
                p = 1 / (1 + np.exp(-np.float64(told(decoders.images[name]))))
                light = np.asarray(seen.images[name][b, t]) / 255
                expected["picture"][b, t] += 50 * np.mean(-light * np.log(p) - (1 - light) * np.log(1 - p))
            chosen = [np.eye(size)[int(seen.choices[b, t, n])] for n, size in enumerate(observed.choices)]
            value, gain = told(decoders.value)[0], told(decoders.advantage, *chosen, np.asarray(seen.numbers[b, t]))[0]
            goal = float(seen.returns[b, t])
            expected["return"][b, t] = 0.2 * ((goal - value) ** 2 + (goal - value - gain) ** 2)
            if t == 0 or bool(seen.reset[b, t]):
                continue
            expected["reward"][b, t] = 0.5 * (told(decoders.reward)[0] - float(seen.reward[b, t - 1])) ** 2
            *logits, numbers = np.split(told(decoders.action), np.cumsum(observed.choices, dtype=int))
            for n, each in enumerate(logits):
                expected["action"][b, t] -= np.log(np.exp(each) / np.exp(each).sum())[int(seen.choices[b, t - 1, n])]
            expected["action"][b, t] += 0.5 * sum((numbers - np.asarray(seen.numbers[b, t - 1])) ** 2)
    assert set(losses) == {
        "action",
        "reward",
        "return",
        *["vector"] * (observed.vector > 0),
        *["picture"] * bool(observed.images),
    }
    for name, loss in losses.items():
        np.testing.assert_allclose(loss, expected[name], rtol=2e-4, atol=1e-5, err_msg=name)


def test_the_advantage_teaches_the_value_nothing():
    observed = KINDS["a vector and a choice"]
    decoders = eqx.filter_jit(lambda key: Decoders(Z, observed, hidden=7, spread=0.5, key=key))(jax.random.key(0))
    seen, z = happened(observed), normal(9, B, T, Z)

    def lost(decoders, returns):
        changed = eqx.tree_at(lambda of: of.returns, seen, returns)
        return jnp.sum(decoders.losses(jnp.asarray(z), changed)["return"])

    # Where the value is right, the advantage's error is its own.
    right = decoders.value(jnp.asarray(z))[..., 0]
    gradient = eqx.filter_jit(eqx.filter_grad(lost))(decoders, right)
    assert all(np.allclose(leaf, 0, atol=1e-6) for leaf in jax.tree.leaves(gradient.value))
    assert any(np.any(np.abs(leaf) > 1e-6) for leaf in jax.tree.leaves(gradient.advantage))
