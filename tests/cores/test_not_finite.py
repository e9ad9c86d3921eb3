"""Numbers that are not finite: they show in all that depends on them, in both forms, and in nothing else.

T steps, B streams, L layers, M memory slots. What a step depends on is said here once more, by counting.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl.cores import kernels
from gtrxl.cores.kernels.acting import NativeMemory
from gtrxl.testing import ContractViolation, check_core
from tests.cores.average import Average
from tests.cores.building import LINEAR, NAMES, TRANSFORMERS, normal, random_core, small_sizes
from tests.marks import few

STREAMS, STEPS, RESET = 2, 11, 6
LAYERS, MEMORY = 2, 3
NOT_FINITE = np.array([0x7FC00000, 0xFFC00000, 0x7FC00123, 0x7F800000, 0xFF800000], np.uint32).view(np.float32)
"""Not a number, with either sign and with other bits that say so; both infinities."""

needs_library = pytest.mark.skipif(not kernels.available(), reason="no C++ compiler on this machine")


class Form:
    """One form of the cores, and its ways to run: compiled once for each core, whatever the numbers."""

    def __init__(self, usable):
        self._usable = usable
        self.unrolled = self._compiled(unrolled)
        self.acted = self._compiled(lambda core, xs, state, resets, wish: stepped(core, xs, state, resets, prepare=True))
        self.stepped = self._compiled(lambda core, xs, state, resets, wish: stepped(core, xs, state, resets, prepare=False))
        self.ways = self.unrolled, self.acted, self.stepped

    def _compiled(self, function) -> Any:
        program = eqx.filter_jit(function)

        def run(*given):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(kernels, "usable", self._usable)
                return program(*given)

        return run


def unrolled(core, xs, state, resets, wish):
    """What an unroll gives, and the gradients of a weighted sum of it."""

    def loss(learned):
        core, xs = learned
        ys, after = gtrxl.Streams(core, STREAMS).unroll(xs, state, resets=resets)
        return jnp.sum(jnp.where(wish != 0, ys * wish, 0)), (ys, after)

    gradients, (ys, after) = eqx.filter_grad(loss, has_aux=True)((core, xs))
    return ys, after, gradients


def stepped(core, xs, state, resets, *, prepare):
    streams = gtrxl.Streams(core, STREAMS)

    def step(state, given):
        y, state = streams.step(given[0], state, reset=given[1])
        return state, y

    begin = streams.prepare(state) if prepare else state
    state, ys = jax.lax.scan(step, begin, (jnp.swapaxes(xs, 0, 1), resets.T))
    return jnp.swapaxes(ys, 0, 1), streams.plain(state), None


FORMS = {"library": Form(kernels.usable), "XLA": Form(lambda dtype: False)}

XS, ALL = jnp.asarray(normal(1, STREAMS, STEPS, 5)), jnp.ones((STREAMS, STEPS, 1))
RESETS = jnp.zeros((STREAMS, STEPS), bool).at[0, RESET].set(True)


def build(name):
    return random_core(name, **small_sizes(name, memory=MEMORY))


def used_state(form, core):
    """Of streams that have seen as much as they can remember."""
    state = gtrxl.Streams(core, STREAMS).initial_state()
    return form.unrolled(core, jnp.asarray(normal(9, STREAMS, STEPS, 5)), state, 0 * RESETS > 0, ALL)[1]


def finite(tree):
    return [bool(np.isfinite(leaf).all()) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]


def with_one(leaf, at, value):
    """The array with one number replaced, and the others bit for bit as they are."""
    changed = np.array(leaf)
    changed[at] = value
    return jnp.asarray(changed)


def cases(names, *, keep):
    """Cores and forms; those that are no transformers have one."""
    found = [(name, form) for name in names for form in FORMS if name in TRANSFORMERS or form == "XLA"]
    return pytest.mark.parametrize(("name", "form"), few(found, keep=lambda _, case: case in keep), indirect=["form"])


SOME = [("lstm", "XLA"), ("none", "XLA"), ("trxl", "library"), ("gtrxl-gru", "library"), ("gtrxl-gru", "XLA")]


@pytest.fixture
def form(request):
    if request.param == "library" and not kernels.available():
        pytest.skip("no C++ compiler on this machine")
    return FORMS[request.param]


# Weights.


@needs_library
@pytest.mark.parametrize("name", few(TRANSFORMERS, keep=lambda _, name: name == "gtrxl-gru"))
def test_a_weight_that_is_not_finite_shows_in_the_library_where_it_shows_in_xla(name):
    """One number of one array, in the first layer and in the last; no array's gradient is finite in one form alone."""
    core, ours, theirs = build(name), FORMS["library"], FORMS["XLA"]
    state, wish = used_state(ours, core), jnp.asarray(normal(4, STREAMS, STEPS, core.output_size))
    assert isinstance(jax.eval_shape(gtrxl.Streams(core, STREAMS).prepare, state), NativeMemory)
    leaves, shape = jax.tree.flatten(core)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(core)]
    found = []
    for number, leaf in enumerate(leaves):
        for place in (0, leaf.size - 1):
            for value in NOT_FINITE:
                at = np.unravel_index(place, leaf.shape)
                bad = jax.tree.unflatten(shape, [*leaves[:number], with_one(leaf, at, value), *leaves[number + 1 :]])
                ys, after, gradients = ours.unrolled(bad, XS, state, RESETS, wish)
                xla_ys, xla_after, xla_gradients = theirs.unrolled(bad, XS, state, RESETS, wish)
                acted, xla_acted = (form.acted(bad, XS, state, RESETS, wish)[0] for form in (ours, theirs))
                told = (paths[number], at, value)
                assert not (np.isnan(value) and np.isfinite(xla_ys).all()), told
                for what, mine, other in (
                    ("unroll", np.isfinite(ys), np.isfinite(xla_ys)),
                    ("steps", np.isfinite(acted), np.isfinite(xla_acted)),
                    ("memory", finite(after), finite(xla_after)),
                    ("gradients", finite(gradients), finite(xla_gradients)),
                ):
                    if not np.array_equal(mine, other):
                        found.append(f"{what}, {told}: {np.mean(mine):.2f} finite in the library, {np.mean(other):.2f} in XLA")
    assert not found, "\n".join(found)


