"""A core's own loss in the update: added to any learner's at its weight, over the steps that count, and nothing without it."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gtrxl
from gtrxl import PPO, VMPO, Net, VTrace, defaults
from gtrxl.algorithms import masked
from gtrxl.networks.encoder import make_torso
from gtrxl.networks.happened import happened_of
from gtrxl.networks.normaliser import Normaliser
from gtrxl.runs import metrics as rows
from gtrxl.runs.errors import RunError
from gtrxl.tasks.specs import ActionSpec, ObservationSpec
from gtrxl.training.building import make_agent
from gtrxl.training.rollout import act, begin
from gtrxl.training.update import Batch, Update, _followed
from tests.marks import few
from tests.training.small import ENDS, NET, B, acted, assert_trees_close, random_agent, start, updated
from tests.training.toy_tasks import Aim, Shades

LEARNERS = {"vmpo": VMPO(learning_rate=1e-2), "ppo": PPO(learning_rate=1e-2, epochs=2, minibatches=2), "vtrace": VTrace()}


def learning(name="vmpo", weight=1.0):
    return Update(learner=LEARNERS[name], discount=0.9, popart_step=1e-2, prediction_weight=weight)


def a_batch(agent):
    task = gtrxl.make_task(ENDS)
    keys = jax.random.split(jax.random.key(2), B)
    situation, memory = start(task, jax.random.key(1)), agent.initial_state(B)
    memory, situation, _, _ = acted(agent, task, memory, situation, keys)  # so that streams are at different places
    _, situation, unroll, _ = acted(agent, task, memory, situation, keys)
    assert not unroll.valid.all()
    return Batch(unroll=unroll, memory=memory, next_observation=situation.observation, next_reset=situation.reset)


@pytest.fixture(scope="module")
def merlin():
    agent = random_agent(ENDS, "merlin", spread=0.3)
    return agent, a_batch(agent)


@eqx.filter_jit
def by_hand(agent, batch, returns):
    """Mean over the steps that count of each part, as the core gives it."""
    unroll = batch.unroll
    seen = jax.tree.map(_followed, (unroll.observation, unroll.reset), (batch.next_observation, batch.next_reset))
    said = agent.core.predict(agent.torso(seen[0]), batch.memory, seen[1])[2]
    told = {"reward": unroll.reward, "returns": returns, "reset": unroll.reset, "valid": unroll.valid}
    happened = happened_of(agent.head.spec, unroll.observation, unroll.action, **told)
    losses = agent.core.prediction_losses(jax.tree.map(lambda leaf: leaf[:, :-1], said), happened)
    return {name: masked.mean(loss, unroll.valid) for name, loss in losses.items()}


def test_the_loss_has_the_predictions_at_their_weight(merlin):
    """V-MPO, whose returns are the lambda-returns of its values; PopArt has not moved yet, so that they are as they are."""
    agent, batch = merlin
    update = learning(weight=0.5)
    after, metrics = jax.device_get(updated(update, update.start(agent), batch, jax.random.key(0)))
    inputs = eqx.filter_jit(lambda agent: update._inputs(agent, update.start(agent).popart, batch)[0])(agent)
    parts = jax.device_get(by_hand(agent, batch, update.learner.targets(inputs)))
    assert set(parts) == {"kl", "vector", "action", "reward", "return"}
    for name, part in parts.items():
        assert part > 0
        assert metrics[f"prediction_{name}"] == pytest.approx(part, rel=1e-4), name
    predicted = 0.5 * sum(parts.values())
    assert metrics["loss_prediction"] == pytest.approx(predicted, rel=1e-4)
    others = sum(metrics[f"loss_{part}"] for part in ("policy", "value", "temperature", "kl"))
    assert metrics["loss"] == pytest.approx(others + predicted, rel=1e-4)
    moved = jax.tree.map(lambda new, old: float(np.abs(new - old).max()), after.agent, agent)
    assert moved.core.decoders.vector.output.weight > 1e-3
    assert moved.torso.first.weight > 1e-3


@pytest.mark.parametrize("name", few(["vtrace", "ppo"], keep=lambda *_: False))
def test_any_learner_learns_the_predictions_along(merlin, name):
    agent, batch = merlin
    before = learning(name).start(agent)
    after, metrics = updated(learning(name), before, batch, jax.random.key(0))
    assert float(metrics["prediction_kl"]) > 0
    assert float(metrics["loss_prediction"]) > 0
    assert not np.array_equal(after.agent.core.prior.output.bias, agent.core.prior.output.bias)


@pytest.mark.slow
def test_without_its_weight_nothing_is_predicted_and_nothing_before_the_core_moves(merlin):
    agent, batch = merlin
    after, metrics = updated(learning(weight=0.0), learning(weight=0.0).start(agent), batch, jax.random.key(0))
    assert not [name for name in metrics if "prediction" in name]
    for part in ("torso", "core"):
        fixed = eqx.filter(getattr(after.agent, part), eqx.is_array), eqx.filter(getattr(agent, part), eqx.is_array)
        if part == "core":
            fixed = tuple((of.embed, of.prior, of.posterior, of.predictor, of.decoders) for of in fixed)
        assert eqx.tree_equal(*fixed), part
    assert not eqx.tree_equal(after.agent.core.policy, agent.core.policy)


def test_steps_that_do_not_count_teach_nothing(merlin):
    """Another observation, reward and action where the episode is over: the same losses, bit for bit."""
    agent, batch = merlin
    unroll = batch.unroll
    last = ~unroll.valid
    other = dataclasses.replace(
        unroll,
        observation=jnp.where(last[..., None], unroll.observation + 5.0, unroll.observation),
        reward=jnp.where(last, 7.0, unroll.reward),
        action=jnp.where(last, 1 - jnp.minimum(unroll.action, 1), unroll.action),
    )
    both = (dataclasses.replace(batch, unroll=of) for of in (unroll, other))
    parts = [jax.device_get(by_hand(agent, of, jnp.zeros_like(unroll.reward))) for of in both]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("core", few(["lstm", "gtrxl-gru", "rl-mem"], keep=lambda _, core: core == "lstm"))
def test_cores_that_predict_nothing_are_trained_as_ever(core):
    """The weight of predictions changes no bit, and no row says anything of them."""
    agent = random_agent(ENDS, core)
    batch = a_batch(agent)
    found = [updated(learning(weight=weight), learning().start(agent), batch, jax.random.key(0)) for weight in (1.0, 0.0)]
    assert eqx.tree_equal(*found)
    assert not [name for name in found[0][1] if "prediction" in name]


class Predicting(eqx.Module):
    """A stranger's core, of nobody's base: remembers the last input, and says what the next reward will be."""

    weight: jax.Array

    def initial_state(self):
        return jnp.zeros(8)

    def step(self, x, state, *, reset):
        return x + jnp.where(reset, 0.0, jax.lax.stop_gradient(state)), x

    def unroll(self, xs, state, *, resets):
        state, ys = jax.lax.scan(lambda state, at: self.step(at[0], state, reset=at[1])[::-1], state, (xs, resets))
        return ys, state

    def predict(self, xs, states, resets):
        ys, states = jax.vmap(lambda xs, state, resets: self.unroll(xs, state, resets=resets))(xs, states, resets)
        return ys, states, ys @ self.weight

    def prediction_losses(self, said, happened):
        return {"surprise": jnp.square(said - happened.reward)}


def test_a_stranger_s_core_with_a_loss_is_as_good_as_ours():
    """Two methods, and any learner adds what they say."""
    agent = eqx.tree_at(lambda of: of.core, random_agent(ENDS, "none"), Predicting(jnp.ones(8)))
    batch = a_batch(agent)
    _, metrics = updated(learning(weight=2.0), learning().start(agent), batch, jax.random.key(0))
    assert float(metrics["loss_prediction"]) == pytest.approx(2 * float(metrics["prediction_surprise"]), rel=1e-6)
    assert float(metrics["prediction_surprise"]) > 0


@pytest.mark.slow
def test_devices_take_the_loss_of_the_whole_batch(merlin):
    agent, batch = merlin
    mesh = jax.make_mesh((1,), ("streams",), axis_types=(jax.sharding.AxisType.Auto,))
    update = learning()
    spread = dataclasses.replace(update, axis="streams")
    arrays, rest = eqx.partition((update.start(agent), batch), eqx.is_array)

    def local(arrays):
        trained, batch = eqx.combine(arrays, rest)
        trained, metrics = spread(trained, batch, jax.random.key(0))
        return eqx.filter(trained, eqx.is_array), metrics

    everywhere = jax.sharding.PartitionSpec()
    program = jax.jit(jax.shard_map(local, mesh=mesh, in_specs=(everywhere,), out_specs=everywhere, check_vma=False))
    trained, metrics = program(arrays)
    after, expected = updated(update, update.start(agent), batch, jax.random.key(0))
    assert_trees_close(metrics, expected)
    assert_trees_close(trained, eqx.filter(after, eqx.is_array))


@pytest.mark.parametrize(("task", "parts"), [(Shades(), {"picture", "vector"}), (Aim(), {"vector"})])
def test_pictures_and_hybrid_actions_are_predicted_too(task, parts):
    """As shapes: what is lost on them is tested where the decoders are."""
    net = Net(layers=1, width=8, mlp=8, memory=4, torso=8, hidden=8, channels="tiny")
    config = dataclasses.replace(defaults(task="t-maze", core="merlin"), net=net)

    def learn(key):
        agent = make_agent(config, task, key)
        memory, situation = agent.initial_state(B), begin(task, jax.random.split(key, B))
        _, after, unroll, _ = act(agent, task, agent.prepare(memory), situation, keys=jax.random.split(key, B), steps=3)
        batch = Batch(unroll=unroll, memory=memory, next_observation=after.observation, next_reset=after.reset)
        return learning()(learning().start(agent), batch, key)[1]

    metrics = eqx.filter_eval_shape(learn, jax.random.key(0))
    told = {name.removeprefix("prediction_") for name in metrics if name.startswith("prediction_")}
    assert told == {"kl", "action", "reward", "return", *parts}


def test_what_is_measured_is_predicted_at_its_common_size():
    spec = ObservationSpec(vector=2, measured=((0, 1),))
    torso = Normaliser(make_torso(spec, 8, key=jax.random.key(0)), spec)
    torso = eqx.tree_at(lambda of: (of.mean, of.variance), torso, (jnp.array([100.0, 0.0]), jnp.array([400.0, 1.0])))
    scaled = torso.scaled(jnp.array([[120.0, 7.0]]))
    np.testing.assert_allclose(scaled, [[1.0, 7.0]], rtol=1e-6)
    np.testing.assert_array_equal(torso(jnp.array([[120.0, 7.0]])), torso.torso(scaled))


def test_actions_and_observations_of_every_kind_become_the_core_s_words():
    lead = dict.fromkeys(("reward", "returns"), jnp.zeros((2, 3))) | dict.fromkeys(("reset", "valid"), jnp.zeros((2, 3), bool))
    picture, vector = jnp.ones((2, 3, 4, 4, 1), jnp.uint8), jnp.ones((2, 3, 5))
    found = happened_of(ActionSpec("gaussian", continuous=2), {"vector": vector, "eye": picture}, jnp.ones((2, 3, 2)), **lead)
    assert found.choices.shape == (2, 3, 0)
    assert found.numbers.shape == (2, 3, 2)
    assert set(found.images) == {"eye"}
    words = {"eye": picture, "text": jnp.zeros((2, 3, 6), jnp.int32)}
    both = {"discrete": jnp.ones((2, 3, 2), jnp.int32), "continuous": jnp.ones((2, 3, 1))}
    found = happened_of(ActionSpec("hybrid", (3, 4), 1), words, both, **lead)
    assert (found.vector.shape, found.choices.shape, found.numbers.shape) == ((2, 3, 0), (2, 3, 2), (2, 3, 1))
    assert set(found.images) == {"eye"}, "texts are seen and not predicted"


@pytest.mark.slow
def test_a_run_that_was_stopped_goes_on_with_the_same_bits(tmp_path):
    """Noise included: it is made of what a checkpoint holds."""
    settings = {
        "task": ENDS, "core": "merlin", "streams": 4, "unroll": 4, "steps": 320, "reports": 4, "checkpoint_every": 1,
        "devices": 1, "net": dataclasses.asdict(NET), "quiet": True, "board": False,
    }  # fmt: skip
    whole = gtrxl.train(run=tmp_path / "whole", **settings)
    assert {"loss_prediction", "prediction_kl", "prediction_vector", "prediction_return"} <= set(whole.rows[-1])

    def kill(row):
        assert row["updates"] < 10

    with pytest.raises(RunError, match=r"the callback .*kill failed"):
        gtrxl.train(run=tmp_path / "killed", callback=kill, **settings)
    resumed = gtrxl.resume(tmp_path / "killed", quiet=True, board=False)
    assert [rows.without_clock(row) for row in resumed.rows] == [rows.without_clock(row) for row in whole.rows]
