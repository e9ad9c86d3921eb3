"""Relative attention against the loop-by-loop transcription of the paper's appendix C.2, through a whole one-layer core.

The core has a single layer and the identity for an embedding; the reference does the same whole layer, so a difference in
any query-key pair shows in the output.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import Memory
from tests.cores import reference
from tests.cores.building import assert_close, normal, random_core, unroll
from tests.cores.weights import weights_of, without_embedding

TOLERANCE = 1e-4  # float32 against float64, relative to the largest output, as in tests/golden/README.md


def one_layer(name, *, size, heads, head_dim, memory):
    sizes = {"input_size": size, "d_model": size, "layers": 1, "mlp": size}
    return without_embedding(random_core(name, **sizes, heads=heads, head_dim=head_dim, memory=memory))


@pytest.mark.parametrize(
    ("size", "heads", "head_dim", "memory", "steps", "filled"),
    [
        (8, 2, 4, 5, 7, 3),  # longer than the memory, partly filled
        (8, 2, 4, 5, 3, 5),  # shorter than the memory, full
        (8, 4, 3, 4, 6, 0),  # heads * head_dim is not d_model; nothing remembered
        (6, 1, 6, 1, 5, 1),  # one head, one slot
        (8, 2, 4, 0, 4, 0),  # no memory: each step attends to itself
    ],
)
@pytest.mark.parametrize("name", ["trxl", "trxl-i"])
def test_every_pair_of_query_and_key_counts_as_in_the_paper(name, size, heads, head_dim, memory, steps, filled):
    core = one_layer(name, size=size, heads=heads, head_dim=head_dim, memory=memory)
    random = np.random.default_rng(0)
    xs, remembered = random.normal(size=(steps, size)), random.normal(size=(1, memory, size))
    resets = np.zeros(steps, bool)
    resets[steps // 2] = True
    expected, _ = reference.stack(name, weights_of(core), xs, remembered, heads, resets, filled)
    state = Memory(inputs=jnp.asarray(remembered, jnp.float32), filled=jnp.asarray(filled, jnp.int32))
    ys, _ = unroll(core, xs.astype(np.float32), state, resets)
    assert_close(ys, expected, TOLERANCE)


def test_position_matters_and_only_as_a_distance():
    """Two equal inputs at different distances get different weights; the same pair later in time gets the same."""
    core = one_layer("trxl-i", size=8, heads=2, head_dim=4, memory=4)
    xs = normal(2, 3, 8)
    start = np.array([True, False, False])
    ys, state = unroll(core, xs, core.initial_state(), start)
    swapped, _ = unroll(core, xs[[1, 0, 2]], core.initial_state(), start)
    assert np.abs(ys[2] - swapped[2]).max() > 1e-3
    later, _ = unroll(core, xs, state, start)
    np.testing.assert_array_equal(later, ys)


def test_position_code_of_the_reference_is_the_golden_one():
    """The reference itself, on a case small enough to write down: distance 0 is all cosines, distance 1 starts with sin 1."""
    np.testing.assert_array_equal(reference.position_code(0, 4), [0, 0, 1, 1])
    np.testing.assert_allclose(reference.position_code(1, 4), [np.sin(1), np.sin(0.01), np.cos(1), np.cos(0.01)])
