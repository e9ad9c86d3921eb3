"""The recall task is what it says, and the smallest experiment runs from start to picture."""

import dataclasses
import json
import pathlib

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.cli import main as cli
from gtrxl.cores import CoreError
from gtrxl.experiments import delayed_recall as recall
from gtrxl.report import recall_picture as picture

TINY = recall.RecallExperiment(
    cores=("none", "lstm"),
    seeds=(0, 1),
    updates=4,
    streams=5,
    unroll=5,
    longest_delay=7,
    memory=8,
    test_delays=(1, 9),
    test_episodes=8,
    stream_steps=20,
)


def streams(count: int = 16, steps: int = 200, longest_delay: int = 12) -> recall.Shown:
    episode_key, segment_key = jax.random.split(jax.random.key(0))
    episodes = recall.draw_episodes(episode_key, (count,), longest_delay=longest_delay)
    return recall.segment(episodes, segment_key, steps=steps, longest_delay=longest_delay)[1]


def test_the_target_is_the_symbol_marked_earlier_in_the_episode():
    shown = jax.tree.map(np.asarray, streams())
    delays = []
    for x, reset, asked, target in zip(shown.x, shown.reset, shown.asked, shown.target, strict=True):
        assert reset[0]
        marked = None
        for t in range(x.shape[0]):
            if reset[t]:
                assert t == 0 or asked[t - 1]  # an episode starts where the last one was asked
                marked = None
            if x[t, recall.SYMBOLS]:
                assert marked is None  # one mark per episode
                marked = t
            assert asked[t] == x[t, recall.SYMBOLS + 1]
            if asked[t]:
                assert marked is not None
                assert target[t] == np.argmax(x[marked, : recall.SYMBOLS])
                delays.append(t - marked)
            else:
                assert np.sum(x[t, : recall.SYMBOLS]) == 1
    assert set(delays) == set(range(1, 13))


def test_the_query_alone_tells_nothing():
    """A memoryless oracle sees the same input at every query; its best constant answer is right about 1 time in 8."""
    shown = jax.tree.map(np.asarray, streams(count=64))
    queries, targets = shown.x[shown.asked], shown.target[shown.asked]
    assert len(np.unique(queries, axis=0)) == 1
    shares = np.bincount(targets, minlength=recall.SYMBOLS) / len(targets)
    assert len(targets) > 1000
    np.testing.assert_allclose(shares, 1 / recall.SYMBOLS, atol=0.04)  # 4 standard deviations


def test_streams_in_pieces_are_the_same_streams():
    """Where a stream stands is all that is carried: the episode goes on over the border of two segments."""
    episodes = dataclasses.replace(recall.draw_episodes(jax.random.key(1), (4,), longest_delay=3), delay=jnp.full((4,), 20))
    episodes, first = recall.segment(episodes, jax.random.key(2), steps=10, longest_delay=3)
    _, second = recall.segment(episodes, jax.random.key(3), steps=30, longest_delay=3)
    asked = np.concatenate([first.asked, second.asked], axis=1)
    marked = np.concatenate([first.x, second.x], axis=1)[:, :, recall.SYMBOLS]
    np.testing.assert_array_equal(np.argmax(asked, axis=1) - np.argmax(marked, axis=1), [20] * 4)


