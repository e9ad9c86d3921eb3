"""One learner step: its gradient, Adam, the multipliers, PopArt, epochs and minibatches. B streams, T steps."""

import dataclasses
import functools
import re
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import PPO, VMPO, make_task
from gtrxl.algorithms import Inputs, popart
from gtrxl.training.update import Batch, Update
from tests.training.small import ENDS, UPDATE, B, acted, assert_trees_close, random_agent, start, updated

CORE = "gru"
LEARNER, DISCOUNT = UPDATE.learner, UPDATE.discount
assert isinstance(LEARNER, VMPO)
ADAM_FORGETS = 0.1
"""1 - Adam's b1: its first running mean is this times the first gradient."""


@functools.cache
def a_batch() -> Batch:
    """Unrolls in the maze, the second of every stream, with the memory that the first left."""
    task, agent = make_task(ENDS), random_agent(ENDS, CORE)
    situation, memory = start(task, jax.random.key(3)), agent.initial_state(B)
    for seed in (10, 13):
        before = memory
        memory, situation, unroll, _ = acted(agent, task, memory, situation, jax.random.split(jax.random.key(seed), B))
    return Batch(unroll=unroll, memory=before, next_observation=situation.observation, next_reset=situation.reset)


@functools.cache
def once(*, moved: bool) -> Any:
    """The state before, the state after, the metrics. `moved`: the online weights are not those that acted."""
    before = UPDATE.start(random_agent(ENDS, CORE, seed=1 if moved else 0))
    return jax.device_get((before, *updated(UPDATE, before, a_batch(), jax.random.key(0))))  # NumPy: nothing more to compile


def adam(optimiser) -> Any:
    """Adam's own state."""
    parts = jax.tree.leaves(optimiser, is_leaf=lambda part: hasattr(part, "mu"))
    return next(part for part in parts if hasattr(part, "mu"))


def first_gradient(optimiser):
    """What Adam was given, if that was once."""
    assert adam(optimiser).count == 1
    return jax.tree.map(lambda mu: mu / ADAM_FORGETS, adam(optimiser).mu)


@eqx.filter_jit
def by_hand(agent, multipliers, batch) -> Any:
    """Loss, gradients and targets by the definition: the network over T + 1 steps, then the learner's loss."""
    unroll = batch.unroll

    def loss(learned):
        agent, multipliers = learned
        observations = jnp.concatenate([unroll.observation, batch.next_observation[:, None]], axis=1)
        resets = jnp.concatenate([unroll.reset, batch.next_reset[:, None]], axis=1)
        policy, value, _ = agent.unroll(observations, batch.memory, resets=resets)
        log_p = jax.nn.log_softmax(policy.logits[:, :-1])
        old = jax.nn.log_softmax(unroll.behaviour.logits)
        chosen = jax.nn.one_hot(unroll.action, log_p.shape[-1])
        inputs = Inputs(
            reward=unroll.reward,
            discount=DISCOUNT * (1.0 - unroll.terminated),
            valid=unroll.valid,
            log_prob=jnp.sum(chosen * log_p, axis=-1),
            behaviour_log_prob=jnp.sum(chosen * old, axis=-1),
            entropy=-jnp.sum(jnp.exp(log_p) * log_p, axis=-1),
            kl={"categorical": jnp.sum(jnp.exp(old) * (old - log_p), axis=-1)},
            value=value[..., 0],
            behaviour_value=value[..., 0],  # V-MPO does not look at it
            shift=jnp.zeros(B),
            scale=jnp.ones(B),
        )
        loss, metrics = LEARNER.loss(multipliers, inputs)
        return loss, (metrics, LEARNER.targets(inputs), inputs.discount)

    return eqx.filter_value_and_grad(loss, has_aux=True)((agent, multipliers))


@pytest.fixture(scope="module")
def hand():
    """For weights that have moved from those that acted: every term of the loss has a gradient."""
    before, _, _ = once(moved=True)
    return jax.device_get(by_hand(before.agent, before.multipliers, a_batch()))


def test_the_batch_has_ends_of_both_kinds():
    unroll = a_batch().unroll
    assert unroll.terminated.any()
    assert (~unroll.valid[:, 1:] & ~unroll.terminated[:, :-1]).any()
    assert unroll.reward.any()


def test_the_gradient_is_that_of_the_loss(hand):
    (loss, (metrics, _, discount)), (gradient, of_multipliers) = hand
    _, after, reported = once(moved=True)
    assert np.array_equal(np.unique(discount), np.array([0.0, DISCOUNT], np.float32)), "both discounts must occur"
    assert_trees_close(first_gradient(after.agent_optimiser), gradient, rtol=1e-3, atol=1e-5)
    assert_trees_close(first_gradient(after.multiplier_optimiser), of_multipliers, rtol=1e-3, atol=1e-5)
    assert float(reported["loss"]) == pytest.approx(float(loss), rel=1e-4)
    for name in metrics:
        assert float(reported[name]) == pytest.approx(float(metrics[name]), rel=1e-3, abs=1e-5), name
    length = np.sqrt(sum(np.square(leaf).sum() for leaf in jax.tree.leaves(gradient)))
    assert float(reported["gradient_norm"]) == pytest.approx(length, rel=1e-3)
    assert reported["kl_categorical"] > 0.01