# Steps and states.


def spoilt_by_input(name, step):
    """Which steps of an unroll depend on the input of one, with a reset at RESET."""
    reach = LAYERS * MEMORY if name in TRANSFORMERS else 0 if name == "none" else STEPS
    end = min(step + reach + 1, RESET if step < RESET else STEPS)
    return (np.arange(STEPS) >= step) & (np.arange(STEPS) < end)


def spoilt_by_state(name, layer, back):
    """Which steps depend on what a layer remembers of so many steps back. A recurrent layer remembers one, and never forgets."""
    if name not in TRANSFORMERS:
        return np.arange(STEPS) < RESET
    return np.arange(STEPS) < min(RESET, MEMORY - back + 1 + (LAYERS - 1 - layer) * MEMORY)


def bad_inputs(name, xs, state):
    """Inputs and states with something not finite in stream 0, and the steps of it that are spoilt by that."""
    for number, step in enumerate((0, 2, RESET - 1, RESET, STEPS - 1)):
        yield with_one(xs, (0, step, 1), NOT_FINITE[number]), state, spoilt_by_input(name, step)
    leaves, shape = jax.tree.flatten(state)
    for number, leaf in enumerate(leaves):
        if not eqx.is_inexact_array(leaf):
            continue
        for layer in range(LAYERS):
            for back, value in ((1, np.nan), (MEMORY, np.inf)):
                if name in LINEAR:  # layers are apart in their states
                    place = (0, *(size - 1 for size in leaf.shape[1:]))
                else:
                    place = {2: (0, layer), 3: (0, layer, 3), 4: (0, layer, MEMORY - back, 3)}[leaf.ndim]
                bad = jax.tree.unflatten(shape, [*leaves[:number], with_one(leaf, place, value), *leaves[number + 1 :]])
                yield xs, bad, spoilt_by_state(name, layer, back)


