"""An actor's packets against a slow replay, and every way in which a task can misbehave."""

import functools
import gc
import pickle
import signal
import weakref

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.evaluation import gym_episodes as hosting
from gtrxl.gym.stream import FinishedEpisode
from gtrxl.gym.task import GymTask
from gtrxl.runs.errors import RunError
from gtrxl.training.actors.actor import Actor
from gtrxl.training.actors.packets import Failure, Packet, Sealed
from tests.training.crew import TASK, agent_for, assignment
from tests.training.small import assert_trees_close, filled, unrolled
from tests.training.toys import Bad, Broken, Counter, Mixed

STEPS, STREAMS = 4, 2


def packets_of(actor, weights, *, count):
    """Unrolls of an actor that is given `weights[i]` before the i-th one."""
    return [actor.unroll(weights.get(i), i) for i in range(count)]


def known(memory):
    return filled(jax.tree.map(jnp.asarray, memory))


def along_time(packets):
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *(packet.unroll for packet in packets))


@functools.cache
def acted(core):
    """Five unrolls of an actor that gets new weights before the fourth."""
    return packets_of(Actor(assignment(), 1), {0: agent_for(core), 3: agent_for(core, seed=1)}, count=5)


@pytest.mark.parametrize("core", ["lstm", "gtrxl-gru"])
def test_a_packet_says_what_happened(core):
    """The same actions played by hand, stream by stream, show the same numbers at every step."""
    packets = acted(core)
    unroll = along_time(packets)
    played = []
    for k, seed in enumerate(assignment().seeds(1, 0)[:STREAMS]):
        env, final, score = Counter(), False, 0.0
        observation, told = env.reset(seed=seed)[0], np.zeros(3)
        for t in range(5 * STEPS):
            np.testing.assert_array_equal(unroll.observation[k, t], [*observation, *told])
            assert unroll.reset[k, t] == (env.step_number == 0)
            assert unroll.valid[k, t] == (not final)
            if final:
                assert (unroll.reward[k, t], unroll.terminated[k, t]) == (0, False)
                observation, told, final, score = env.reset()[0], np.zeros(3), False, 0.0
                continue
            action = unroll.action[k, t]
            observation, reward, terminated, truncated, _ = env.step(action)
            told = [action == 0, action == 1, reward]
            assert (unroll.reward[k, t], unroll.terminated[k, t]) == (reward, terminated)
            score += reward
            if final := bool(terminated or truncated):
                played.append(FinishedEpisode(score, env.step_number))
        np.testing.assert_array_equal(packets[-1].next_observation[k], [*observation, *told])
        assert packets[-1].next_reset[k] == (env.step_number == 0)
    ended = [episode for packet in packets for episode in packet.ended]
    assert sorted(ended) == sorted(played)
    assert {episode.steps for episode in ended} == {3, 5}, "episodes must end in both ways here"


@pytest.mark.parametrize("core", ["lstm", "gtrxl-gru"])
def test_a_learner_finds_what_the_actor_found(core):
    """From the memory in the packet, the learner's pass through the same weights gives the same policy, value and next memory."""
    packets = acted(core)
    for i, packet in enumerate(packets):
        agent = agent_for(core, seed=0 if i < 3 else 1)
        assert packet.version == (0 if i < 3 else 3)
        policy, value, after = unrolled(agent, packet.unroll.observation, packet.memory, packet.unroll.reset)
        assert_trees_close(policy, packet.unroll.behaviour)
        assert_trees_close(value[..., 0], packet.unroll.value)
        if i + 1 < len(packets):
            assert_trees_close(known(after), known(packets[i + 1].memory))
            np.testing.assert_array_equal(packet.next_observation, packets[i + 1].unroll.observation[:, 0])
            np.testing.assert_array_equal(packet.next_reset, packets[i + 1].unroll.reset[:, 0])
    empty = agent_for(core).initial_state(STREAMS)
    assert_trees_close(known(empty), known(packets[0].memory))


@pytest.mark.parametrize("noise_steps", [1, 3])
def test_the_cut_into_unrolls_changes_nothing(noise_steps):
    short = along_time(packets_of(Actor(assignment(noise_steps=noise_steps), 0), {0: agent_for()}, count=3))
    long = Actor(assignment(steps=3 * STEPS, noise_steps=noise_steps), 0).unroll(agent_for(), 0).unroll
    assert_trees_close(short, long)
    np.testing.assert_array_equal(short.action, long.action)


def test_no_two_streams_are_the_same_and_all_can_be_repeated():
    def seeds(**others):
        return [tuple(assignment(**others).seeds(actor, attempt)) for actor in (0, 1) for attempt in (0, 1)]

    drawn = [seed for since in (0, 10) for some in seeds(since=since) for seed in some]
    assert len(set(drawn)) == len(drawn) == 2 * 4 * (STREAMS + 1)
    assert seeds() == seeds()


def test_what_was_sent_and_let_go_leaves_nothing_behind():
    """Modules that are unpickled as they are stay in Equinox for ever; a learner would grow by every packet."""
    for sent in (Sealed(jax.device_get(agent_for("lstm"))), acted("lstm")[0]):
        came = pickle.loads(pickle.dumps(sent))
        arrays = [weakref.ref(leaf) for leaf in jax.tree.leaves(vars(came)) if isinstance(leaf, np.ndarray)]
        assert len(arrays) > 3
        del came
        gc.collect()
        assert [array() for array in arrays] == [None] * len(arrays)


