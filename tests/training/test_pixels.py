"""Pictures, pixel control and hybrid actions in the compiled loop, on toy tasks. B streams, T steps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import VMPO, Net, defaults
from gtrxl.algorithms import masked, pixel_control
from gtrxl.evaluation.compiled import CompiledAgent, episode, returns
from gtrxl.networks.errors import AgentError
from gtrxl.training import device_loop as loops
from gtrxl.training.building import make_agent
from gtrxl.training.device_loop import Loop
from gtrxl.training.rollout import begin, played
from gtrxl.training.update import Batch, Update
from tests.training.small import B, T, acted, updated
from tests.training.toy_tasks import Aim, Shades, ShadesLevel

NET = Net(layers=1, width=8, torso=8, hidden=8, channels="tiny")
CONFIG = dataclasses.replace(defaults(task="t-maze", core="none"), net=NET)
LEARNER = VMPO(learning_rate=1e-2, target_period=2)
COST = 0.5
PICTURES = (Shades(), Shades(pay=3, episode_steps=6))


def learning(cost: float) -> Update:
    return Update(learner=LEARNER, discount=0.9, popart_step=1e-2, pixel_control=cost)


@pytest.fixture(scope="module")
def batch():
    """An agent with pixel control, and an unroll of two tasks with pictures."""
    agent = make_agent(dataclasses.replace(CONFIG, pixel_control=COST), PICTURES[0], jax.random.key(0), values=2)
    loop = Loop(task=PICTURES, update=learning(COST), streams=B, unroll=T)
    training = eqx.filter_jit(loop.start)(agent, jax.random.key(1))
    memory = agent.initial_state(B)
    _, after, unroll, _ = acted(agent, PICTURES, memory, training.situation, jax.random.split(jax.random.key(2), B))
    told = {"next_observation": after.observation, "next_reset": after.reset, "task": played(PICTURES, B)}
    return agent, Batch(unroll=unroll, memory=memory, **told)


def test_the_loss_has_the_pixels_at_their_cost(batch):
    agent, seen = batch
    after, metrics = jax.device_get(updated(learning(COST), learning(COST).start(agent), seen, jax.random.key(0)))
    unroll = seen.unroll
    pictures = np.concatenate([unroll.observation["image"], seen.next_observation["image"][:, None]], axis=1)
    observations = jax.tree.map(lambda x, y: jnp.concatenate([x, y[:, None]], axis=1), unroll.observation, seen.next_observation)
    resets = jnp.concatenate([unroll.reset, seen.next_reset[:, None]], axis=1)

    @eqx.filter_jit
    def by_hand(agent):
        ys, _ = agent.recall(observations, seen.memory, resets=resets)
        flags = {"terminated": unroll.terminated, "valid": unroll.valid}
        errors = pixel_control.errors(action=unroll.action, q=agent.pixel_values(ys), images=jnp.asarray(pictures), **flags)
        return masked.mean(errors, unroll.valid)

    loss = float(by_hand(agent))
    assert loss > 1e-4
    assert metrics["loss_pixel_control"] == pytest.approx(COST * loss, rel=1e-4)
    others = sum(metrics[f"loss_{part}"] for part in ("policy", "value", "temperature", "kl"))
    assert metrics["loss"] == pytest.approx(others + COST * loss, rel=1e-4)
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(), after.agent, agent)
    assert moved.pixel_control.second.kernel > 1e-3
    assert moved.torso.images["image"].sections[0].conv.kernel > 1e-3


def test_pictures_of_several_tasks_are_put_together_in_the_order_of_the_streams(batch):
    """The left half shows the step: each stream's own, by its own task's clock."""
    unroll = batch[1].unroll
    shown = np.asarray(unroll.observation["image"])[:, :, 0, 0, 0] // 20
    elapsed = np.zeros(B, int)
    for t in range(T):
        elapsed = np.where(unroll.reset[:, t], 0, elapsed)
        np.testing.assert_array_equal(shown[:, t], elapsed)
        elapsed = elapsed + 1
    pay = np.where(unroll.valid, np.where(np.arange(B) % 2, 3.0, 1.0)[:, None], 0.0)
    np.testing.assert_array_equal(unroll.reward, pay)


def test_a_level_that_is_looked_at_once_a_step_shows_the_same(batch):
    """As a task that is looked at after its step and again where an episode begins."""
    agent, _ = batch
    keys, found = jax.random.split(jax.random.key(2), B), []
    for task in (Shades(), ShadesLevel()):
        first = eqx.filter_jit(begin)(task, jax.random.split(jax.random.key(1), B))
        found.append(acted(agent, task, agent.initial_state(B), first, keys)[1:])
    assert eqx.tree_equal(*found)
    assert found[0][1].reset[:, 1:].any()


def test_no_trail_is_kept_of_more_than_it_may_take(batch, monkeypatch):
    agent, _ = batch
    loop = Loop(task=PICTURES, update=learning(COST), streams=B, unroll=T)
    longest = max(task.episode_steps for task in PICTURES)
    assert loop.history(agent.core) == longest
    step = 32 * 32 * 3 + 2 * 4
    monkeypatch.setattr(loops, "TRAIL_BYTES", B * (longest + T) * step - 1)
    assert loop.history(agent.core) is None
    assert eqx.filter_eval_shape(loop.start, agent, jax.random.key(0)).trail.reset.shape == (B, T)
    monkeypatch.setattr(loops, "TRAIL_BYTES", B * (longest + T) * step)
    assert loop.history(agent.core) == longest


def test_pixel_control_needs_one_picture_of_the_right_size_and_one_choice():
    config = dataclasses.replace(CONFIG, pixel_control=COST)

    def made(task):
        return eqx.filter_eval_shape(lambda key: make_agent(config, task, key), jax.random.key(0))

    with pytest.raises(
        AgentError, match=r"pictures of at least 32 x 32 pixels, each way a multiple of 8, got 24 x 32; change the"
    ):
        made(Shades(height=24))
    with pytest.raises(AgentError, match="each way a multiple of 8, got 36 x 48"):
        made(Shades(height=36, width=48))
    with pytest.raises(AgentError, match="one picture and one choice of action, got 0 pictures and a hybrid policy; set it to 0"):
        made(Aim())
    assert made(Shades(height=40, width=48)).pixel_control.cells == (10, 12)


# Hybrid actions

AIM_TASK = Aim()
AIM = Loop(task=AIM_TASK, update=Update(learner=LEARNER, discount=0.5, popart_step=1e-2), streams=8, unroll=10)


@pytest.fixture(scope="module")
def aimed():
    """Before, after, the first report and the last."""
    learner = dataclasses.replace(LEARNER, lam=0.5, eps_mean=0.05, eps_covariance=1e-2, eps_alpha=0.1, alpha_init=0.3)
    loop = dataclasses.replace(AIM, update=dataclasses.replace(AIM.update, learner=learner))
    net = dataclasses.replace(NET, width=16, torso=16, hidden=16, output_norm=False)
    agent = make_agent(dataclasses.replace(CONFIG, net=net), AIM_TASK, jax.random.key(0))
    run = eqx.filter_jit(lambda training: loop.run(training, 50))
    training, first = run(eqx.filter_jit(loop.start)(agent, jax.random.key(1)))
    training, last = run(run(training)[0])
    return agent, training.trained, first, last


def test_a_hybrid_policy_has_one_temperature_and_three_bounds(aimed):
    _, trained, _, last = aimed
    parts = {"categorical", "mean", "covariance"}
    assert set(trained.multipliers) == {"eta"} | {f"alpha_{part}" for part in parts}
    for part in parts:
        assert float(last.metrics[f"kl_{part}"]) > 0, part
        assert float(trained.multipliers[f"alpha_{part}"]) > 0, part


def test_a_hybrid_policy_learns_both_parts(aimed):
    """Both parts of the action must be right for the most there is, which is 5."""
    agent, trained, first, last = aimed
    assert float(last.ended.total / last.ended.count) > float(first.ended.total / first.ended.count) + 0.5
    before, after = (returns(of, AIM_TASK, episodes=32, greedy=True).mean() for of in (agent, trained.agent))
    assert before < 2.5
    assert after > 3.5


def test_a_player_s_hybrid_action_is_in_the_space(aimed):
    _, trained, _, _ = aimed
    player = CompiledAgent(agent=trained.agent, task=AIM_TASK)
    state, observation = AIM_TASK.reset(jax.random.key(0))
    action, _ = player.act(observation, player.initial_state(), greedy=True)
    assert set(action) == {"continuous", "discrete"}
    assert (action["continuous"].shape, action["continuous"].dtype) == ((2,), np.float32)
    assert (action["discrete"].shape, action["discrete"].dtype) == ((1,), np.int32)
    del state
    assert len(episode(player, seed=1).rewards) == AIM_TASK.episode_steps
