"""Pictures, texts and numbers into one vector: every part is heard, axes in front do not matter, sizes are kept."""

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import VMPO, make_core
from gtrxl.gym.spaces import ObservationSpec
from gtrxl.networks import AgentError, ResNet, word_buckets
from gtrxl.networks import encoder as encoders
from gtrxl.networks.agent import Agent
from gtrxl.networks.encoder import Encoder, Torso, make_torso
from gtrxl.networks.policies import Head
from gtrxl.networks.vision import SMALL_CHANNELS
from gtrxl.tasks.contract import Step, Task
from gtrxl.training.device_loop import Loop
from gtrxl.training.update import Update

SPEC = ObservationSpec(vector=3, images=(("image:eye", (8, 9, 1)), ("image:map", (6, 5, 4))), texts=(("text", 4),))
WIDTH = 5


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    """Every weight random, and none so small that a mistake would not show. Compiles nothing."""
    random = np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(lambda key: Encoder(SPEC, WIDTH, channels=(2, 3), features=6, key=key), jax.random.key(0))
    return jax.tree.map(lambda leaf: jnp.asarray(0.4 * random.standard_normal(leaf.shape), leaf.dtype), shapes)


def observations(*leading: int):
    random = np.random.default_rng(0)
    seen = SPEC.zeros(*leading)
    seen["vector"] = random.standard_normal(seen["vector"].shape).astype(np.float32)
    for name, _ in SPEC.images:
        seen[name] = random.integers(0, 256, seen[name].shape, np.uint8)
    texts = np.stack([word_buckets(text, 4) for text in ("go", "stop here", "", "one two three four")])
    seen["text"] = texts[random.integers(4, size=leading)]
    return jax.tree.map(jnp.asarray, seen)


encode = eqx.filter_jit(lambda encoder, observation: encoder(observation))


