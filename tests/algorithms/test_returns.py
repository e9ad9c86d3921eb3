"""Returns, advantages and V-trace: against loops in float64, against rlax, and by what they must do at episode ends."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.algorithms import advantages, returns, vtrace
from tests.algorithms import batches, naive
from tests.algorithms.oracle import rlax

close = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5)


def arguments(batch):
    names = ("reward", "discount", "value", "valid")
    return {name: jnp.asarray(batch[name], bool if name == "valid" else jnp.float32) for name in names}


COMPILED = {
    function: jax.jit(function, static_argnames=settings)
    for function, settings in ((returns, "lam"), (advantages, "lam"), (vtrace, ("lam", "rho_bar", "c_bar")))
}


def of(function, batch, **more):
    return COMPILED[function](**arguments(batch), **more)


@pytest.mark.parametrize("lam", [1.0, 0.8, 0.0])
def test_returns_are_the_recursion(lam):
    batch = batches.make()
    expected = naive.returns(*(batch[name] for name in ("reward", "discount", "value", "valid")), lam=lam)
    close(of(returns, batch, lam=lam), expected)
    close(of(advantages, batch, lam=lam), expected - batch["value"][:, :-1])


def test_returns_agree_with_rlax():
    batch = batches.make(all_valid=True)
    batch["discount"][1, 3] = 0.0
    arrays = arguments(batch)
    reward, discount, value = arrays["reward"], arrays["discount"], arrays["value"]
    for lam in (1.0, 0.8):
        expected = jax.vmap(lambda r, d, v: rlax.lambda_returns(r, d, v[1:], lam))(reward, discount, value)
        close(of(returns, batch, lam=lam), expected)
    n_step = jax.vmap(lambda r, d, v: rlax.n_step_bootstrapped_returns(r, d, v[1:], n=batches.T))(reward, discount, value)
    close(of(returns, batch, lam=1.0), n_step)
    gae = jax.vmap(lambda r, d, v: rlax.truncated_generalized_advantage_estimation(r, d, 0.8, v))(reward, discount, value)
    close(of(advantages, batch, lam=0.8), gae)


VTRACE = [(1.0, 1.0, 1.0), (0.8, 1.0, 1.0), (1.0, 1.3, 0.7)]


@pytest.mark.parametrize(("lam", "rho_bar", "c_bar"), VTRACE)
def test_vtrace_is_the_sum_that_defines_it(lam, rho_bar, c_bar):
    batch = batches.make()
    ratio = batch["log_prob"] - batch["behaviour_log_prob"]
    arrays = (batch[name] for name in ("reward", "discount", "value", "valid"))
    expected = naive.vtrace(*arrays, log_ratio=ratio, lam=lam, rho_bar=rho_bar, c_bar=c_bar)
    log_ratio = jnp.asarray(ratio, jnp.float32)
    found = of(vtrace, batch, log_ratio=log_ratio, lam=lam, rho_bar=rho_bar, c_bar=c_bar)
    for mine, theirs in zip(found, expected, strict=True):
        close(mine, theirs)


@pytest.mark.parametrize("lam", [1.0, 0.8])
def test_vtrace_agrees_with_rlax(lam):
    batch = batches.make(all_valid=True)
    arrays = arguments(batch)
    ratio = jnp.asarray(batch["log_prob"] - batch["behaviour_log_prob"], jnp.float32)
    theirs = jax.vmap(lambda r, d, v, x: rlax.vtrace_td_error_and_advantage(v[:-1], v[1:], r, d, jnp.exp(x), lam))(
        arrays["reward"], arrays["discount"], arrays["value"], ratio
    )
    targets, pg_advantages = of(vtrace, batch, log_ratio=ratio, lam=lam)
    close(targets - arrays["value"][:, :-1], theirs.errors)
    close(pg_advantages, theirs.pg_advantage)


def test_on_policy_vtrace_is_plain_returns():
    batch = batches.make()
    targets, pg_advantages = of(vtrace, batch, log_ratio=jnp.zeros((batches.B, batches.T)), lam=0.8)
    close(targets, of(returns, batch, lam=0.8))
    close(pg_advantages, of(advantages, batch, lam=0.8))


FUNCTIONS = [advantages, returns, vtrace]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_nothing_crosses_the_end_of_an_episode(function):
    """Whatever comes after an ended episode, what came before it has the same returns, bit for bit; and one stream alone has
    the returns that it has in the batch."""
    batch = batches.make()
    more = {"log_ratio": jnp.zeros((batches.B, batches.T))} if function is vtrace else {}
    before = jax.tree.leaves(of(function, batch, lam=0.8, **more))
    batch["reward"][0, 3:] += 100
    batch["value"][0, 3:] -= 100  # the last observation's own value too: a discount of zero hides it
    batch["discount"][0, 3] = 7.0
    after = jax.tree.leaves(of(function, batch, lam=0.8, **more))
    alone = jax.tree.map(lambda x: x[0], (arguments(batch), more))
    for x, y, z in zip(before, after, jax.tree.leaves(COMPILED[function](**alone[0], **alone[1], lam=0.8)), strict=True):
        np.testing.assert_array_equal(x[0, :3], y[0, :3])
        np.testing.assert_array_equal(x[1:], y[1:])
        close(z, y[0])


def test_a_time_limit_is_not_an_end():
    """Where a time limit cuts, the value of the last observation continues the return, and nothing after it does."""
    batch = batches.make()
    G = of(returns, batch, lam=1.0)
    close(G[1, 3], batch["reward"][1, 3] + 0.9 * batch["value"][1, 4])
    batch["value"][1, 4] += 10
    moved = of(returns, batch, lam=1.0) - G
    np.testing.assert_allclose(moved[1], [10 * 0.9**4, 10 * 0.9**3, 10 * 0.9**2, 10 * 0.9, 10, 0, 0], rtol=1e-5)
