"""The gates: the paper's five formulas, the identity they become, and how near to it they start."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import CoreError, Memory, Streams, Transformer
from gtrxl.cores.gates import GATES, Gate, bias_by_depth, find_gate
from gtrxl.cores.layers import along_last
from gtrxl.testing import check_core
from tests.cores import reference
from tests.cores.building import assert_close, initial_core, normal, unroll
from tests.cores.weights import gate_weights

WITH_BIAS = ("output", "highway", "sigtanh", "gru")
PAPER_BIAS = {"output": 1.0, "highway": 1.0, "sigtanh": 1.0, "gru": 2.0}  # the paper, "Gated Identity Initialization"


@eqx.filter_jit
def apply(gate, skip, update):
    return gate(skip=skip, update=update)


def random_gate(kind, *, bias=None):
    """Random matrices; a random bias too unless one is given."""
    gate = eqx.filter_eval_shape(lambda key: GATES[kind](6, bias=bias, key=key), jax.random.key(0))
    gate = jax.tree.map(lambda leaf: jnp.asarray(0.4 * normal(1, *leaf.shape)), gate)
    return gate if bias is None else eqx.tree_at(lambda of: of.b_g, gate, jnp.full(6, bias))


@pytest.mark.parametrize("kind", ["none", "input", *WITH_BIAS])
def test_formula(kind):
    gate, skip, update = random_gate(kind), normal(2, 5, 6), normal(3, 5, 6)
    expected = [reference.gate(kind, gate_weights(gate), x, y) for x, y in zip(skip, update, strict=True)]
    assert_close(apply(gate, skip, update), expected, 2e-6)
    assert_close(apply(gate, skip[0], update[0]), expected[0], 2e-6)


@pytest.mark.parametrize("kind", WITH_BIAS)
def test_is_the_identity_on_the_stream_as_the_bias_grows(kind):
    skip, update = normal(2, 5, 6), normal(3, 5, 6)
    off = []
    for bias in (0.0, 2.0, 4.0, 8.0, 1e4):
        off.append(float(np.abs(apply(random_gate(kind, bias=bias), skip, update) - skip).max()))
    assert off == sorted(off, reverse=True), off
    assert off[0] > 0.1
    assert off[-1] == 0.0, "with the bias at 1e4 the stream must come through bit for bit"


@pytest.mark.parametrize(("kind", "bias"), PAPER_BIAS.items())
def test_bias_starts_as_in_the_paper(kind, bias):
    sizes = {"input_size": 3, "d_model": 6, "heads": 2, "layers": 2, "memory": 2}
    for core, expected in (
        (initial_core(f"gtrxl-{kind}", **sizes), bias),
        (initial_core(f"gtrxl-{kind}", **sizes, gate_bias=0.5), 0.5),
    ):
        np.testing.assert_array_equal(core.blocks.gate_1.b_g, np.full((2, 6), expected))
        np.testing.assert_array_equal(core.blocks.gate_2.b_g, np.full((2, 6), expected))


@pytest.mark.parametrize(("kind", "bias"), PAPER_BIAS.items())
def test_by_depth_as_much_of_the_stream_passes_any_stack_as_passes_four_layers(kind, bias):
    def passes(bias, layers):
        return (1 / (1 + np.exp(-np.float64(bias)))) ** (2 * layers)

    for layers in (4, 5, 12, 24, 52, 1000):
        found = bias_by_depth(GATES[kind], layers)
        np.testing.assert_allclose(passes(found, layers), passes(bias, 4), rtol=1e-9)
    assert [bias_by_depth(GATES[kind], layers) for layers in (1, 2, 3)] == [bias] * 3, "never less than the paper's"
    sizes = {"input_size": 3, "d_model": 6, "heads": 2, "memory": 2}
    core = initial_core(f"gtrxl-{kind}", **sizes, layers=9, gate_bias="depth")
    np.testing.assert_allclose(core.blocks.gate_2.b_g, np.full((9, 6), bias_by_depth(GATES[kind], 9)), rtol=1e-6)


def test_by_depth_a_gate_without_a_bias_is_as_it_was():
    assert bias_by_depth(GATES["input"], 52) is bias_by_depth(GATES["none"], 52) is None
    with pytest.raises(CoreError, match="gate_bias must be a number, 'depth' or None, got 'deep'"):
        initial_core("gtrxl-gru", input_size=3, d_model=6, heads=2, layers=2, memory=2, gate_bias="deep")


def block_deviation(name, width, *, bias) -> float:
    """||E^(1) - E^(0)|| / ||E^(0)|| of one block at its initial weights, over a full memory of unit normal inputs.

    A bias replaces the initial one in both gates.
    """
    core = initial_core(name, input_size=width, d_model=width, layers=1, heads=width // 32, memory=8)
    core = eqx.tree_at(lambda of: (of.embed.weight, of.embed.bias), core, (jnp.eye(width), jnp.zeros(width)))
    if bias is not None:
        biases = jnp.full((1, width), bias)
        core = eqx.tree_at(lambda of: (of.blocks.gate_1.b_g, of.blocks.gate_2.b_g), core, (biases, biases))
    xs, remembered = normal(5, 8, width), normal(6, 1, 8, width)
    state = Memory(inputs=jnp.asarray(remembered), filled=jnp.asarray(8, jnp.int32))
    ys, _ = unroll(core, xs, state, np.zeros(8, bool))
    return float(np.linalg.norm(ys - xs) / np.linalg.norm(xs))


CLOSENESS = {"gtrxl-output": 0.07, "gtrxl-highway": 0.52, "gtrxl-sigtanh": 0.035, "gtrxl-gru": 0.3}
"""Upper bounds on the deviation at the paper's bias, a little above the measured: `pytest -n0 -rP -k close_to` prints those."""


