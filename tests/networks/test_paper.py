"""The paper's agent: its parameter table, and a tiny version of it that acts as it learns."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cores import PAPER_CORES, PAPER_INPUT_SIZE, CoreError
from gtrxl.networks import PAPER_MODELS, AgentError, Observation, PaperAgent, count_paper_models, parameters

# Totals in millions, worked out from the paper's tables by hand, not by this code.
DECODED = {
    "lstm": 9.230, "trxl": 28.553, "trxl-i": 28.553, "gtrxl-input": 34.844, "gtrxl-output": 34.856,
    "gtrxl-highway": 34.856, "gtrxl-sigtanh": 41.148, "gtrxl-gru": 66.314, "gtrxl-thin": 22.372,
}  # fmt: skip
TINY: dict[str, Any] = {"image_size": (32, 40), "channels": (2, 2), "actions": 3, "tasks": 2}
TINY_CORES: dict[str, dict[str, Any]] = {
    "gtrxl-gru": {"d_model": 8, "layers": 2, "heads": 2, "head_dim": 4, "mlp": 8, "memory": 4},
    "lstm": {"d_model": 8, "layers": 2},
}


def test_all_nine_are_within_half_a_percent_of_the_paper():
    counts = count_paper_models()[:9]
    assert {count.paper.name for count in counts} == set(DECODED) == set(PAPER_CORES)
    for count in counts:
        assert count.difference is not None
        assert abs(count.difference) < 0.5, count
        assert count.total / 1e6 == pytest.approx(DECODED[count.paper.name], abs=0.0005), count


def test_merlin_is_counted_at_its_own_sizes():
    """The core by hand: LSTMs of 2 x 256 over [z, reads], prior, posterior, keys, decoders. The paper has no number for it."""
    (merlin,) = count_paper_models()[9:]
    assert (merlin.paper.label, merlin.paper.millions, merlin.difference) == ("MERLIN", None, None)
    z, row, read, h, mlp, x = 200, 400, 1200, 512, 400, PAPER_INPUT_SIZE

    def linear(before, after):
        return (before + 1) * after

    def lstm(seen):
        return sum(linear(size, 4 * 256) + 256 * 4 * 256 for size in (seen, seen + 256))

    def small(before, after, hidden=mlp):
        return linear(before, hidden) + linear(hidden, after)

    core = lstm(z + read) + lstm(z + row) + linear(x, mlp)
    core += small(h + read, 2 * z) + linear(mlp, mlp) + small(h + read + 2 * z, 2 * z) + linear(mlp, mlp)
    core += linear(h, 3 * (row + 1)) + linear(h, row + 1)
    picture = linear(z, 18 * 24 * 32) + linear(32, 4 * 4 * 3)
    decoders = picture + small(z, 15) + 2 * small(z, 1) + small(z + 15, 1, hidden=50)
    assert merlin.parts["core"] == core + decoders


def test_the_papers_table_is_copied_right():
    # tab:paramcontrol of the paper, row by row.
    rows = {model.label: (model.score, model.score_error, model.millions) for model in PAPER_MODELS}
    assert rows == {
        "LSTM": (99.3, 1.0, 9.25), "TrXL": (5.0, 0.2, 28.6), "TrXL-I": (107.0, 1.2, 28.6),
        "Thin GTrXL (GRU)": (111.5, 0.6, 22.4), "GTrXL (GRU)": (117.6, 0.3, 66.4), "GTrXL (Input)": (51.2, 13.2, 34.9),
        "GTrXL (Output)": (112.8, 0.8, 34.9), "GTrXL (Highway)": (90.9, 12.9, 34.9), "GTrXL (SigTanh)": (101.0, 1.3, 41.2),
    }  # fmt: skip


def test_shapes_count_like_arrays_and_no_part_is_left_out():
    def make() -> PaperAgent:
        return PaperAgent("gtrxl-gru", key=jax.random.key(0), **TINY, **TINY_CORES["gtrxl-gru"])

    assert parameters(make()) == parameters(eqx.filter_eval_shape(make))
    assert sum(count_paper_models()[4].parts.values()) == parameters(
        eqx.filter_eval_shape(lambda: PaperAgent("gtrxl-gru", key=jax.random.key(0)))
    )


def test_the_core_sees_what_the_paper_says():
    agent = eqx.filter_eval_shape(lambda: PaperAgent("lstm", key=jax.random.key(0)))
    assert agent.core.input_size == PAPER_INPUT_SIZE == 336
    assert agent.core.output_size == 768


def tiny(name: str) -> PaperAgent:
    return PaperAgent(name, key=jax.random.key(0), **TINY, **TINY_CORES[name])


def observations(steps: int, seed: int = 0) -> Observation:
    rng = np.random.default_rng(seed)
    return Observation(
        image=jnp.asarray(rng.integers(0, 256, (steps, 32, 40, 3), dtype=np.uint8)),
        instruction=jnp.asarray(rng.integers(-1, 1000, (steps, 5)), jnp.int32),
        reward_tm1=jnp.asarray(rng.normal(size=steps), jnp.float32),
        action_tm1=jnp.asarray(rng.integers(0, 3, steps), jnp.int32),
    )


def at(tree: Any, step: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[step], tree)


@pytest.mark.parametrize("name", list(TINY_CORES))
def test_unroll_equals_steps(name: str):
    agent, seen = tiny(name), observations(7)
    resets = jnp.array([True, False, False, False, True, False, False])
    answers, end = eqx.filter_jit(agent.unroll)(seen, agent.initial_state(), resets=resets, pixel_control=True)
    assert answers.logits.shape == (7, 3)
    assert answers.values.shape == (7, 2)
    assert answers.pixel_q is not None
    assert answers.pixel_q.shape == (7, 8, 10, 3)
    step, state = eqx.filter_jit(agent.step), agent.initial_state()
    for t in range(7):
        answer, state = step(at(seen, t), state, reset=resets[t], pixel_control=True)
        for one, many in zip(jax.tree.leaves(answer), jax.tree.leaves(at(answers, t)), strict=True):
            np.testing.assert_allclose(one, many, atol=2e-5)
    for one, many in zip(jax.tree.leaves(state), jax.tree.leaves(end), strict=True):
        np.testing.assert_allclose(one, many, atol=2e-5)


def test_nothing_crosses_a_reset_not_even_the_last_reward_and_action():
    agent, resets = tiny("gtrxl-gru"), jnp.array([True, False, False, True, False, False])
    one, other = observations(6, seed=1), observations(6, seed=2)
    mixed = jax.tree.map(lambda a, b: jnp.concatenate([b[:3], a[3:]]), one, other)
    # What is called "previous" at a reset belongs to the other episode.
    mixed = eqx.tree_at(
        lambda o: (o.reward_tm1, o.action_tm1), mixed, (mixed.reward_tm1.at[3].set(9.0), (mixed.action_tm1.at[3].add(1)) % 3)
    )
    unroll = eqx.filter_jit(agent.unroll)
    kept, _ = unroll(one, agent.initial_state(), resets=resets)
    changed, _ = unroll(mixed, agent.initial_state(), resets=resets)
    np.testing.assert_array_equal(kept.logits[3:], changed.logits[3:])
    np.testing.assert_array_equal(kept.values[3:], changed.values[3:])
    assert np.max(np.abs(kept.logits[:3] - changed.logits[:3])) > 0


def test_every_input_reaches_the_core_in_the_papers_order():
    agent, seen = tiny("lstm"), at(observations(1), 0)
    seen = eqx.tree_at(lambda o: (o.reward_tm1, o.action_tm1), seen, (jnp.array(0.5), jnp.array(2)))
    x = agent.encode(seen, jnp.array(False))
    np.testing.assert_allclose(x[:256], agent.vision(seen.image))
    np.testing.assert_allclose(x[256:320], agent.language(seen.instruction))
    np.testing.assert_array_equal(x[320:], [0.5, 0, 0, 1])


def test_pixel_control_is_left_out_unless_asked_for():
    agent = tiny("lstm")
    answer, _ = agent.step(at(observations(1), 0), agent.initial_state(), reset=True)
    assert answer.pixel_q is None


def test_bad_agents_are_named():
    with pytest.raises(CoreError, match="the paper has no core 'gru'"):
        PaperAgent("gru", key=jax.random.key(0), **TINY)
    with pytest.raises(AgentError, match="actions and tasks must be at least 1, got 0 and 30"):
        PaperAgent("lstm", actions=0, key=jax.random.key(0))
