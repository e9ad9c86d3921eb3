"""Delayed recall: which cores still know, many steps later, what they were shown.

B streams, T steps of an unroll, S symbols, D_in = S + 2 input width.

A stream shows one coloured symbol per step. In every episode one of them is marked; `delay` steps later comes a query,
and the answer is the marked symbol. The other symbols are noise, and the query itself shows none. Episodes end with
their query and the next begins at once, so streams reset at different times. Training unrolls are shorter than most
delays: the answer must cross from one unroll to the next in the core's state.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from gtrxl.cores import CORES, Core, CoreError, State, make_core
from gtrxl.cores.layers import Linear

SYMBOLS = 8
INPUT_SIZE = SYMBOLS + 2
LONGEST_WAIT = 7
"""An episode shows up to this many symbols before the marked one."""


@dataclasses.dataclass(frozen=True)
class RecallExperiment:
    """The settings of one comparison; the same for every core."""

    cores: tuple[str, ...] = ("gtrxl-gru", "lstm", "none")
    seeds: tuple[int, ...] = (0,)
    updates: int = 800
    streams: int = 32
    unroll: int = 16
    longest_delay: int = 48
    memory: int = 64
    learning_rate: float = 4e-3
    test_delays: tuple[int, ...] = (1, 2, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 80, 96)
    test_episodes: int = 128
    stream_steps: int = 96

    def __post_init__(self):
        for name in ("updates", "streams", "unroll", "longest_delay", "test_episodes", "stream_steps"):
            value = getattr(self, name)
            if value < 1:
                raise CoreError(f"{name} must be at least 1, got {value}; the default is {getattr(RecallExperiment, name)}")
        for name in ("cores", "seeds", "test_delays"):
            if not getattr(self, name):
                default = " ".join(map(str, getattr(RecallExperiment, name)))
                raise CoreError(f"{name} must name at least one, got none; the default is {default}")
        if min(self.test_delays) < 1:
            raise CoreError(f"test_delays must be at least 1, got {min(self.test_delays)}; the query comes after the symbol")
        for core in self.cores:
            if core not in CORES:
                raise CoreError(f"there is no core {core!r}; the cores are {', '.join(CORES)}")


# The task


class RecallEpisode(eqx.Module):
    """Where a stream stands: steps since its episode began, and what the episode holds."""

    clock: Int[Array, "*n"]
    wait: Int[Array, "*n"]
    delay: Int[Array, "*n"]
    symbol: Int[Array, "*n"]


class Shown(eqx.Module):
    """What a stream shows: the input, whether it starts an episode, and the target, which counts where `asked`."""

    x: Float[Array, "*n D_in"]
    reset: Bool[Array, "*n"]
    asked: Bool[Array, "*n"]
    target: Int[Array, "*n"]


def draw_episodes(key: PRNGKeyArray, shape: tuple[int, ...], *, longest_delay: int) -> RecallEpisode:
    """Episodes at their first step, with moment, delay and symbol drawn."""
    wait_key, delay_key, symbol_key = jax.random.split(key, 3)
    return RecallEpisode(
        clock=jnp.zeros(shape, jnp.int32),
        wait=jax.random.randint(wait_key, shape, 0, LONGEST_WAIT + 1),
        delay=jax.random.randint(delay_key, shape, 1, longest_delay + 1),
        symbol=jax.random.randint(symbol_key, shape, 0, SYMBOLS),
    )


def advance(episode: RecallEpisode, *, noise: Int[Array, ""], following: RecallEpisode) -> tuple[RecallEpisode, Shown]:
    """One step of one stream. `noise` is the symbol shown when it means nothing; after the query comes `following`."""
    marked, asked = episode.clock == episode.wait, episode.clock == episode.wait + episode.delay
    symbol = jnp.where(marked, episode.symbol, noise)
    picture = jnp.where(asked, 0.0, jax.nn.one_hot(symbol, SYMBOLS))
    shown = Shown(x=_input(picture, marked, asked), reset=episode.clock == 0, asked=asked, target=episode.symbol)
    later = dataclasses.replace(episode, clock=episode.clock + 1)
    return jax.tree.map(lambda new, old: jnp.where(asked, new, old), following, later), shown


def segment(episodes: RecallEpisode, key: PRNGKeyArray, *, steps: int, longest_delay: int) -> tuple[RecallEpisode, Shown]:
    """The next `steps` steps of B streams: `[B, T]`, and where the streams stand afterwards."""
    noise_key, following_key = jax.random.split(key)
    shape = (episodes.clock.shape[0], steps)
    noise = jax.random.randint(noise_key, shape, 0, SYMBOLS)
    following = draw_episodes(following_key, shape, longest_delay=longest_delay)

    def stream(episode: RecallEpisode, noise: Array, following: RecallEpisode) -> tuple[RecallEpisode, Shown]:
        def one(episode: RecallEpisode, of: tuple[Array, RecallEpisode]) -> tuple[RecallEpisode, Shown]:
            return advance(episode, noise=of[0], following=of[1])

        return jax.lax.scan(one, episode, (noise, following))

    return jax.vmap(stream)(episodes, noise, following)


def _input(picture: Array, marked: Array, asked: Array) -> Float[Array, " D_in"]:
    return jnp.concatenate([picture, jnp.stack([marked, asked]).astype(jnp.float32)])


# The network and its training


class Network(eqx.Module):
    """A core and a linear answer."""

    core: Core
    answer: Linear

    def unroll(self, shown: Shown, state: State) -> tuple[Float[Array, "T S"], State]:
        """T steps of one stream -> logits of the answer at each."""
        ys, state = self.core.unroll(shown.x, state, resets=shown.reset)
        return self.answer(ys), state


class RecallTraining(eqx.Module):
    """Everything that changes while training, as one pytree."""

    network: Network
    moments: optax.OptState
    episodes: RecallEpisode
    state: State
    key: PRNGKeyArray


def make_network(name: str, settings: RecallExperiment, *, key: PRNGKeyArray) -> Network:
    """A small core and its answer: transformers of 2 layers x 64; the others with as many parameters as the GTrXL (GRU)."""
    core_key, answer_key = jax.random.split(key)
    others: dict[str, dict[str, Any]] = {"lstm": {"d_model": 192}, "gru": {"d_model": 224}, "none": {"d_model": 384, "layers": 2}}
    sizes = others.get(name, {"d_model": 64, "layers": 2, "heads": 4, "memory": settings.memory})
    core = make_core(name, input_size=INPUT_SIZE, key=core_key, **sizes)
    return Network(core=core, answer=Linear(core.output_size, SYMBOLS, key=answer_key))


@eqx.filter_jit
def start(name: str, settings: RecallExperiment, key: PRNGKeyArray) -> RecallTraining:
    """Untrained, with B streams at the start of their first episodes."""
    network_key, episode_key, key = jax.random.split(key, 3)
    network = make_network(name, settings, key=network_key)
    return RecallTraining(
        network=network,
        moments=_optimiser(settings).init(eqx.filter(network, eqx.is_array)),
        episodes=draw_episodes(episode_key, (settings.streams,), longest_delay=settings.longest_delay),
        state=_states(network, settings.streams),
        key=key,
    )


@eqx.filter_jit
def train(training: RecallTraining, settings: RecallExperiment, updates: int) -> tuple[RecallTraining, Float[Array, ""]]:
    """`updates` updates in one compiled loop, and the share of right answers on the way."""
    arrays, rest = eqx.partition(training, eqx.is_array)

    def one(arrays: Any, _: None) -> tuple[Any, tuple[Array, Array]]:
        training, right, asked = _update(eqx.combine(arrays, rest), settings)
        return eqx.filter(training, eqx.is_array), (right, asked)

    arrays, (right, asked) = jax.lax.scan(one, arrays, None, length=updates)
    return eqx.combine(arrays, rest), jnp.sum(right) / jnp.maximum(jnp.sum(asked), 1)


def _update(training: RecallTraining, settings: RecallExperiment) -> tuple[RecallTraining, Array, Array]:
    """One unroll of every stream, one step of Adam on the answers that were asked for. Counts right and asked."""
    key, segment_key = jax.random.split(training.key)
    episodes, shown = segment(training.episodes, segment_key, steps=settings.unroll, longest_delay=settings.longest_delay)
    asked = jnp.sum(shown.asked)

    def loss(network: Network) -> tuple[Array, tuple[Array, State]]:
        logits, state = jax.vmap(network.unroll)(shown, training.state)
        surprise = optax.softmax_cross_entropy_with_integer_labels(logits, shown.target)
        right = jnp.sum((jnp.argmax(logits, axis=-1) == shown.target) & shown.asked)
        return jnp.sum(jnp.where(shown.asked, surprise, 0.0)) / jnp.maximum(asked, 1), (right, state)

    gradient, (right, state) = eqx.filter_grad(loss, has_aux=True)(training.network)
    steps, moments = _optimiser(settings).update(gradient, training.moments)
    network = eqx.apply_updates(training.network, steps)
    return RecallTraining(network=network, moments=moments, episodes=episodes, state=state, key=key), right, asked


def _states(network: Network, streams: int) -> State:
    return jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (streams, *leaf.shape)), network.core.initial_state())


def _optimiser(settings: RecallExperiment) -> optax.GradientTransformation:
    return optax.adam(settings.learning_rate)


# What it learned


@eqx.filter_jit
def test(network: Network, settings: RecallExperiment, key: PRNGKeyArray) -> Int[Array, " delays"]:
    """How many of `test_episodes` fresh episodes end with the right answer, for each of the test delays.

    Like training in unrolls with the state carried from one to the next, whatever the delay.
    """
    episode_key, noise_key = jax.random.split(key)
    delays = jnp.repeat(jnp.array(settings.test_delays), settings.test_episodes)
    episodes = draw_episodes(episode_key, delays.shape, longest_delay=1)
    episodes = dataclasses.replace(episodes, delay=delays)
    unrolls = -(-(LONGEST_WAIT + max(settings.test_delays) + 1) // settings.unroll)

    def one(carry: tuple[RecallEpisode, State, Array], key: PRNGKeyArray) -> tuple[tuple[RecallEpisode, State, Array], Array]:
        episodes, state, over = carry
        episodes, shown = segment(episodes, key, steps=settings.unroll, longest_delay=settings.longest_delay)
        logits, state = jax.vmap(network.unroll)(shown, state)
        # Only the first query of a stream has the delay under test; the episodes after it are random ones.
        first = shown.asked & (jnp.cumsum(shown.asked, axis=1) == 1) & ~over[:, None]
        right = jnp.any((jnp.argmax(logits, axis=-1) == shown.target) & first, axis=1)
        return (episodes, state, over | jnp.any(shown.asked, axis=1)), right

    carry = episodes, _states(network, delays.shape[0]), jnp.zeros(delays.shape, bool)
    _, right = jax.lax.scan(one, carry, jax.random.split(noise_key, unrolls))
    return jnp.sum(jnp.any(right, axis=0).reshape(len(settings.test_delays), -1), axis=1)


@eqx.filter_jit
def ask_always(network: Network, shown: Shown) -> Float[Array, "T S"]:
    """The answer the network would give if the query came right after each step of one stream, as probabilities."""
    query = _input(jnp.zeros((SYMBOLS,)), jnp.array(False), jnp.array(True))

    def one(state: State, of: tuple[Array, Array]) -> tuple[State, Array]:
        x, reset = of
        _, state = network.core.step(x, state, reset=reset)
        y, _ = network.core.step(query, state, reset=False)
        return state, jax.nn.softmax(network.answer(y))

    return jax.lax.scan(one, network.core.initial_state(), (shown.x, shown.reset))[1]


def _stream(settings: RecallExperiment, key: PRNGKeyArray) -> Shown:
    episode_key, segment_key = jax.random.split(key)
    episodes = draw_episodes(episode_key, (1,), longest_delay=settings.longest_delay)
    _, shown = segment(episodes, segment_key, steps=settings.stream_steps, longest_delay=settings.longest_delay)
    return jax.tree.map(lambda leaf: leaf[0], shown)


# The experiment


def run(settings: RecallExperiment, report: Callable[[str, int, int, float], None], *, chunk: int = 25) -> dict[str, Any]:
    """Trains and tests every core with every seed; the results as plain data, ready for JSON and `gtrxl.report.recall_picture`.

    `report(core, seed, updates_done, accuracy)` is called after every `chunk` of updates.
    """
    rows, learning, sizes, probabilities = [], [], [], {}
    test_key, stream_key = jax.random.split(jax.random.key(2**31 - 1))  # the same test for every core and seed
    shown = _stream(settings, stream_key)
    for name in settings.cores:
        for seed in settings.seeds:
            began, done = time.perf_counter(), 0
            training = start(name, settings, jax.random.key(seed))
            while done < settings.updates:
                updates = min(chunk, settings.updates - done)
                training, accuracy = train(training, settings, updates)
                done += updates
                learning.append({"core": name, "seed": seed, "updates": done, "accuracy": round(float(accuracy), 4)})
                report(name, seed, done, float(accuracy))
            seconds = round(time.perf_counter() - began, 1)
            right = test(training.network, settings, test_key).tolist()
            for delay, n in zip(settings.test_delays, right, strict=True):
                share = round(n / settings.test_episodes, 4)
                row = {"core": name, "seed": seed, "delay": delay, "episodes": settings.test_episodes}
                rows.append({**row, "right": n, "accuracy": share})
            parameters = sum(leaf.size for leaf in jax.tree.leaves(eqx.filter(training.network, eqx.is_array)))
            sizes.append({"core": name, "seed": seed, "parameters": parameters, "seconds": seconds})
            if name not in probabilities:
                probabilities[name] = np.asarray(ask_always(training.network, shown), np.float64).round(3).tolist()
    return {
        "experiment": "recall",
        "chance": 1 / SYMBOLS,
        "settings": dataclasses.asdict(settings),
        "rows": rows,
        "learning": learning,
        "sizes": sizes,
        "stream": {
            "symbols": jnp.where(shown.asked, -1, jnp.argmax(shown.x[:, :SYMBOLS], axis=-1)).tolist(),
            "marked": (shown.x[:, SYMBOLS] == 1).tolist(),
            "asked": shown.asked.tolist(),
            "resets": shown.reset.tolist(),
            "probabilities": probabilities,
        },
    }
