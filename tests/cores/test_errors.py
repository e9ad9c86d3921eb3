"""Bad sizes, inputs and names: one line that has the rule, the value and the remedy."""

import jax
import jax.numpy as jnp
import pytest

from gtrxl import CoreError, Streams, make_core, paper_core
from tests.cores.building import NAMES, TRANSFORMERS, random_core, small_sizes

KEY = jax.random.key(0)

BAD_SIZES = {
    "heads that do not divide": (
        "gtrxl-gru",
        {"d_model": 10, "heads": 3},
        ["heads must divide d_model", "3 heads for 10", "give head_dim"],
    ),
    "no layers": ("gtrxl-gru", {"layers": 0}, ["layers must be at least 1", "got 0", "the paper uses 12"]),
    "no layers, lstm": ("lstm", {"layers": 0}, ["layers must be at least 1", "got 0", "the paper's LSTM has 3"]),
    "no layers, none": ("none", {"layers": 0}, ["layers must be at least 1", "got 0", "one layer is the least"]),
    "negative memory": ("trxl", {"memory": -1}, ["memory must be at least 0", "got -1", "0 lets each step see itself alone"]),
    "odd width": ("trxl-i", {"d_model": 9, "heads": 3}, ["d_model must be even", "got 9", "half cosines"]),
    "no heads": ("trxl", {"heads": 0}, ["heads must be at least 1", "got 0", "the paper uses 8"]),
    "no head width": ("trxl", {"head_dim": 0}, ["head_dim must be at least 1", "got 0", "the paper uses 64"]),
    "no mlp": ("trxl", {"mlp": 0}, ["mlp must be at least 1", "got 0", "the paper uses 512"]),
    "no width": ("gru", {"d_model": 0}, ["d_model must be at least 1", "got 0"]),
    "weights of no size": ("trxl", {"init_variance": 0.0}, ["init_variance must be positive and finite", "got 0.0", "1 keeps"]),
    "weights without end": (
        "gtrxl-gru",
        {"init_variance": float("nan")},
        ["init_variance must be positive and finite", "got nan"],
    ),
    "unknown dtype": (
        "lstm",
        {"dtype": "float16"},
        ["dtype must be one of float32, bfloat16", "'float16'", "parameters stay float32"],
    ),
    "unknown argument": ("lstm", {"memory": 4}, ["lstm takes no 'memory'", "it takes d_model, layers, skip, dtype"]),
    "fixed by the name": (
        "gtrxl-gru",
        {"gate": "input"},
        ["gate is what the name 'gtrxl-gru' fixes", "leave it out", "Transformer"],
    ),
    "no input": ("lstm", {"input_size": 0}, ["input_size must be at least 1", "got 0", "width of one step's input"]),
}


def assert_one_clear_line(caught, parts):
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert part in message, message


@pytest.mark.parametrize("case", BAD_SIZES)
def test_bad_size(case):
    name, sizes, parts = BAD_SIZES[case]
    with pytest.raises(CoreError) as caught:
        make_core(name, **{"input_size": 5, **sizes}, key=KEY)
    assert_one_clear_line(caught, parts)


def test_unknown_names_list_the_known():
    with pytest.raises(CoreError) as caught:
        make_core("gtrxl", input_size=5, key=KEY)
    assert_one_clear_line(caught, ["there is no core 'gtrxl'", *NAMES])
    with pytest.raises(CoreError) as caught:
        paper_core("none")
    assert_one_clear_line(caught, ["the paper has no core 'none'", "gtrxl-thin", "lstm", *TRANSFORMERS])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("call", "x", "reset", "parts"),
    [
        ("step", (4,), jnp.array(False), ["x must have shape [5]", "got [4]"]),
        ("step", (2, 5), jnp.array(False), ["x must have shape [5]", "got [2, 5]", "jax.vmap(core.step)", "core.unroll"]),
        ("step", (5,), jnp.zeros(1, bool), ["reset must be one bool", "got shape [1]"]),
        ("step", (5,), jnp.array(0), ["reset must be bool", "got int32", "reset.astype(bool)"]),
        ("unroll", (3, 4), jnp.zeros(3, bool), ["xs must have shape [T, 5]", "got [3, 4]"]),
        ("unroll", (2, 3, 5), jnp.zeros(3, bool), ["xs must have shape [T, 5]", "got [2, 3, 5]", "jax.vmap(core.unroll)"]),
        ("unroll", (0, 5), jnp.zeros(0, bool), ["at least one step", "T = 0", "leave the call out"]),
        ("unroll", (3, 5), jnp.zeros(2, bool), ["resets must have shape [3]", "one bool for each step", "got [2]"]),
        ("unroll", (3, 5), jnp.zeros((), bool), ["resets must have shape [3]", "got []"]),
        ("unroll", (3, 5), jnp.zeros(3), ["resets must be bool", "got float32", "resets.astype(bool)"]),
    ],
)
def test_bad_input(name, call, x, reset, parts):
    core = random_core(name, **small_sizes(name))
    flag = {"step": "reset", "unroll": "resets"}[call]
    with pytest.raises(CoreError) as caught:
        getattr(core, call)(jnp.zeros(x), core.initial_state(), **{flag: reset})
    assert_one_clear_line(caught, parts)


def test_streams_of_the_wrong_number():
    core = random_core("lstm", **small_sizes("lstm"))
    with pytest.raises(CoreError) as caught:
        Streams(core, 0)
    assert_one_clear_line(caught, ["size must be at least 1", "got 0", "number of streams"])
    streams = Streams(core, 3)
    with pytest.raises(CoreError) as caught:
        streams.step(jnp.zeros((2, 5)), streams.initial_state(), reset=jnp.zeros(2, bool))
    assert_one_clear_line(caught, ["x must have 3 streams along its first axis", "got shape [2, 5]"])