def first_step(weight, gradient):
    """Adam's first step by its definition: as long as the learning rate wherever the gradient is not nearly zero."""
    return weight - LEARNER.learning_rate * gradient / (np.abs(gradient) + LEARNER.adam_epsilon)


def test_weights_move_by_adam_s_first_step():
    """All but the value's last layer, which PopArt changes afterwards."""
    before, after, reported = once(moved=True)
    gradient, of_multipliers = first_gradient(after.agent_optimiser), first_gradient(after.multiplier_optimiser)
    stepped = jax.tree.map(first_step, eqx.filter(before.agent, eqx.is_array), gradient)
    last = lambda of: of.value.output  # noqa: E731
    assert_trees_close(eqx.tree_at(last, eqx.filter(after.agent, eqx.is_array), last(stepped)), stepped)
    changes = jax.tree.map(lambda new, old: np.square(new - old).sum(), stepped, eqx.filter(before.agent, eqx.is_array))
    assert float(reported["weight_change"]) == pytest.approx(np.sqrt(sum(jax.tree.leaves(changes))), rel=1e-3)
    for name, slope in of_multipliers.items():
        expected = before.multipliers[name] - LEARNER.multiplier_rate * np.sign(slope)
        assert float(after.multipliers[name]) == pytest.approx(float(expected), abs=1e-4), name


def test_a_rate_that_falls_is_a_share_of_what_the_optimiser_does():
    """At the beginning all of it, half way half of what is lost, after the last update what is left; the same gradient."""
    falling = dataclasses.replace(UPDATE, final_rate=0.2, last=100.0, popart_step=0.0)
    before = UPDATE.start(random_agent(ENDS, CORE, seed=1))
    step = eqx.filter_jit(lambda updates: falling(before, a_batch(), jax.random.key(0), updates=updates))
    whole = jax.device_get(step(jnp.int32(0)))[1]
    for updates, share in ((0, 1.0), (50, 0.6), (100, 0.2), (300, 0.2)):
        after, metrics = jax.device_get(step(jnp.int32(updates)))
        assert float(metrics["weight_change"]) == pytest.approx(share * float(whole["weight_change"]), rel=1e-5)
        assert float(metrics["gradient_norm"]) == float(whole["gradient_norm"])
        moved = jax.tree.map(lambda new, old: np.square(np.asarray(new) - np.asarray(old)).sum(), *(
            eqx.filter(of.agent, eqx.is_inexact_array) for of in (after, before)
        ))  # fmt: skip
        length = np.sqrt(sum(jax.tree.leaves(moved)))
        assert length == pytest.approx(float(metrics["weight_change"]), rel=1e-3)


def test_popart_follows_the_targets_and_keeps_the_values_in_reward_units(hand):
    (_, (_, targets, _)), _ = hand
    before, after, reported = once(moved=True)
    stats = after.popart
    expected = jax.jit(lambda *of: popart.update(popart.init(1), *of, step=1e-2))(targets, a_batch().unroll.valid)
    assert_trees_close(stats, expected)
    assert abs(float(stats.mean[0])) > 1e-3
    assert abs(float(stats.scale[0]) - 1) > 1e-3
    assert (float(reported["value_mean"]), float(reported["value_scale"])) == (float(stats.mean[0]), float(stats.scale[0]))
    last, gradient = before.agent.value.output, first_gradient(after.agent_optimiser).value.output
    weight, bias = first_step(last.weight, gradient.weight), first_step(last.bias, gradient.bias)
    hidden, new = np.random.default_rng(0).standard_normal((5, len(weight))), after.agent.value.output
    without, normalised = hidden @ weight + bias, hidden @ new.weight + new.bias
    np.testing.assert_allclose(normalised * stats.scale + stats.mean, without, rtol=1e-4, atol=1e-5)
    assert np.abs(normalised - without).max() > 1e-3


def test_the_policy_that_acted_has_no_kl_from_itself():
    _, _, metrics = once(moved=False)
    assert abs(float(metrics["kl_categorical"])) < 1e-6


def test_multipliers_never_fall_below_their_floor():
    """Without a KL its multiplier falls by the rate: from just above zero, to below it."""
    before = eqx.tree_at(lambda of: of.multipliers["alpha_categorical"], once(moved=False)[0], np.float32(1e-6))
    after, _ = jax.device_get(updated(UPDATE, before, a_batch(), jax.random.key(0)))
    assert first_gradient(after.multiplier_optimiser)["alpha_categorical"] > 0
    assert float(after.multipliers["alpha_categorical"]) == pytest.approx(1e-8)


