"""The resettable scan: loop and rounds against NumPy, real and complex, and what is left behind by a reset."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cores.linear import scan
from gtrxl.cores.linear.convolution import Convolution
from gtrxl.cores.linear.scan import Pair
from tests.cores.building import assert_close, normal, random_core, small_sizes, unroll

STEPS, STREAMS, SIZE = 11, 3, 4
RESETS = np.random.default_rng(0).random((STEPS, STREAMS)) < 0.25


def complex_states(kept, written, state):
    found = []
    for t in range(STEPS):
        state = np.where(RESETS[t][:, None], 0, state)
        state = kept[t] * state + written[t]
        found.append(state)
    return np.array(found)


def pair(numbers):
    return Pair(re=jnp.asarray(numbers.real, jnp.float32), im=jnp.asarray(numbers.imag, jnp.float32))


@pytest.mark.parametrize("whole", [False, True], ids=["complex", "real"])
def test_loop_and_rounds_give_the_states_of_the_recurrence(whole):
    random = np.random.default_rng(1)
    shape = (STEPS, STREAMS, SIZE)
    kept, written = (random.standard_normal(shape) + (0 if whole else 1j) * random.standard_normal(shape) for _ in range(2))
    start = written[0] * 2
    expected = complex_states(kept, written, start)
    if whole:
        times, given = scan.elementwise, [jnp.asarray(of, jnp.float32) for of in (kept, written, start)]
    else:
        times, given = scan.turned, [pair(of) for of in (kept, written, start)]
    advance = lambda state, of: jax.tree.map(jnp.add, times(of[0], state), of[1])  # noqa: E731
    run = jax.jit(lambda *given: scan.loop(advance, lambda state, of: state, given[:2], *given[2:]))
    looped, end = run(*given, jnp.asarray(RESETS))
    rounded = jax.jit(lambda *given: scan.rounds(times, *given))(*given, jnp.asarray(RESETS))
    for states in (looped, rounded):
        numbers = np.asarray(states) if whole else np.asarray(states.re) + 1j * np.asarray(states.im)
        np.testing.assert_allclose(numbers, expected, atol=2e-5 * abs(expected).max())
    assert_close(jax.tree.leaves(end)[0], expected[-1].real, 2e-5)


def test_what_is_not_finite_stays_before_its_reset_in_both_forms():
    kept, written = (jnp.asarray(normal(seed, STEPS, 1, SIZE)) for seed in (1, 2))
    bad, resets = written.at[2].set(np.nan), jnp.asarray(np.arange(STEPS) == 5)[:, None]
    start = jnp.zeros((1, SIZE))
    advance = lambda state, of: of[0] * state + of[1]  # noqa: E731
    looped = jax.jit(lambda *given: scan.loop(advance, lambda state, of: state, given[:2], *given[2:])[0])
    rounded = jax.jit(lambda *given: scan.rounds(scan.elementwise, *given))
    for states in (looped(kept, bad, start, resets), rounded(kept, bad, start, resets)):
        assert np.isfinite(states[:2]).all()
        assert not np.isfinite(states[2:5]).any()
        assert np.isfinite(states[5:]).all()


@pytest.mark.parametrize("name", ["lru", "mamba2"])
def test_a_core_gives_the_same_in_rounds(name, monkeypatch):
    core = random_core(name, **small_sizes(name))
    xs, resets = normal(7, STEPS, 5), RESETS[:, 0]
    looped, after = unroll(core, xs, core.initial_state(), resets)
    monkeypatch.setattr(scan, "in_rounds", lambda: True)
    in_rounds = jax.jit(lambda xs, resets: core.unroll(xs, core.initial_state(), resets=resets))
    rounded, other = in_rounds(xs, resets)
    assert_close(rounded, looped, 2e-5)
    for mine, theirs in zip(jax.tree.leaves(other), jax.tree.leaves(after), strict=True):
        assert_close(mine, theirs, 2e-5)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_short_convolution_sees_its_own_episode_alone(width):
    """An unroll, in two pieces, against sums over the steps since the last reset."""
    convolution = Convolution(SIZE, width, key=jax.random.key(0))
    xs = normal(8, STEPS, STREAMS, SIZE)
    window = jnp.zeros((STREAMS, width - 1, SIZE))
    ys = []
    for part in (slice(0, 2), slice(2, STEPS)):
        y, window = convolution.unroll(jnp.asarray(xs[part]), window, jnp.asarray(RESETS[part]))
        ys.append(np.asarray(y))
    kernel, bias = np.asarray(convolution.kernel, np.float64), np.asarray(convolution.bias, np.float64)
    for stream in range(STREAMS):
        for t in range(STEPS):
            total = bias.copy()
            for back in range(width):
                if t - back < 0 or RESETS[t - back + 1 : t + 1, stream].any():
                    break
                total += kernel[width - 1 - back] * xs[t - back, stream]
            np.testing.assert_allclose(np.concatenate(ys)[t, stream], total / (1 + np.exp(-total)), atol=1e-5)