@pytest.mark.parametrize("width", [64, 512])
@pytest.mark.parametrize("name", CLOSENESS)
def test_block_starts_close_to_the_identity(name, width, record_property):
    off, unbiased = block_deviation(name, width, bias=None), block_deviation(name, width, bias=0.0)
    record_property("relative_deviation", off)
    print(f"{name} width {width}: ||block(x) - x|| / ||x|| = {off:.4f} at the paper's bias, {unbiased:.4f} at bias 0")
    assert off < CLOSENESS[name]
    assert off < 0.75 * unbiased, "the bias must bring the block nearer to the identity"
    assert block_deviation(name, width, bias=1e4) == 0.0


class LeakyGate(Gate):
    """A stranger's: x + tanh(a) y, with one number for each place."""

    amount: jax.Array

    def __init__(self, d_model, *, bias, key):
        self.amount = jax.random.normal(key, (d_model,))

    def __call__(self, *, skip, update):
        return skip + self.opening(skip=skip, update=update) * update

    def opening(self, *, skip, update):
        return along_last(jnp.tanh(self.amount), skip) * jnp.ones_like(skip)


@pytest.mark.slow
@pytest.mark.parametrize("gate", [LeakyGate, f"{__name__}:LeakyGate"])
def test_a_gate_of_one_s_own(gate):
    """By its class or its place; computed as it is written, whatever machine this is."""
    core = Transformer(5, d_model=8, layers=2, heads=2, memory=3, gate=gate, key=jax.random.key(0))
    first, second = core.blocks.gate_1, core.blocks.gate_2
    assert isinstance(first, LeakyGate)
    assert isinstance(second, LeakyGate)
    assert check_core(core).broken == ()
    streams = Streams(core, 2)
    ys, _ = streams.unroll(jnp.ones((2, 4, 5)), streams.initial_state(), resets=jnp.zeros((2, 4), bool))
    alone, _ = unroll(core, jnp.ones((4, 5)), core.initial_state(), jnp.zeros(4, bool))
    assert_close(ys[1], alone, 1e-5)
    opened = core.openness(jnp.ones((2, 4, 5)), streams.initial_state(), jnp.zeros((2, 4), bool))
    expected = jnp.tanh(jnp.stack([first.amount, second.amount], axis=1)).mean(axis=-1)
    assert_close(opened, expected, 1e-5)


@pytest.mark.parametrize(
    ("gate", "part"),
    [
        ("gur", "got 'gur'; did you mean gru?"),
        (Memory, "a class built on gtrxl.cores.gates.Gate, got"),
        (f"{__name__}:NoGate", "there is no NoGate in"),
    ],
)
def test_what_is_no_gate_is_told_in_one_line(gate, part):
    with pytest.raises(CoreError) as caught:
        find_gate(gate)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)
