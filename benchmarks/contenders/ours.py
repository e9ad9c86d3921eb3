"""Our cores, through the public calls alone. B streams, T steps, D width."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

import gtrxl
from costs import Size
from race import Contender

TITLE = "ours"
LOOP = "ours, prepared, compiled loop"
STEP = "ours, prepared, step by step"
PLAIN = "ours, plain, step by step"
LEARN = "ours"
LSTM_LAYERS, LSTM_WIDTH = 3, 256


def core_of(size: Size) -> gtrxl.Core:
    """GTrXL-GRU with random weights."""
    return gtrxl.make_core(
        "gtrxl-gru",
        input_size=size.d_model,
        d_model=size.d_model,
        layers=size.layers,
        heads=size.heads,
        head_dim=size.head_dim,
        mlp=size.mlp,
        memory=size.memory,
        key=jax.random.key(0),
    )


def lstm_of(size: Size) -> gtrxl.Core:
    """The reference line: an LSTM of the paper's 3 x 256."""
    return gtrxl.make_core("lstm", input_size=size.d_model, d_model=LSTM_WIDTH, layers=LSTM_LAYERS, key=jax.random.key(0))


def count(core: gtrxl.Core) -> int:
    """Parameters."""
    return sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(core, eqx.is_array)))


def full_state(core: gtrxl.Core, streams: int) -> Any:
    """States of streams that have run for long: a full memory of noise; for recurrent cores, zeros."""
    state = gtrxl.Streams(core, streams).initial_state()
    if not isinstance(state, gtrxl.Memory):
        return jax.tree.map(jnp.copy, state)
    inputs = jax.random.normal(jax.random.key(1), state.inputs.shape, state.inputs.dtype)
    return gtrxl.Memory(inputs=inputs, filled=jnp.full_like(state.filled, state.inputs.shape[2]))


class Actor:
    """Streams and their state, which every call gives up and gets back (donated, so that it is updated in place)."""

    def __init__(self, core: gtrxl.Core, streams: int, *, loop: int, prepared: bool):
        self.streams = gtrxl.Streams(core, streams)
        self.work = streams
        self.loop_work = streams * loop
        self.x = jax.random.normal(jax.random.key(2), (streams, core.input_size))
        self.xs = jnp.broadcast_to(self.x, (loop, *self.x.shape)) + 0.0
        self.reset = jnp.zeros((streams,), bool)
        state = full_state(core, streams)
        if prepared:
            # A jitted function may hand an argument through as its result; donating that would take the weights along.
            state = jax.tree.map(jnp.copy, jax.jit(lambda streams, state: streams.prepare(state))(self.streams, state))
        self.state = state

    def step(self) -> None:
        """One step, called from Python, which waits for the output as an actor must."""
        y, self.state = _step(self.streams, self.x, self.state, self.reset)
        y.block_until_ready()

    def loop(self) -> None:
        """Many steps inside one compiled loop."""
        ys, self.state = _loop(self.streams, self.xs, self.state, self.reset)
        ys.block_until_ready()


def _one(streams: gtrxl.Streams, x: Any, state: Any, reset: Any) -> tuple[Any, Any]:
    return streams.step(x, state, reset=reset)


def _many(streams: gtrxl.Streams, xs: Any, state: Any, reset: Any) -> tuple[Any, Any]:
    def body(state: Any, x: Any) -> tuple[Any, Any]:
        y, state = streams.step(x, state, reset=reset)
        return state, y

    state, ys = jax.lax.scan(body, state, xs)
    return ys, state


_step = jax.jit(_one, donate_argnums=2)
_loop = jax.jit(_many, donate_argnums=2)


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """Prepared steps in a compiled loop and from Python, plain steps, and our LSTM both ways."""
    core, lstm = core_of(size), lstm_of(size)
    fast = Actor(core, streams, loop=size.loop, prepared=True)
    plain = Actor(core, streams, loop=1, prepared=False)
    recurrent = Actor(lstm, streams, loop=size.loop, prepared=True)
    parameters, lstm_parameters = count(core), count(lstm)
    return [
        Contender(LOOP, fast.loop, fast.loop_work, parameters, same_model=True),
        Contender(STEP, fast.step, fast.work, parameters, same_model=True),
        Contender(PLAIN, plain.step, plain.work, parameters, same_model=True),
        Contender("our LSTM 3 x 256, compiled loop", recurrent.loop, recurrent.loop_work, lstm_parameters),
        Contender("our LSTM 3 x 256, step by step", recurrent.step, recurrent.work, lstm_parameters),
    ]


def loop_alone(size: Size, streams: int, *, name: str) -> Contender:
    """Prepared steps in a compiled loop, and nothing else."""
    actor = Actor(core_of(size), streams, loop=size.loop, prepared=True)
    return Contender(name, actor.loop, actor.loop_work)


def learning(size: Size, streams: int, steps: int) -> Sequence[Contender]:
    """The transformer and our LSTM."""
    return [
        gradient(core_of(size), streams, steps, name=LEARN, same_model=True),
        gradient(lstm_of(size), streams, steps, name="our LSTM 3 x 256"),
    ]


def gradient(core: gtrxl.Core, streams: int, steps: int, *, name: str, same_model: bool = False) -> Contender:
    """The gradient of the mean squared output of B segments, with respect to every parameter."""
    xs = jax.random.normal(jax.random.key(3), (streams, steps, core.input_size))
    resets = jnp.zeros((streams, steps), bool)
    state = full_state(core, streams)

    @jax.jit
    def value_and_grad(core: gtrxl.Core, xs: Any, state: Any, resets: Any) -> Any:
        def loss(core: gtrxl.Core) -> Any:
            ys, _ = gtrxl.Streams(core, streams).unroll(xs, state, resets=resets)
            return jnp.mean(jnp.square(ys))

        return jax.value_and_grad(loss)(core)

    return Contender(
        name,
        lambda: jax.block_until_ready(value_and_grad(core, xs, state, resets)),
        work=streams * steps,
        parameters=count(core),
        same_model=same_model,
    )


def state_bytes(size: Size) -> tuple[int, int]:
    """What one more stream's state takes: plain, and prepared (shared position keys and weights not counted)."""
    core = core_of(size)

    def total(streams: int, *, prepared: bool) -> int:
        many = gtrxl.Streams(core, streams)
        state = jax.eval_shape(many.initial_state)
        if prepared:
            state = jax.eval_shape(many.prepare, state)
        return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))

    return total(2, prepared=False) - total(1, prepared=False), total(2, prepared=True) - total(1, prepared=True)
