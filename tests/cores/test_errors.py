"""Bad sizes, inputs and names: one line that has the rule, the value and the remedy."""

import inspect

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest

from gtrxl import CoreError, Streams, make_core, paper_core
from gtrxl.cores import kernels
from tests.cores.average import Average
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
        make_core("gtrlx-gru", input_size=5, key=KEY)
    assert_one_clear_line(caught, ["there is no core 'gtrlx-gru'; did you mean gtrxl-gru? the cores are ", *NAMES])
    with pytest.raises(CoreError) as caught:
        make_core("lstm", input_size=5, key=KEY, dtyp="float32")
    assert_one_clear_line(caught, ["lstm takes no 'dtyp'", "it takes d_model, layers, skip, dtype"])
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


@pytest.mark.parametrize("name", ["gtrxl-gru", "lstm", "none"])
@pytest.mark.parametrize(
    ("call", "shape", "reset", "parts"),
    [
        ("step", (3, 4), (3,), ["x must have shape [3, 5] (one step of 3 streams)", "got [3, 4]"]),
        ("step", (3, 2, 5), (3,), ["x must have shape [3, 5]", "got [3, 2, 5]", "for many steps use Streams.unroll"]),
        ("step", (3, 5), (3, 1), ["reset must be one bool for each of 3 streams", "got shape [3, 1]"]),
        ("unroll", (3, 5), (3,), ["xs must have shape [3, T, 5] (T steps of 3 streams)", "got [3, 5]"]),
        ("unroll", (3, 2, 5), (3, 4), ["resets must have shape [3, 2]", "got [3, 4]"]),
        ("unroll", (3, 0, 5), (3, 0), ["at least one step", "T = 0"]),
    ],
)
def test_bad_input_of_streams(name, call, shape, reset, parts):
    """As users call it: without the suite's own checks of shapes."""
    streams = Streams(random_core(name, **small_sizes(name)), 3)
    flag = {"step": "reset", "unroll": "resets"}[call]
    with pytest.raises(CoreError) as caught:
        inspect.unwrap(getattr(Streams, call))(
            streams, jnp.zeros(shape), streams.initial_state(), **{flag: jnp.zeros(reset, bool)}
        )
    assert_one_clear_line(caught, parts)


GRU = ("gtrxl-gru", {"input_size": 5, "d_model": 8, "layers": 2, "heads": 2, "memory": 4})
BEGIN = "begin with core.initial_state()"


def core_of(name, sizes, **changes):
    return random_core(name, **{**sizes, **changes})


STRANGE_STATES = {
    "another kind of core's": (
        lambda core: core_of("lstm", small_sizes("lstm")).initial_state(),
        ["state must be Memory", "got LSTMState", BEGIN],
    ),
    "another memory's": (
        lambda core: core_of(*GRU, memory=6).initial_state(),
        ["state.inputs must be float32[2, 4, 8], got float32[2, 6, 8]", BEGIN],
    ),
    "another dtype's": (
        lambda core: core_of(*GRU, dtype="bfloat16").initial_state(),
        ["state.inputs must be float32[2, 4, 8], got bfloat16[2, 4, 8]", "the type that its core computes in", BEGIN],
    ),
    "many streams'": (
        lambda core: Streams(core, 3).initial_state(),
        ["state.inputs must be float32[2, 4, 8], got float32[3, 2, 4, 8]", "use jax.vmap or gtrxl.Streams"],
    ),
    "prepared by other heads": (
        lambda core: core_of(*GRU, heads=4).prepare(core.initial_state()),
        ["state.keys[0] must be float32[2, 5, 4], got float32[4, 5, 2]", BEGIN],
    ),
    "prepared by other layers": (
        lambda core: core_of(*GRU, layers=3).prepare(core_of(*GRU, layers=3).initial_state()),
        ["state must be Memory, plain or prepared by this core, got PreparedMemory", BEGIN],
    ),
    "nothing": (lambda core: None, ["state must be Memory", "got NoneType", BEGIN]),
}


@pytest.mark.parametrize("case", STRANGE_STATES)
def test_a_state_that_is_not_the_core_s(case):
    make, parts = STRANGE_STATES[case]
    core = core_of(*GRU)
    state = make(core)
    for call in (
        lambda: core.step(jnp.zeros(5), state, reset=False),
        lambda: core.unroll(jnp.zeros((3, 5)), state, resets=jnp.zeros(3, bool)),
        lambda: eqx.filter_jit(core.step)(jnp.zeros(5), state, reset=jnp.array(False)),
    ):
        with pytest.raises(CoreError) as caught:
            call()
        assert_one_clear_line(caught, parts)


STRANGE_STATES_OF_STREAMS = {
    "other streams'": (
        lambda core: Streams(core, 2).initial_state(),
        ["state.inputs must be float32[3, 2, 4, 8], got float32[2, 2, 4, 8]", "carry the 3 streams in front", "Streams(core, 3)"],
    ),
    "one stream's": (lambda core: core.initial_state(), ["state.inputs must be float32[3, 2, 4, 8], got float32[2, 4, 8]"]),
    "prepared for one stream": (lambda core: core.prepare(core.initial_state()), ["state must be Memory", "got PreparedMemory"]),
    "another core's": (
        lambda core: Streams(core_of("lstm", small_sizes("lstm")), 3).initial_state(),
        ["state must be Memory, plain or prepared by this core, got LSTMState"],
    ),
    "prepared with another memory": (
        lambda core: Streams(core_of(*GRU, memory=6), 3).prepare(Streams(core_of(*GRU, memory=6), 3).initial_state()),
        ["must be float32[", "got float32["],
    ),
}


@pytest.mark.parametrize("case", STRANGE_STATES_OF_STREAMS)
def test_a_state_that_is_not_the_streams_own(case):
    make, parts = STRANGE_STATES_OF_STREAMS[case]
    core = core_of(*GRU)
    streams, state = Streams(core, 3), make(core)
    for call in (
        lambda: streams.step(jnp.zeros((3, 5)), state, reset=jnp.zeros(3, bool)),
        lambda: streams.unroll(jnp.zeros((3, 2, 5)), state, resets=jnp.zeros((3, 2), bool)),
        lambda: streams.prepare(state),
        lambda: streams.plain(state),
    ):
        with pytest.raises(CoreError) as caught:
            call()
        assert_one_clear_line(caught, parts)


def test_a_stranger_s_core_has_its_state_checked_in_streams():
    streams = Streams(Average(jnp.asarray(0.8), 3), 2)
    wrong = Streams(Average(jnp.asarray(0.8), 4), 2).initial_state()
    with pytest.raises(CoreError) as caught:
        streams.step(jnp.zeros((2, 3)), wrong, reset=jnp.zeros(2, bool))
    assert_one_clear_line(caught, ["state.mean must be float32[2, 3], got float32[2, 4]", "begin with Streams(core, 2)"])


@pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")
def test_a_prepared_step_in_the_native_library_is_not_differentiated():
    streams = Streams(core_of(*GRU), 2)
    fast, reset = streams.prepare(streams.initial_state()), jnp.zeros(2, bool)
    with pytest.raises(CoreError) as caught:
        jax.grad(lambda x: jnp.sum(streams.step(x, fast, reset=reset)[0]))(jnp.zeros((2, 5)))
    assert_one_clear_line(caught, ["a prepared step has no derivative in the native library", "differentiate unroll"])
    jax.grad(lambda x: jnp.sum(x) + jnp.sum(streams.step(jax.lax.stop_gradient(x), fast, reset=reset)[0]))(jnp.zeros((2, 5)))