def test_a_packet_can_be_sent_and_holds_no_jax():
    packet = acted("lstm")[0]
    sent = pickle.loads(pickle.dumps(packet))
    leaves = jax.tree.leaves((sent.unroll, sent.memory, sent.next_observation, sent.next_reset))
    assert all(type(leaf) is np.ndarray for leaf in leaves)
    assert_trees_close(sent.unroll, packet.unroll, rtol=0, atol=0)
    assert sent.seconds.task + sent.seconds.inference == pytest.approx(sent.seconds.whole)


BAD = {
    "raise": ("raised", "at step 1: raised KeyError: 'no such\\nroom'"),
    "sleep": ("hung", "at step 1: a call must return within 0.3 s, got no answer"),
    "swallow": ("hung", "at step 1: a call must return within 0.3 s, got no answer"),
    "nan reward": ("bad output", "at step 1: reward must be finite, got nan"),
    "two rewards": ("bad output", "at step 1: reward must be one number, got an array of float64 with shape [2]"),
    "nan": ("bad output", "at step 1: observation must"),
    "shape": ("bad output", "at step 1: observation must"),
    "dtype": ("bad output", "at step 1: observation must"),
    "flag": ("bad output", "at step 1: terminated must be a bool, got int 0"),
    "four": ("bad output", "at step 1: step must return observation, reward, terminated, truncated and info, got 4 things"),
    "reset": ("bad output", "at reset: reset must return observation and info, got an array of float32 with shape [3]"),
}


@pytest.mark.parametrize("what", BAD)
def test_a_task_that_misbehaves_is_named_in_one_line(what):
    task = GymTask("Bad", env_fn=functools.partial(Bad, what), previous="action+reward")
    answer = Actor(assignment(task, time_limit=0.3), 5).answer(agent_for(), 0)
    kind, said = BAD[what]
    assert isinstance(answer, Failure)
    assert (answer.actor, answer.kind) == (5, kind)
    assert answer.message.startswith("gym:Bad, actor 5, stream 0, ")
    assert said in answer.message
    assert "\n" not in answer.message
    assert "Traceback" in answer.detail


@pytest.mark.parametrize("what", ["nothing", "sleep"])
def test_the_alarm_is_as_it_was_after_an_unroll(what):
    """Late calls are ended by a signal; whoever used it before has it back, whether the task answered or not."""
    old = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    try:
        task = GymTask("Bad", env_fn=functools.partial(Bad, what), previous="action+reward")
        for _ in range(2):
            answer = Actor(assignment(task, time_limit=0.3), 0).answer(agent_for(), 0)
            assert isinstance(answer, Failure) == (what == "sleep")
            assert signal.getsignal(signal.SIGALRM) is signal.SIG_IGN
            assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    finally:
        signal.signal(signal.SIGALRM, old)


def test_a_task_that_cannot_be_made_is_a_failure_too():
    answer = Actor(assignment(GymTask("Broken", env_fn=Broken)), 0).answer(agent_for(), 0)
    assert isinstance(answer, Failure)
    assert (answer.kind, "when made" in answer.message, "no display" in answer.message) == ("raised", True, True)


def test_an_actor_that_never_got_weights_says_so():
    answer = Actor(assignment(), 0).answer(None, 0)
    assert isinstance(answer, Failure)
    assert "first unroll needs weights" in answer.message


def test_hybrid_actions_and_dict_observations_go_through():
    """Actions and observations that are dicts: every part arrives, with K and T in front."""
    task = GymTask("Mixed", env_fn=Mixed)
    packet = Actor(assignment(task, streams=3), 0).answer(agent_for(task=task), 0)
    assert isinstance(packet, Packet), packet
    assert {name: leaf.shape for name, leaf in packet.unroll.action.items()} == {"discrete": (3, 4, 1), "continuous": (3, 4, 2)}
    assert packet.unroll.observation["image:eye"].shape == (3, 4, 8, 8, 3)
    assert packet.unroll.observation["image:eye"].dtype == np.uint8


def always(action):
    """An agent whose policy is all but certain of one action."""
    bias = np.where(np.arange(2) == action, 50, -50).astype(np.float32)
    return eqx.tree_at(lambda of: of.policy.output.bias, agent_for(), bias)


def test_scores_of_an_agent_are_those_of_whole_episodes():
    """Never 1: five steps, 15. Always 1: three steps, 6 and a half for each."""
    for action, score in ((0, 15.0), (1, 7.5)):
        found = hosting.returns(always(action), TASK, episodes=hosting.AT_ONCE + 3, greedy=action == 1)
        np.testing.assert_array_equal(found, np.full(hosting.AT_ONCE + 3, score))


def test_the_random_policy_scores_what_it_must():
    """Half end at step 3: 6 + 3 / 4 for the first three steps, and half of 9 + 1 / 2 for the others."""
    found = hosting.random_returns(TASK, episodes=400, seed=1)
    assert found.mean() == pytest.approx(11.5, abs=4 * found.std() / 20)
    np.testing.assert_array_equal(found, hosting.random_returns(TASK, episodes=400, seed=1))


def test_a_task_that_fails_in_an_evaluation_is_one_line():
    with pytest.raises(RunError, match="stream 0, at step 1: raised KeyError"):
        hosting.random_returns(GymTask("Bad", env_fn=functools.partial(Bad, "raise")), episodes=2)