@cases(NAMES, keep=SOME)
def test_what_is_not_finite_reaches_what_depends_on_it_and_nothing_else(name, form):
    """Nothing passes a reset, the window or the borders of a stream; other outputs keep their bits, through every call."""
    core = build(name)
    state = used_state(form, core)
    clean = [np.asarray(way(core, XS, state, RESETS, ALL)[0]) for way in form.ways]
    for bad_xs, bad_state, steps in bad_inputs(name, XS, state):
        spoilt = np.zeros((STREAMS, STEPS), bool)
        spoilt[0] = steps
        for way, expected in zip(form.ways, clean, strict=True):
            given, after, _ = way(core, bad_xs, bad_state, RESETS, ALL)
            ys = np.asarray(given)
            np.testing.assert_array_equal(np.isfinite(ys).all(axis=2), ~spoilt)
            np.testing.assert_array_equal(ys[~spoilt], expected[~spoilt])
            again = np.asarray(form.unrolled(core, XS, after, RESETS, ALL)[0])
            if name != "none" and spoilt[0, -1]:
                assert not np.isfinite(again[0, 0]).any(), "what is spoilt at the end is remembered"
            assert np.isfinite(again[0, RESET:]).all()
            assert np.isfinite(again[1]).all()


@cases(NAMES, keep=SOME)
def test_gradients_of_what_follows_a_reset_are_those_without_it(name, form):
    """Bit for bit, of every weight and input, whatever is not finite before; and not finite if a spoilt step counts."""
    core = build(name)
    state, wish = used_state(form, core), jnp.asarray(normal(4, STREAMS, STEPS, core.output_size))
    behind = wish.at[0, :RESET].set(0)
    clean = jax.tree.leaves(form.unrolled(core, XS, state, RESETS, behind)[2])
    for bad_xs, bad_state, spoilt in bad_inputs(name, XS, state):
        if not spoilt[:RESET].any():
            continue
        gradients = jax.tree.leaves(form.unrolled(core, bad_xs, bad_state, RESETS, behind)[2])
        for mine, expected in zip(gradients, clean, strict=True):
            np.testing.assert_array_equal(mine, expected)
        by_core, _ = form.unrolled(core, bad_xs, bad_state, RESETS, wish)[2]
        with np.errstate(over="ignore", invalid="ignore"):
            assert not np.isfinite(sum(np.sum(np.square(leaf)) for leaf in jax.tree.leaves(by_core)))


@cases(["trxl"], keep=SOME)
def test_slots_that_hold_nothing_may_hold_anything(name, form):
    core = build(name)
    empty = gtrxl.Streams(core, STREAMS).initial_state()
    full = gtrxl.Memory(inputs=jnp.full_like(empty.inputs, np.nan), filled=empty.filled)
    for way in form.ways:
        (ys, _, gradients), (expected, _, others) = (way(core, XS, state, RESETS, ALL) for state in (full, empty))
        np.testing.assert_array_equal(ys, expected)
        jax.tree.map(np.testing.assert_array_equal, gradients, others)


@cases(["trxl"], keep=SOME)
def test_what_overflows_within_the_layers_before_a_reset_stays_there(name, form):
    """TrXL's scores are products of two inputs."""
    core = build(name)
    state = used_state(form, core)
    for size in (1e20, 1e30):
        for way in form.ways:
            expected, ys = (np.asarray(way(core, xs, state, RESETS, ALL)[0]) for xs in (XS, XS.at[0, 2].multiply(size)))
            assert not np.isfinite(ys[0, 2]).any()
            np.testing.assert_array_equal(ys[0, RESET:], expected[0, RESET:])
            np.testing.assert_array_equal(ys[1], expected[1])


def test_check_core_tries_what_is_not_finite():
    """A reset that multiplies by zero passes all that is finite, and no more."""

    class Multiplies(Average):
        def step(self, x, state, *, reset):
            return self._next(x, jnp.where(reset, 0.0, 1.0) * jax.lax.stop_gradient(state.mean))

    with pytest.raises(ContractViolation, match="put what is not finite into the inputs and the state before a reset") as caught:
        check_core(Multiplies(jnp.asarray(0.8), 3))
    assert caught.value.broken == ("nothing leaks past a reset",)
