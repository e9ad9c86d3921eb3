"""The golden cases (tests/golden/README.md): a two-layer stack computed pair by pair in float64 by independent code."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import Memory
from tests.cores import reference
from tests.cores.building import WAYS, assert_close, prepared_steps_of_streams, random_core
from tests.cores.weights import with_weights, without_embedding

GOLDEN = Path(__file__).parents[1] / "golden"
TOLERANCE = 1e-4  # relative to the largest number, from the README of the golden cases


def load(name):
    with np.load(GOLDEN / f"{name}.npz") as file:
        case = dict(file)
    layers = [reference.part(case, f"layer{layer}/") for layer in range(case["memory"].shape[0])]
    return case, layers


def golden_core(name):
    case, layers = load(name)
    depth, memory, width = case["memory"].shape
    core = random_core(
        name,
        input_size=width,
        d_model=width,
        layers=depth,
        heads=int(case["heads"]),
        head_dim=layers[0]["u"].shape[1],
        mlp=layers[0]["W_1"].shape[1],
        memory=memory,
    )
    state = Memory(inputs=jnp.asarray(case["memory"], jnp.float32), filled=jnp.asarray(case["filled"], jnp.int32))
    return without_embedding(with_weights(core, layers)), state, case


def test_every_transformer_has_a_golden_case():
    assert sorted(path.stem for path in GOLDEN.glob("*.npz")) == sorted(reference.VARIANTS)


@pytest.mark.parametrize("way", [*WAYS.values(), prepared_steps_of_streams])
@pytest.mark.parametrize("name", reference.VARIANTS)
def test_core_gives_the_golden_outputs_and_memory(name, way):
    core, state, case = golden_core(name)
    assert case["memory"].max() == 1000, "the case is meant to have slots that must not be looked at"
    assert case["resets"].any()
    ys, after = way(core, case["xs"].astype(np.float32), state, case["resets"])
    assert_close(ys, case["ys"], TOLERANCE)
    kept = case["layer_inputs"][:, -core.memory :]
    assert kept.shape == after.inputs.shape
    assert_close(after.inputs, kept, TOLERANCE)
    first_of_episode = int(np.flatnonzero(case["resets"])[-1])
    assert int(after.filled) == min(len(case["xs"]) - first_of_episode, core.memory)


@pytest.mark.parametrize("name", reference.VARIANTS)
def test_reference_agrees_with_the_golden_cases(name):
    """Two independent transcriptions of the paper, both in float64: the reference may then stand in for more cases."""
    case, layers = load(name)
    ys, inputs = reference.stack(name, layers, case["xs"], case["memory"], int(case["heads"]), case["resets"], case["filled"])
    assert_close(ys, case["ys"], 1e-12)
    assert_close(inputs, case["layer_inputs"], 1e-12)