@pytest.mark.slow
def test_very_many_pictures_in_groups_are_the_same(encoder, monkeypatch):
    """Groups of 2 and a last one of 1, made again for the gradient: the same numbers, and the same gradient. Through XLA, as on
    accelerators; the native library keeps its own measure."""
    monkeypatch.setattr(ResNet, "native", lambda self, dtype: False)
    seen = observations(5)
    slope = lambda encoder: eqx.filter_grad(lambda encoder: jnp.sum(jnp.square(encoder(seen))))(encoder)  # noqa: E731
    whole = eqx.filter_jit(lambda encoder: (encoder(seen), slope(encoder)))(encoder)
    # Five pictures are too many, and a group has room for two.
    monkeypatch.setattr(encoders, "_kept", lambda part: 100 if isinstance(part, ResNet) else 0)
    monkeypatch.setattr(encoders, "MOST_KEPT", 499)
    monkeypatch.setattr(encoders, "GROUP", 200)
    program = eqx.filter_jit(lambda encoder: (encoder(seen), slope(encoder)))
    assert "scan" in str(jax.make_jaxpr(lambda: encoder(seen))())
    for x, y in zip(jax.tree.leaves(whole), jax.tree.leaves(program(encoder)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-5)


def test_axes_in_front_are_only_axes(encoder):
    seen = observations(2, 3)
    whole = encode(encoder, seen)
    assert whole.shape == (2, 3, WIDTH)

    @eqx.filter_jit
    def alone(encoder, one):
        parts = [one["vector"], *(encoder.images[name](one[name]) for name, _ in SPEC.images), encoder.texts["text"](one["text"])]
        return encoder.torso(jnp.concatenate(parts))

    for at in ((0, 0), (1, 2)):
        np.testing.assert_allclose(whole[at], alone(encoder, jax.tree.map(lambda leaf: leaf[at], seen)), atol=1e-5)


@pytest.mark.parametrize("part", ["vector", "image:eye", "image:map", "text"])
def test_every_part_is_heard(encoder, part):
    seen = observations(2, 3)
    other = seen | {part: seen[part][::-1]}
    assert np.abs(encode(encoder, seen) - encode(encoder, other)).max() > 1e-4


def test_numbers_alone_keep_their_torso():
    spec, key = ObservationSpec(vector=4), jax.random.key(1)
    made, torso = make_torso(spec, WIDTH, key=key), Torso(4, WIDTH, key=key)
    assert isinstance(made, Torso)
    assert eqx.tree_equal(made, torso)
    assert isinstance(eqx.filter_eval_shape(lambda: make_torso(SPEC, WIDTH, key=key)), Encoder)
    with pytest.raises(AgentError, match="an encoder is for pictures or texts, got 4 numbers alone"):
        Encoder(spec, WIDTH, key=key)


def test_a_wrong_observation_is_named(encoder):
    seen = observations(1)
    with pytest.raises(AgentError, match=r"an observation must be a dict of image:eye, .*, got \['vector'\]"):
        encoder({"vector": seen["vector"]})
    with pytest.raises(AgentError, match=r"an observation must be a dict of .*, got ndarray"):
        encoder(np.zeros(3))


def test_the_first_weights_keep_the_size_of_what_passes_through():
    size = (24, 32)

    def sizes(key):
        image_key, net_key = jax.random.split(key)
        x = jax.random.uniform(image_key, (*size, 3))
        net = ResNet(size, channels=SMALL_CHANNELS, key=net_key)
        streams = [x]
        for section in net.sections:
            streams.append(section(streams[-1]))
        return jnp.stack([jnp.sqrt(jnp.mean(jnp.square(stream))) for stream in (*streams, net(x))])

    passed = np.asarray(jax.jit(jax.vmap(sizes))(jax.random.split(jax.random.key(0), 4))).mean(axis=0)
    assert (passed > 0.3).all(), passed
    assert (passed < 1.5).all(), passed


class Signs(Task):
    """A compiled task with a picture, a text and numbers: the picture is bright when action 1 is right."""

    name = "signs"
    episode_steps = 3

    @property
    def observation_space(self) -> gymnasium.Space:
        eye, told = gymnasium.spaces.Box(0, 255, (8, 8, 1), np.uint8), gymnasium.spaces.Box(-1, 999, (2,), np.int32)
        return gymnasium.spaces.Dict({"eye": eye, "told": told, "vector": gymnasium.spaces.Box(0, 1, (1,))})

    @property
    def action_space(self) -> gymnasium.spaces.Discrete:
        return gymnasium.spaces.Discrete(2)

    def reset(self, key):
        state = jnp.stack([jax.random.bernoulli(key).astype(jnp.int32), jnp.int32(0)])
        return state, self._shown(state)

    def step(self, state, action):
        after = jnp.stack([1 - state[0], state[1] + 1])
        reward = (action == state[0]).astype(jnp.float32)
        no = jnp.zeros((), bool)
        return after, Step(observation=self._shown(after), reward=reward, terminated=no, truncated=after[1] >= 3)

    def _shown(self, state):
        eye = jnp.full((8, 8, 1), 255 * state[0], jnp.uint8)
        return {"eye": eye, "told": jnp.int32([7, -1]), "vector": state[1:].astype(jnp.float32)}


@pytest.mark.slow
def test_a_compiled_task_with_pictures_runs_in_the_loop():
    task = Signs()
    loop = Loop(task=task, update=Update(learner=VMPO(target_period=2), discount=0.9, popart_step=1e-2), streams=2, unroll=4)

    def program(key):
        torso_key, core_key, agent_key, loop_key = jax.random.split(key, 4)
        torso = make_torso(ObservationSpec.of(task.observation_space), WIDTH, channels=(2,), key=torso_key)
        core = make_core("none", input_size=WIDTH, d_model=4, key=core_key)
        agent = Agent(torso=torso, core=core, head=Head(task.action_space), hidden=4, key=agent_key)
        training, report = loop.run(loop.start(agent, loop_key), 2)
        return training.trail, report, jax.tree.map(jnp.max, eqx.filter(training.trained.agent, eqx.is_inexact_array))

    trail, report, weights = jax.jit(program)(jax.random.key(0))
    assert trail.observation["eye"].shape == (2, 3 + 4, 8, 8, 1)
    assert trail.observation["eye"].dtype == np.uint8
    assert set(np.unique(trail.observation["eye"][:, -4:])) == {0, 255}
    assert all(np.isfinite(value) for value in report.metrics.values())
    assert all(np.isfinite(leaf) for leaf in jax.tree.leaves(weights))
