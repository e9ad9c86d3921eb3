"""Acting: the compiled loop against a slow one in Python, episode by episode. B streams, T steps."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl import make_task
from gtrxl.networks.agent import Agent
from gtrxl.tasks.contract import Task
from gtrxl.tasks.t_maze import TMaze
from gtrxl.training.rollout import UNCUT, Ended, Situation, Unroll
from tests.tasks.stepping import begin as reset_one
from tests.tasks.stepping import run as step_many
from tests.training.small import CUT, ENDS, B, T, acted, assert_trees_close, filled, random_agent, start, unrolled

UNROLLS = 3


class Played(NamedTuple):
    """Unrolls one after the other: those of `unroll` are joined, [B, UNROLLS * T] in front."""

    task: Task
    agent: Agent
    first: Situation
    keys: list[Any]
    unroll: Unroll
    ended: list[Ended]
    memory: Any
    last: Situation


@pytest.fixture(scope="module", params=[(ENDS, "gru"), (CUT, "gtrxl-gru")], ids=lambda param: param[1])
def played(request) -> Played:
    text, core = request.param
    task, agent = make_task(text), random_agent(text, core)
    first = situation = start(task, jax.random.key(3))
    memory, unrolls, ended = agent.initial_state(B), [], []
    keys = [jax.random.split(jax.random.key(10 + i), B) for i in range(UNROLLS)]
    for of_unroll in keys:
        memory, situation, unroll, episodes = acted(agent, task, memory, situation, of_unroll)
        unrolls.append(unroll)
        ended.append(episodes)
    whole = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *unrolls)
    return Played(task, agent, first, keys, whole, ended, memory, situation)


def fresh_keys(keys, stream):
    """The keys of a stream's new episodes, one for each step; beside them is the key of the policy's noise."""
    noise_key, reset_key = jax.random.split(keys[stream])
    return noise_key, jax.random.split(reset_key, T)


def one_step(task, state, action):
    after = step_many(task, state, jnp.asarray(action)[None])
    return jax.tree.map(lambda leaf: leaf[0], after)


def replay(played: Played, stream: int):
    """What must have happened in one stream, given its actions: rows by name, and the scores of its whole episodes."""
    task, situation = played.task, jax.tree.map(lambda leaf: leaf[stream], played.first)
    state, observation, limit = situation.task, situation.observation, int(situation.limit)
    rows, scores, lengths = [], [], []
    reset, final, cut, score, steps = True, False, True, 0.0, 0
    for t in range(UNROLLS * T):
        row = {"observation": observation, "reset": reset, "valid": not final, "reward": 0.0, "terminated": False}
        if final:
            _, keys = fresh_keys(played.keys[t // T], stream)
            state, observation = reset_one(task, keys[t % T])
            reset, final, cut, score, steps = True, False, False, 0.0, 0
        else:
            state, step = one_step(task, state, played.unroll.action[stream, t])
            row |= {"reward": float(step.reward), "terminated": bool(step.terminated)}
            observation, reset, score, steps = step.observation, False, score + float(step.reward), steps + 1
            final = bool(step.terminated) or bool(step.truncated) or (cut and steps >= limit)
            if final and not cut:
                scores.append(score)
                lengths.append(steps)
        rows.append(row)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, scores, lengths


@pytest.fixture(scope="module")
def replayed(played):
    return [replay(played, stream) for stream in range(B)]


def test_the_record_is_what_the_task_does_with_these_actions(played, replayed):
    for stream, (rows, _, _) in enumerate(replayed):
        for name, expected in rows.items():
            np.testing.assert_array_equal(getattr(played.unroll, name)[stream], expected, err_msg=f"{name} of stream {stream}")


def test_actions_are_drawn_from_the_recorded_policy_with_the_stream_s_own_noise(played):
    agent = played.agent
    for stream in range(B):
        noise = [agent.head.noise(fresh_keys(keys, stream)[0], (T,)) for keys in played.keys]
        logits = played.unroll.behaviour.logits[stream]
        np.testing.assert_array_equal(played.unroll.action[stream], np.argmax(logits + np.concatenate(noise), axis=-1))


def test_policies_and_values_are_those_of_the_agent_on_the_recorded_stream(played):
    """The memory begins anew where the record says so, and has the final observation of an episode too."""
    unroll, agent = played.unroll, played.agent
    policy, value, memory = unrolled(agent, unroll.observation, agent.initial_state(B), unroll.reset)
    assert_trees_close((unroll.behaviour, unroll.value), (policy, value[..., 0]))
    assert_trees_close(filled(played.memory), filled(memory))


def test_a_final_observation_is_a_step_that_does_not_count_and_a_new_episode_follows(played):
    unroll = played.unroll
    final = ~unroll.valid
    assert final.sum() >= 2 * B, "too few ends to tell"
    assert not unroll.reward[final].any()
    assert not unroll.terminated[final].any()
    np.testing.assert_array_equal(unroll.reset[:, 1:], final[:, :-1])
    assert unroll.reset[:, 0].all()
    np.testing.assert_array_equal(final[:, 1:] & unroll.terminated[:, :-1], unroll.terminated[:, :-1])


def test_the_clock_truncates_and_a_turn_terminates(played):
    """What the learner discounts by zero after, and what it bootstraps after."""
    unroll = played.unroll
    if not isinstance(played.task, TMaze):
        assert not unroll.terminated.any()
        return
    junction = unroll.observation[..., 3] == 1
    turns = junction & unroll.valid & (unroll.action != 0)
    np.testing.assert_array_equal(unroll.terminated, turns)
    by_the_clock = ~unroll.valid[:, 1:] & ~unroll.terminated[:, :-1]
    assert turns.any()
    assert by_the_clock.any(), "both ends must happen"


def test_the_score_of_every_whole_episode_is_counted_once_and_cut_ones_never(played, replayed):
    scores = [score for _, of_stream, _ in replayed for score in of_stream]
    lengths = [steps for _, _, of_stream in replayed for steps in of_stream]
    assert len(scores) >= B, "too few episodes to tell"
    ended = jax.tree.map(lambda *parts: np.stack(parts), *played.ended)
    assert ended.count.sum() == len(scores) < (~played.unroll.valid).sum()
    assert ended.total.sum() == pytest.approx(sum(scores))
    assert ended.squares.sum() == pytest.approx(sum(score**2 for score in scores))
    assert ended.steps.sum() == sum(lengths)
    assert (ended.least.min(), ended.most.max()) == (min(scores), max(scores))


def test_the_first_episodes_are_cut_at_random_and_later_ones_are_not(played):
    task = played.task
    limits = np.concatenate([np.asarray(start(task, jax.random.key(seed)).limit) for seed in range(40)])
    assert (limits.min(), limits.max()) == (1, task.episode_steps)
    assert len(np.unique(limits)) == task.episode_steps
    np.testing.assert_array_equal(played.last.limit, UNCUT)


def test_unrolls_without_an_ended_episode_have_no_least_and_no_most(played):
    for ended in played.ended:
        assert (ended.count == 0) == np.isposinf(ended.least) == np.isneginf(ended.most)
