"""The cores in Flax, linen and nnx: the same numbers as the core itself, parameters that Flax and optax see."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

pytest.importorskip("flax", reason="pip install 'gtrxl[flax]'")

import optax
from flax import linen, nnx, serialization

import gtrxl
from gtrxl.cores.errors import CoreError
from gtrxl.trainers.flax import LinenCore, NnxCore, weights_of, with_weights
from tests.marks import few
from tests.trainers.tasks import CORES, TRANSFORMERS

pytestmark = pytest.mark.filterwarnings("default")  # Flax's own are not ours to judge

B, T, D = 2, 6, 3


def sizes(core):
    own = {"d_model": 8, "layers": 2}
    return own | {"heads": 2, "memory": 4} if core in TRANSFORMERS else own


def given():
    xs = jax.random.normal(jax.random.key(1), (B, T, D))
    return xs, jnp.zeros((B, T), bool).at[:, 0].set(True).at[1, 3].set(True)


def modules(core):
    """Each with the calls: all at once, one step, the empty state, the core inside, its number of parameters."""
    xs, resets = given()
    module = LinenCore(core, D, sizes(core))
    variables = module.init(jax.random.key(0), xs, module.initial_state(B), resets)
    yield (
        lambda *of: module.apply(variables, *of),
        lambda *of: module.apply(variables, *of, method="step"),
        module.initial_state(B),
        module.apply(variables, method="bound"),
        sum(leaf.size for leaf in jax.tree.leaves(variables["params"])),
    )
    other = NnxCore(core, D, rngs=nnx.Rngs(0), **sizes(core))
    count = sum(leaf.size for leaf in jax.tree.leaves(nnx.state(other, nnx.Param)))
    yield other, other.step, other.initial_state(B), other.bound(), count


@pytest.mark.parametrize("core", few(CORES, keep=lambda _, core: core == "gtrxl-gru"))
def test_it_is_the_core(core):
    xs, resets = given()
    for unroll, step, state, inside, count in modules(core):
        streams = gtrxl.Streams(inside, B)
        wanted, after = streams.unroll(xs, streams.initial_state(), resets=resets)
        ys, end = unroll(xs, state, resets)
        np.testing.assert_allclose(ys, wanted, rtol=0, atol=1e-6)
        jax.tree.map(lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-6), end, after)
        for t in range(T):
            y, state = step(xs[:, t], state, resets[:, t])
            np.testing.assert_allclose(y, wanted[:, t], rtol=0, atol=2e-5)
        assert count == sum(leaf.size for leaf in jax.tree.leaves(inside) if hasattr(leaf, "size"))


class Agent(linen.Module):
    """A core between two layers of Flax."""

    @linen.compact
    def __call__(self, xs, state, resets):
        ys, state = LinenCore("gtrxl-gru", 8, sizes("gtrxl-gru"))(linen.Dense(8)(xs), state, resets)
        return linen.Dense(1)(ys)[..., 0], state


class NnxAgent(nnx.Module):
    def __init__(self, rngs):
        self.encoder = nnx.Linear(D, 8, rngs=rngs)
        self.memory = NnxCore("gtrxl-gru", 8, rngs=rngs, **sizes("gtrxl-gru"))
        self.head = nnx.Linear(8, 1, rngs=rngs)

    def __call__(self, xs, state, resets):
        ys, state = self.memory(self.encoder(xs), state, resets)
        return self.head(ys)[..., 0], state


def first_of_episode(xs):
    """What has to be remembered."""
    return jnp.broadcast_to(xs[:, :1, 0], xs.shape[:2])


def test_linen_learns_with_optax_and_is_serialised():
    xs, _ = given()
    resets, memory = jnp.zeros((B, T), bool), LinenCore("gtrxl-gru", 8, sizes("gtrxl-gru"))
    agent, state = Agent(), memory.initial_state(B)
    variables = agent.init(jax.random.key(0), xs, state, resets)
    optimiser = optax.adam(1e-2)

    def loss(variables):
        return jnp.mean(jnp.square(agent.apply(variables, xs, state, resets)[0] - first_of_episode(xs)))

    @jax.jit
    def update(variables, moments):
        value, gradients = jax.value_and_grad(loss)(variables)
        changes, moments = optimiser.update(gradients, moments)
        return optax.apply_updates(variables, changes), moments, value

    moments = optimiser.init(variables)
    first = last = loss(variables)
    for _ in range(60):
        variables, moments, last = update(variables, moments)
    assert last < first / 10
    back = serialization.from_bytes(variables, serialization.to_bytes(variables))
    assert jnp.array_equal(loss(back), loss(variables))


def test_nnx_learns_with_its_optimiser():
    xs, _ = given()
    resets = jnp.zeros((B, T), bool)
    agent = NnxAgent(nnx.Rngs(0))
    state = agent.memory.initial_state(B)
    optimiser = nnx.Optimizer(agent, optax.adam(1e-2), wrt=nnx.Param)

    def loss(agent):
        return jnp.mean(jnp.square(agent(xs, state, resets)[0] - first_of_episode(xs)))

    @nnx.jit
    def update(agent, optimiser):
        value, gradients = nnx.value_and_grad(loss)(agent)
        optimiser.update(agent, gradients)
        return value

    first = last = loss(agent)
    for _ in range(60):
        last = update(agent, optimiser)
    assert last < first / 10


def test_trained_weights_go_in():
    core = gtrxl.make_core("gtrxl-gru", input_size=D, key=jax.random.key(5), **sizes("gtrxl-gru"))
    xs, resets = given()
    module = LinenCore("gtrxl-gru", D, sizes("gtrxl-gru"))
    ys, _ = module.apply({"params": {"weights": weights_of(core)}}, xs, module.initial_state(B), resets)
    wanted, _ = gtrxl.Streams(core, B).unroll(xs, gtrxl.Streams(core, B).initial_state(), resets=resets)
    np.testing.assert_allclose(ys, wanted, rtol=0, atol=1e-6)


def test_weights_of_other_sizes_are_told():
    core = gtrxl.make_core("gru", input_size=D, d_model=4, key=jax.random.key(0))
    wide = gtrxl.make_core("gru", input_size=D, d_model=5, key=jax.random.key(0))
    with pytest.raises(CoreError, match=r"weights must have cells\.0\.inputs\.weight of shape"):
        with_weights(core, weights_of(wide))
    with pytest.raises(CoreError, match=r"weights must have cells\.0\.inputs\.weight .* got none"):
        with_weights(core, {"cells": {"0": {"inputs": {}}}})