def test_which_streams_are_together_does_not_depend_on_the_number_of_devices():
    update = Update(learner=PPO(minibatches=2), discount=DISCOUNT, popart_step=0.0)
    key, streams, devices = jax.random.key(0), 12, 3
    many = jax.vmap(lambda seed: update.minibatches(jax.random.key(seed), streams))(jnp.arange(8))
    whole = np.asarray(many[0])
    assert sorted(whole.ravel()) == list(range(streams)), "every stream, once"
    spread = dataclasses.replace(update, axis="devices")
    mine = jax.vmap(lambda _: spread.minibatches(key, streams // devices), axis_name="devices")(jnp.arange(devices))
    places = np.asarray(mine) + (streams // devices) * np.arange(devices)[:, None, None]
    np.testing.assert_array_equal(np.concatenate(places, axis=1), whole)
    assert len({tuple(np.sort(of_key[0])) for of_key in np.asarray(many)}) > 4, "drawn by the key"


def test_every_epoch_goes_through_every_minibatch_with_gradients_no_longer_than_allowed():
    """Two passes in two parts are four steps of Adam; which streams are together is drawn by the key. PopArt is off."""
    longest = 1e-3
    learner = PPO(epochs=2, minibatches=2, learning_rate=1e-2, max_grad_norm=longest)
    update = Update(learner=learner, discount=DISCOUNT, popart_step=0.0)
    agent = random_agent(ENDS, "none")
    before, batch = update.start(agent), dataclasses.replace(a_batch(), memory=agent.initial_state(B))
    after, metrics = updated(update, before, batch, jax.random.key(0))
    assert adam(after.agent_optimiser).count == 4
    assert float(metrics["gradient_norm"]) > 10 * longest, "the report has the true length"
    squares = sum(float(np.sum(nu)) for nu in jax.tree.leaves(adam(after.agent_optimiser).nu))
    assert squares == pytest.approx(longest**2 * 1e-3 * sum(0.999**n for n in range(4)), rel=1e-3)  # Adam's b2 is 0.999
    assert after.multipliers == {}
    assert eqx.tree_equal(after.popart, before.popart)
    assert "value_mean" not in metrics
    again, _ = updated(update, before, batch, jax.random.key(0))
    assert eqx.tree_equal(after, again)
    others = [updated(update, before, batch, jax.random.key(seed))[0] for seed in range(1, 5)]
    assert any(not eqx.tree_equal(after.agent, other.agent, rtol=1e-4, atol=1e-5) for other in others)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Pointing(PPO):
    """Its targets are a dial."""

    minibatches: int = 1
    DIALS = ("lam",)

    def targets(self, inputs):
        return jnp.full_like(inputs.reward, self.lam)


@pytest.mark.parametrize("epochs", [1, 2])
def test_targets_are_those_of_the_dials_as_they_stand(epochs):
    """PopArt follows the same targets that the loss has, whatever the dials were when the learner was made."""
    made, stands = 0.25, 0.75
    update = Update(
        learner=Pointing(lam=made, epochs=epochs), discount=DISCOUNT, popart_step=0.5, dials={"lam": jnp.float32(stands)}
    )
    agent = random_agent(ENDS, "none")
    batch = dataclasses.replace(a_batch(), memory=agent.initial_state(B))
    after, _ = updated(update, update.start(agent), batch, jax.random.key(0))
    assert float(after.popart.mean[0]) == pytest.approx(stands, abs=1e-3)


def test_devices_exchange_everything_at_once_and_nothing_is_changed_on_the_way():
    """All that a batch says in one exchange, all gradients in another, what PopArt follows in a third: each costs more than small
    arrays are worth. On one device of a mesh the numbers are those without one."""
    mesh = jax.make_mesh((1,), ("streams",), axis_types=(jax.sharding.AxisType.Auto,))
    spread = dataclasses.replace(UPDATE, axis="streams")
    before = UPDATE.start(random_agent(ENDS, CORE, seed=1))
    arrays, rest = eqx.partition((before, a_batch()), eqx.is_array)

    def local(arrays):
        trained, batch = eqx.combine(arrays, rest)
        trained, metrics = spread(trained, batch, jax.random.key(0))
        return eqx.filter(trained, eqx.is_array), metrics

    everywhere = jax.sharding.PartitionSpec()
    program = jax.shard_map(local, mesh=mesh, in_specs=(everywhere,), out_specs=everywhere, check_vma=False)
    exchanges = re.findall(r"\b(all_gather|psum|reduce_scatter|psum_scatter)\w*\[", str(jax.make_jaxpr(program)(arrays)))
    assert sorted(exchanges) == ["all_gather", "all_gather", "psum", "reduce_scatter"], exchanges  # one is a gather's gradient
    trained, metrics = jax.device_get(jax.jit(program)(arrays))
    _, after, expected = once(moved=True)
    assert_trees_close(trained, eqx.filter(after, eqx.is_array))
    assert_trees_close(metrics, expected)
