"""What was said when acting means the same when it is learned from, however far PopArt's statistics have moved in between."""

import dataclasses
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import PPO, make_task
from gtrxl.algorithms.contract import lambda_returns
from gtrxl.networks.normaliser import Normaliser
from gtrxl.training.actors.conductor import Conductor, Learning
from gtrxl.training.device_loop import Loop
from gtrxl.training.update import Update
from tests.training.crew import InlineFleet, agent_for, assignment
from tests.training.small import ENDS, random_agent

WORTH = 25.0
"""About what values are in reward units."""
NEAR = 1e-3
"""An advantage of less than this may be on either side of zero: values of 25 have an error of 1e-5 and are divided by scales."""


@dataclass(frozen=True, kw_only=True)
class Watching(PPO):
    """PPO whose weights stand still, so that the values of now are those of then; it reports how far they are from each other."""

    learning_rate: float = 1e-30
    epochs: int = 1
    minibatches: int = 1

    def loss(self, multipliers, inputs):
        loss, report = super().loss(multipliers, inputs)
        now, then = (inputs.in_reward_units(of)[:, :-1] for of in (inputs.value, inputs.behaviour_value))
        true, targets = lambda_returns(inputs, value=inputs.value, lam=self.lam), self.targets(inputs)
        flipped = ((targets - then > 0) != (true - now > 0)) & (jnp.abs(true - now) > NEAR) & inputs.valid
        report |= {
            "worth": jnp.mean(now),
            "value_error": jnp.max(jnp.abs(then - now)),
            "target_error": jnp.max(jnp.abs(targets - true)),
            "flipped": jnp.sum(flipped.astype(jnp.float32)),
        }
        return loss, report


def worth_much(agent):
    """The same agent with values near WORTH, and with eyes that do not follow what they see: those move values, too."""
    if isinstance(agent.torso, Normaliser):
        agent = eqx.tree_at(lambda of: of.torso, agent, agent.torso.torso)
    return eqx.tree_at(lambda of: of.value.output.bias, agent, jnp.full_like(agent.value.output.bias, WORTH))


def assert_nothing_moved(metrics, updates=1):
    assert abs(metrics["worth"] / updates - WORTH) < 5
    assert metrics["value_error"] / updates < 1e-4
    assert metrics["target_error"] / updates < 1e-4
    assert metrics["flipped"] == 0


@pytest.mark.parametrize("period", [1, 10])
def test_actors_values_are_what_they_were_under_any_lag(period):
    class Quick(InlineFleet):
        """All that was asked for has come: as much lag as there may be."""

        def wait(self, timeout):
            return [came for _ in range(len(self.asked)) for came in super(Quick, self).wait(timeout)]

    update = Update(learner=Watching(target_period=period), discount=0.9, popart_step=1e-2)
    fleet = Quick(assignment(), 2)
    learning = Learning.start(update, worth_much(jax.tree.map(jnp.array, agent_for())), jax.random.key(0))
    conductor = Conductor(update, fleet, streams=4, tasks=2, restarts=0)
    learning, tally = conductor.advance(learning, until=25)
    assert max(tally.lags) >= period, "the case must have lag"
    stats = jax.device_get(learning.trained.popart)
    assert stats.mean[0] > WORTH / 4, "the statistics must have moved"
    assert stats.scale[0] > 2
    assert_nothing_moved(tally.metrics, tally.updates)


def test_the_device_loop_s_values_are_what_they_were_under_lag():
    task, streams = make_task(ENDS), 4
    update = Update(learner=Watching(target_period=10), discount=0.9, popart_step=1e-2)
    loop = Loop(task=task, update=update, streams=streams, unroll=6)
    agent = worth_much(random_agent(ENDS, "none"))
    training = loop.start(agent, jax.random.key(0))
    training, chunk = jax.device_get(eqx.filter_jit(lambda training: loop.run(training, 2))(training))
    assert training.trained.popart.mean[0] > 5
    assert_nothing_moved({name: float(value) for name, value in chunk.metrics.items()})


def test_an_agent_that_acts_says_in_reward_units_what_the_learned_one_says_of_them():
    agent = random_agent(ENDS, "none", values=3)
    update = Update(learner=PPO(), discount=0.9, popart_step=1e-2)
    start = update.start(agent)
    assert eqx.tree_equal(start.acting(), agent), "without statistics they are the same, to the bit"
    stats = dataclasses.replace(
        start.popart, mean=jnp.array([25.0, -3.0, 0.0]), scale=jnp.array([4.0, 0.1, 1e3]), variance=jnp.array([16.0, 0.01, 1e6])
    )
    trained = dataclasses.replace(start, popart=stats)
    ys = jnp.asarray(np.random.default_rng(0).standard_normal((5, 8)), jnp.float32)
    (policy, said), (same_policy, normalised) = trained.acting().answer(ys), agent.answer(ys)
    np.testing.assert_allclose(said, normalised * stats.scale[None] + stats.mean[None], rtol=1e-5, atol=1e-4)
    assert eqx.tree_equal(policy, same_policy)
