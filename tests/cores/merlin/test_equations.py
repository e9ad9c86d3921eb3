"""MERLIN and RL-MEM against their equations in NumPy: reads, writes, usage, the retroactive half, and whole episodes."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cores import CoreError, make_core
from gtrxl.cores.merlin import Said, rows
from gtrxl.testing import check_core
from tests.cores.building import assert_close, normal, random_core
from tests.cores.merlin import by_hand

SIZES = {"input_size": 5, "d_model": 6, "layers": 2, "memory": 4, "latent": 3, "reads": 2}
STEPS = 11


def build(name, **changes):
    return random_core(name, **{**SIZES, **({"mlp": 8} if name == "merlin" else {}), **changes})


def test_rows_are_read_written_and_given_up_as_by_hand():
    """Twice as many steps as rows: in order first, then the row that was read least, whose halves, trace and usage begin anew."""
    size, latent, gamma = 4, 3, 0.8
    memory, theirs = rows.empty(size, latent, jnp.dtype("float32")), by_hand.Memory(size, latent, gamma)
    written = eqx.filter_jit(lambda memory, z: rows.written(memory, z, gamma=gamma))
    random, places = np.random.default_rng(3), []
    for t in range(2 * size + 1):
        keys, strengths = random.standard_normal((2, 2 * latent)), np.abs(random.standard_normal(2)) * 5
        by = rows.weights(memory.content, jnp.asarray(keys, jnp.float32), jnp.asarray(strengths, jnp.float32))
        found, usage = theirs.read(keys, strengths)
        np.testing.assert_allclose(rows.read(memory.content, by), found, atol=1e-5)
        memory = rows.used(memory, by)
        theirs.usage = theirs.usage + usage
        z = random.standard_normal(latent)
        places.append(theirs.write(z))
        memory = written(memory, jnp.asarray(z, jnp.float32))
        np.testing.assert_allclose(memory.content, np.concatenate([theirs.now, theirs.later], axis=1), atol=1e-5)
        np.testing.assert_allclose(memory.trace, theirs.trace, atol=1e-6)
        np.testing.assert_allclose(memory.usage, theirs.usage, atol=1e-5)
        assert int(memory.filled) == min(t + 1, size)
    assert places[:size] == list(range(size))
    assert len(set(places[size:])) > 1, "a row that was just written is not the next to go"


def test_a_row_s_other_half_is_a_fading_sum_of_what_came_after():
    gamma, zs = 0.7, normal(0, 5, 2)
    memory = rows.empty(8, 2, jnp.dtype("float32"))
    for z in zs:
        memory = rows.written(memory, jnp.asarray(z), gamma=gamma)
    for row in range(5):
        later = sum((1 - gamma) * gamma ** (t - row - 1) * zs[t] for t in range(row + 1, 5))
        np.testing.assert_allclose(memory.content[row], np.concatenate([zs[row], later + np.zeros(2)]), atol=1e-6)


def test_merlin_is_its_equations():
    core, xs, resets = build("merlin"), normal(1, STEPS, 5), np.arange(STEPS) == 6
    ages = np.where(np.arange(STEPS) < 6, np.arange(STEPS), np.arange(STEPS) - 6)
    noise = core._noise(jnp.asarray(ages, jnp.int32))
    given = jax.tree.map(lambda leaf: leaf[None], core.initial_state())
    ys, state, said = eqx.filter_jit(core.predict)(jnp.asarray(xs)[None], given, jnp.asarray(resets)[None])
    expected, parts, memory = by_hand.merlin(core, xs, resets, noise)
    assert_close(ys[0], expected, 1e-4)
    for ours, theirs in zip(jax.tree.leaves(said), parts, strict=True):
        assert_close(ours[0], theirs, 1e-4)
    assert_close(state.rows.content[0], np.concatenate([memory.now, memory.later], axis=1), 1e-4)
    assert_close(state.rows.usage[0], memory.usage, 1e-4)
    unrolled, _ = eqx.filter_jit(core.unroll)(xs, core.initial_state(), resets=resets)
    np.testing.assert_allclose(unrolled, ys[0], atol=1e-5)


def test_rl_mem_is_its_equations():
    core, xs, resets = build("rl-mem"), normal(1, STEPS, 5), np.arange(STEPS) == 6
    ys, state = eqx.filter_jit(core.unroll)(xs, core.initial_state(), resets=resets)
    expected, memory = by_hand.rl_mem(core, xs, resets)
    assert_close(ys, expected, 1e-4)
    assert_close(state.rows.content, np.concatenate([memory.now, memory.later], axis=1), 1e-4)


def test_the_kl_is_from_the_posterior_to_the_prior():
    """By integrating q log(q / p) numerically; the other way round it is another number."""
    mean_p, log_p, mean_q, log_q = (np.array(part, np.float32) for part in ([0.5, -1.0], [0.3, -0.2], [-0.4, 0.2], [-0.5, 0.4]))
    told = dict(zip(("prior_mean", "prior_log", "mean", "log", "z"), (mean_p, log_p, mean_q, log_q, mean_q), strict=True))
    said = Said(**{name: jnp.asarray(part) for name, part in told.items()})
    x = np.linspace(-30, 30, 200_001)[None]

    def log_density(mean, log):
        return -0.5 * ((x - mean[:, None]) / np.exp(log)[:, None]) ** 2 - log[:, None] - 0.5 * np.log(2 * np.pi)

    p, q = log_density(np.float64(mean_p), np.float64(log_p)), log_density(np.float64(mean_q), np.float64(log_q))
    right, wrong = (float(np.sum(np.exp(a) * (a - b)) * (x[0, 1] - x[0, 0])) for a, b in ((q, p), (p, q)))
    assert float(said.kl()) == pytest.approx(right, rel=1e-5)
    assert abs(right - wrong) > 0.1


def test_noise_is_normal_the_same_in_every_call_and_fresh_with_other_weights():
    core, ages = build("merlin", latent=64), jnp.arange(200, dtype=jnp.int32)
    noise = np.asarray(core._noise(ages))
    assert abs(noise.mean()) < 0.02
    assert abs(noise.std() - 1) < 0.02
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 0.05
    moved = eqx.tree_at(lambda of: of.posterior.output.bias, core, core.posterior.output.bias + 1e-6)
    assert abs(np.corrcoef(noise.ravel(), np.asarray(moved._noise(ages)).ravel())[0, 1]) < 0.05
    assert not np.any(build("merlin", noise=0.0)._noise(ages))


def test_no_gradient_of_the_outputs_reaches_what_predicts():
    """Nor x. What is said of a step has one by all of these, and by every earlier x of the segment."""
    core, xs = build("merlin"), jnp.asarray(normal(1, 1, STEPS, 5))
    given, resets = jax.tree.map(lambda leaf: leaf[None], core.initial_state()), jnp.zeros((1, STEPS), bool)

    def of_outputs(learned):
        core, xs = learned
        return jnp.sum(jnp.sin(core.predict(xs, given, resets)[0]))

    def of_said(learned):
        core, xs = learned
        said = core.predict(xs, given, resets)[2]
        return jnp.sum(jnp.sin(said.z[:, -1])) + jnp.sum(said.kl()[:, -1])

    parts = ("embed", "prior", "posterior", "predictor", "predictor_keys")
    by_core, by_xs = eqx.filter_jit(eqx.filter_grad(of_outputs))((core, xs))
    assert not np.any(by_xs)
    for part in parts:
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(getattr(by_core, part))), part
    for part in ("policy", "policy_keys"):
        assert all(np.any(leaf) for leaf in jax.tree.leaves(getattr(by_core, part))), part
    by_core, by_xs = eqx.filter_jit(eqx.filter_grad(of_said))((core, xs))
    assert np.all(np.abs(by_xs[0]).max(axis=1) > 0)
    for part in parts:
        assert all(np.any(leaf) for leaf in jax.tree.leaves(getattr(by_core, part))), part
    for part in ("policy", "policy_keys"):
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(getattr(by_core, part))), part


@pytest.mark.slow
@pytest.mark.parametrize("name", ["merlin", "rl-mem"])
def test_they_keep_the_contract_as_they_are_made(name):
    """With the first weights, which are not random ones of a test: small last layers, zero biases."""
    core = make_core(name, key=jax.random.key(0), **SIZES)
    assert check_core(core, steps=12).broken == ()


def test_sizes_that_make_no_memory_are_named():
    for changes, said in (
        ({"memory": 0}, "memory must be at least 1, got 0; it is the number of rows; MERLIN has 1,350"),
        ({"latent": 0}, "latent must be at least 1, got 0"),
        ({"gamma": 1.0}, "gamma must be at least 0 and less than 1, got 1.0; 0.96 lets a row see about 25 steps ahead"),
    ):
        for name in ("merlin", "rl-mem"):
            with pytest.raises(CoreError, match=said):
                make_core(name, key=jax.random.key(0), **{**SIZES, **changes})
    with pytest.raises(CoreError, match=r"spread must be above 0 and noise at least 0, got 0.0 and 1.0"):
        make_core("merlin", key=jax.random.key(0), spread=0.0, **SIZES)