def test_a_perfect_memory_scores_all_and_no_memory_scores_chance():
    """`test` asks at the right moment: a core wired by hand to keep the marked symbol answers everything."""

    class Perfect(recall.Core):
        input_size: int = recall.INPUT_SIZE
        output_size: int = recall.SYMBOLS

        def initial_state(self) -> jax.Array:
            return jnp.zeros((recall.SYMBOLS,))

        def _step(self, x, state, reset):
            state = jnp.where(reset, 0.0, state) + x[: recall.SYMBOLS] * x[recall.SYMBOLS]
            return state, state

        def _unroll(self, xs, state, resets):
            def one(state, of):
                y, state = self._step(of[0], state, of[1])
                return state, y

            state, ys = jax.lax.scan(one, state, (xs, resets))
            return ys, state

    answer = recall.Linear(recall.SYMBOLS, recall.SYMBOLS, key=jax.random.key(0))
    answer = eqx.tree_at(lambda of: of.weight, answer, jnp.eye(recall.SYMBOLS))
    network = recall.Network(core=Perfect(), answer=answer)
    settings = dataclasses.replace(TINY, test_delays=(1, 4, 5, 16, 33), test_episodes=64)
    assert recall.test(network, settings, jax.random.key(0)).tolist() == [64] * 5
    shown = jax.tree.map(lambda leaf: leaf[0], streams(count=1, steps=60))
    told = np.argmax(recall.ask_always(network, shown), axis=-1)
    marks = np.asarray(shown.x)[:, recall.SYMBOLS] == 1
    known = np.asarray([np.any(marks[_start(shown.reset, t) : t + 1]) for t in range(60)])
    np.testing.assert_array_equal(told[known], np.asarray(shown.target)[known])
    none = recall.make_network("none", settings, key=jax.random.key(0))
    right = recall.test(none, dataclasses.replace(settings, test_episodes=400), jax.random.key(0))
    np.testing.assert_allclose(right / 400, 1 / recall.SYMBOLS, atol=0.07)  # 4 standard deviations


def _start(resets: jax.Array, t: int) -> int:
    return int(np.flatnonzero(np.asarray(resets)[: t + 1])[-1])


def test_the_cores_compared_are_of_one_size():
    sizes = {}
    for name in ("gtrxl-gru", "lstm", "gru", "none"):
        network = jax.eval_shape(lambda name=name: recall.make_network(name, recall.RecallExperiment(), key=jax.random.key(0)))
        sizes[name] = sum(leaf.size for leaf in jax.tree.leaves(network))
    assert max(sizes.values()) < 1.06 * min(sizes.values()), sizes


@pytest.mark.slow
def test_the_smallest_experiment_from_start_to_picture(tmp_path: pathlib.Path):
    reports = []
    results = recall.run(TINY, lambda *report: reports.append(report), chunk=2)
    runs = [(core, seed) for core in TINY.cores for seed in TINY.seeds]
    assert [report[:3] for report in reports] == [(*run, updates) for run in runs for updates in (2, 4)]
    assert [(row["core"], row["seed"], row["delay"]) for row in results["rows"]] == [
        (*run, delay) for run in runs for delay in (1, 9)
    ]
    assert all(row["right"] / row["episodes"] == pytest.approx(row["accuracy"], abs=1e-4) for row in results["rows"])
    np.testing.assert_allclose(np.sum(results["stream"]["probabilities"]["lstm"], axis=1), 1, atol=5e-3)

    again = recall.run(TINY, lambda *_: None, chunk=2)
    assert all(results[part] == again[part] for part in ("rows", "learning", "stream"))  # the same seed, the same numbers

    read = json.loads(picture.as_json(results))
    assert read == json.loads(json.dumps(results))
    files = [tmp_path / "recall.png", tmp_path / "recall.svg"]
    picture.draw(read, files=files)
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert "<svg" in files[1].read_text()
    assert "95 % not reached in 4 updates" in picture.summary(read)


def test_another_seed_is_another_network():
    one, other = (recall.start("none", TINY, jax.random.key(seed)) for seed in (0, 1))
    assert np.any(np.asarray(one.network.answer.weight) != np.asarray(other.network.answer.weight))
    assert np.any(np.asarray(one.episodes.symbol) != np.asarray(other.episodes.symbol))


def test_the_command_writes_what_it_says(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]):
    assert cli.main(["demo", "--cores", "none", "--updates", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["recall.json", "recall.png", "recall.svg"]
    assert "chance is 12.5 %" in said.out
    results = json.loads((tmp_path / "recall.json").read_text())
    assert {row["core"] for row in results["rows"]} == {"none"}


@pytest.mark.parametrize(("changes", "words"), [
    ({"streams": 0}, "streams must be at least 1, got 0; the default is 32"),
    ({"test_delays": (0, 4)}, "test_delays must be at least 1, got 0"),
    ({"seeds": ()}, "seeds must name at least one"),
])  # fmt: skip
def test_bad_settings_are_named(changes: dict, words: str):
    with pytest.raises(CoreError, match=words):
        recall.RecallExperiment(**changes)
