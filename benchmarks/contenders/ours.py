"""Our cores, through the public calls alone. B streams, T steps, D width."""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

import gtrxl
from costs import Size
from race import Contender

TITLE = "ours"
LOOP = "ours, prepared, compiled loop"
LOOP_SPREAD = "ours, the same, a device for each core"
STEP = "ours, prepared, step by step"
PLAIN = "ours, plain, step by step"
LEARN = "ours"
LEARN_SPREAD = "ours, a device for each core"
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


class SpreadActor:
    """Streams divided among the devices of this process, as `gtrxl train` has them; each device loops over its own."""

    def __init__(self, core: gtrxl.Core, streams: int, *, loop: int):
        mesh = jax.make_mesh((jax.local_device_count(),), ("device",))
        whole, spread, later = PartitionSpec(), PartitionSpec("device"), PartitionSpec(None, "device")

        def prepare(core: gtrxl.Core, state: Any) -> Any:
            # Every leaf gets an axis of devices, so that one rule says where all of them are.
            fast = gtrxl.Streams(core, streams // mesh.size).prepare(state)
            return jax.tree.map(lambda leaf: leaf[None], fast)

        def many(core: gtrxl.Core, xs: Any, fast: Any, reset: Any) -> Any:
            mine = jax.tree.map(lambda leaf: leaf[0], fast)
            ys, mine = _many(gtrxl.Streams(core, streams // mesh.size), xs, mine, reset)
            return ys, jax.tree.map(lambda leaf: leaf[None], mine)

        def over(function: Any, inputs: Any, outputs: Any) -> Any:
            return jax.shard_map(function, mesh=mesh, in_specs=inputs, out_specs=outputs, check_vma=False)

        def put(tree: Any, where: PartitionSpec) -> Any:
            return jax.device_put(tree, NamedSharding(mesh, where))

        self.loop_work = streams * loop
        self._core = put(core, whole)
        self._xs = put(jax.random.normal(jax.random.key(2), (loop, streams, core.input_size)), later)
        self._reset = put(jnp.zeros((streams,), bool), spread)
        self._many = jax.jit(over(many, (whole, later, spread, spread), (later, spread)), donate_argnums=2)
        prepared = jax.jit(over(prepare, (whole, spread), spread))
        self._fast = prepared(self._core, put(full_state(core, streams), spread))

    def loop(self) -> None:
        """Many steps inside one compiled loop on every device."""
        ys, self._fast = self._many(self._core, self._xs, self._fast, self._reset)
        ys.block_until_ready()


def can_spread(streams: int) -> bool:
    """Whether there are devices to divide these streams among."""
    return jax.local_device_count() > 1 and streams % jax.local_device_count() == 0


_step = jax.jit(_one, donate_argnums=2)
_loop = jax.jit(_many, donate_argnums=2)


def acting(size: Size, streams: int) -> Sequence[Contender]:
    """Prepared steps in a compiled loop and from Python, plain steps, and our LSTM both ways."""
    core, lstm = core_of(size), lstm_of(size)
    fast = Actor(core, streams, loop=size.loop, prepared=True)
    plain = Actor(core, streams, loop=1, prepared=False)
    recurrent = Actor(lstm, streams, loop=size.loop, prepared=True)
    parameters, lstm_parameters = count(core), count(lstm)
    spread = SpreadActor(core, streams, loop=size.loop) if can_spread(streams) else None
    return [
        Contender(LOOP, fast.loop, fast.loop_work, parameters, same_model=True),
        *([Contender(LOOP_SPREAD, spread.loop, spread.loop_work, parameters, same_model=True)] if spread else []),
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
    """The transformer, on one device and on all of them, and our LSTM."""
    core = core_of(size)
    return [
        gradient(core, streams, steps, name=LEARN, same_model=True),
        *([gradient(core, streams, steps, name=LEARN_SPREAD, same_model=True, spread=True)] if can_spread(streams) else []),
        gradient(lstm_of(size), streams, steps, name="our LSTM 3 x 256"),
    ]


def gradient(
    core: gtrxl.Core, streams: int, steps: int, *, name: str, same_model: bool = False, spread: bool = False
) -> Contender:
    """The gradient of the mean squared output of B segments, with respect to every parameter; `spread` divides the segments
    among the devices of this process and takes the mean of their gradients."""
    xs = jax.random.normal(jax.random.key(3), (streams, steps, core.input_size))
    resets = jnp.zeros((streams, steps), bool)
    state = full_state(core, streams)

    def value_and_grad(core: gtrxl.Core, xs: Any, state: Any, resets: Any) -> Any:
        def loss(core: gtrxl.Core) -> Any:
            ys, _ = gtrxl.Streams(core, xs.shape[0]).unroll(xs, state, resets=resets)
            return jnp.mean(jnp.square(ys))

        found = jax.value_and_grad(loss)(core)
        return jax.lax.pmean(found, "device") if spread else found

    arguments = (core, xs, state, resets)
    if spread:
        mesh = jax.make_mesh((jax.local_device_count(),), ("device",))
        whole, divided = PartitionSpec(), PartitionSpec("device")
        where = (whole, divided, divided, divided)
        value_and_grad = jax.shard_map(value_and_grad, mesh=mesh, in_specs=where, out_specs=whole, check_vma=False)
        arguments = tuple(jax.device_put(each, NamedSharding(mesh, spec)) for each, spec in zip(arguments, where, strict=True))
    compiled = jax.jit(value_and_grad)
    return Contender(
        name,
        lambda: jax.block_until_ready(compiled(*arguments)),
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
