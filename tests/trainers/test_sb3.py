"""The policy in Stable-Baselines3: what it says while acting it says while learning, in both algorithms and for every core."""

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch", reason="pip install 'gtrxl[sb3]'")
pytest.importorskip("sb3_contrib", reason="pip install 'gtrxl[sb3]'")

from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import gtrxl.torch
from gtrxl.cores.errors import CoreError
from gtrxl.trainers.sb3 import GTrXLPolicy, GTrXLPPO
from tests.marks import few
from tests.trainers.tasks import CORES, SPACES, TRANSFORMERS, Noise

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's and Stable-Baselines3's own are not ours to judge

ALGORITHMS = [RecurrentPPO, GTrXLPPO]
TASKS, STEPS = 3, 24


def sizes(core):
    own = {"d_model": 8, "layers": 2}
    return own | {"heads": 2, "memory": 5} if core in TRANSFORMERS else own


def model(algorithm: Any = GTrXLPPO, core: Any = "gtrxl-gru", sees="vector", does=None, policy=GTrXLPolicy, **others):
    env = DummyVecEnv([lambda: Noise(sees, does) for _ in range(TASKS)])
    given = {"core": core, "core_kwargs": sizes(core) if core in CORES else {}}
    given |= others.pop("policy_kwargs", {})
    options = {"n_steps": STEPS, "batch_size": STEPS, "n_epochs": 2, "seed": 0, "device": "cpu"} | others
    return algorithm(policy, env, policy_kwargs=given, **options)


def collected(trainer, rollouts=2):
    """After some rollouts under the same weights: the buffer then begins in the midst of episodes."""

    class Nothing(BaseCallback):
        def _on_step(self):
            return True

    _, callback = trainer._setup_learn(STEPS * TASKS, Nothing())
    for _ in range(rollouts):
        assert trainer.collect_rollouts(trainer.env, callback, trainer.rollout_buffer, trainer.n_steps)
    return trainer.rollout_buffer


def same(ours, theirs):
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-5)


def learned(trainer, batch_size):
    """What the loss would see of each real step: said then, said now."""
    for sample in trainer.rollout_buffer.get(batch_size):
        actions = sample.actions.long().flatten() if isinstance(trainer.action_space, spaces.Discrete) else sample.actions
        values, log_prob, _ = trainer.policy.evaluate_actions(
            sample.observations, actions, sample.lstm_states, sample.episode_starts
        )
        real = sample.mask > 0.5
        yield sample, (sample.old_values[real], values.flatten()[real]), (sample.old_log_prob[real], log_prob[real])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("core", few(CORES, keep=lambda _, core: core in ("gtrxl-gru", "lstm", "none")))
@pytest.mark.parametrize("critic", ["own", "shared"])
def test_learning_sees_what_acting_said(algorithm, core, critic):
    trainer = model(algorithm, core, policy_kwargs={"critic": critic})
    collected(trainer)
    steps = 0
    with torch.no_grad():
        for _, values, log_probs in learned(trainer, STEPS):
            same(values[1], values[0])
            same(log_probs[1], log_probs[0])
            steps += len(values[0])
    assert steps == STEPS * TASKS


@pytest.mark.parametrize("sees", SPACES)
@pytest.mark.parametrize("does", [spaces.Discrete(3), spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.MultiDiscrete([2, 3])])
def test_any_space(sees, does):
    trainer = model(GTrXLPPO, sees=sees, does=does)
    collected(trainer)
    with torch.no_grad():
        for _, values, log_probs in learned(trainer, STEPS):
            same(values[1], values[0])
            same(log_probs[1], log_probs[0])


@pytest.mark.parametrize("core", ["gtrxl-gru", "gru"])
def test_both_algorithms_collect_the_same(core):
    """sb3-contrib's own collection is the source: actions, rewards with what truncated episodes would have gone on to,
    returns."""
    theirs, ours = (collected(model(algorithm, core)) for algorithm in ALGORITHMS)
    for name in ("observations", "actions", "episode_starts"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    for name in ("rewards", "values", "log_probs", "advantages", "returns"):
        same(getattr(ours, name), getattr(theirs, name))
    assert ours.episode_starts[1:].any()


@pytest.mark.parametrize("segment", [4, 24])
def test_every_step_is_in_one_segment(segment):
    trainer = model(segment=segment)
    buffer = collected(trainer)
    returns = np.sort(buffer.returns.reshape(-1))
    with torch.no_grad():
        batches = list(learned(trainer, STEPS))
    assert all(sample.lstm_states.pi[0].shape[1] == STEPS // segment for sample, *_ in batches)
    assert all(bool((sample.mask == 1).all()) for sample, *_ in batches)
    np.testing.assert_array_equal(np.sort(np.concatenate([sample.returns for sample, *_ in batches])), returns)
    for _, values, _ in batches:
        same(values[1], values[0])


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_predict_carries_the_state_and_forgets_at_an_episode_s_start(algorithm):
    trainer = model(algorithm)
    seen = np.stack([SPACES["vector"].sample() for _ in range(12)])
    starts = np.zeros(12, bool)
    starts[[0, 7]] = True

    def values(observations, starts):
        """Of one task, step by step through `predict`; the state says all that is remembered."""
        state, states = None, []
        for observation, start in zip(observations, starts, strict=True):
            action, state = trainer.predict(observation, state=state, episode_start=np.array([start]), deterministic=True)
            assert action.shape == ()
            states.append(trainer.policy.state(tuple(torch.as_tensor(half) for half in state)).actor)
        return states

    whole = values(seen, starts)
    features = torch.as_tensor(seen)[None]
    core = trainer.policy.core.actor
    with torch.no_grad():
        _, memory = core.unroll(features, core.initial_state(1), resets=torch.as_tensor(starts)[None])
        _, anew = core.unroll(features[:, 7:], core.initial_state(1), resets=torch.zeros(1, 5, dtype=torch.bool))
    same(whole[-1].inputs, memory.inputs)
    assert int(whole[-1].filled) == int(anew.filled) == 5
    same(whole[-1].inputs, anew.inputs)
    assert int(values(seen[:3], starts[:3])[-1].filled) == 3


def observations(sees):
    """One for each task."""
    found = [SPACES[sees].sample() for _ in range(TASKS)]
    return {name: np.stack([one[name] for one in found]) for name in found[0]} if isinstance(found[0], dict) else np.stack(found)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("sees", few(["vector", "picture", "dict"], keep=lambda number, _: number == 0))
def test_it_learns_is_saved_and_loaded(algorithm, sees, tmp_path):
    trainer = model(algorithm, sees=sees)
    before = {name: weight.detach().clone() for name, weight in trainer.policy.named_parameters()}
    trainer.learn(2 * STEPS * TASKS)
    changed = [name for name, weight in trainer.policy.named_parameters() if not torch.equal(weight, before[name])]
    assert any(name.startswith("core.actor.blocks.attention") for name in changed)
    assert any(name.startswith("core.critic.blocks.attention") for name in changed)
    assert all(bool(weight.isfinite().all()) for weight in trainer.policy.parameters())

    trainer.save(tmp_path / "model")
    again = algorithm.load(tmp_path / "model", device="cpu")
    trainer.policy.save(tmp_path / "policy")
    alone = GTrXLPolicy.load(tmp_path / "policy", device="cpu")
    states: list = [None, None, None]
    for _ in range(8):
        seen = observations(sees)
        said = []
        for place, each in enumerate((trainer, again, alone)):
            action, states[place] = each.predict(seen, state=states[place], deterministic=True)
            said.append(action)
            same(states[place][0], states[0][0])
        assert (said[0] == said[1]).all()
        assert (said[0] == said[2]).all()
    again.set_env(trainer.get_env())
    again.learn(STEPS * TASKS)


@pytest.mark.parametrize("critic", ["own", "shared"])
def test_the_value_trains_the_policy_s_core_only_if_it_is_shared(critic):
    trainer = model(policy_kwargs={"critic": critic})
    collected(trainer, rollouts=1)
    sample = next(iter(trainer.rollout_buffer.get(STEPS)))
    values, log_prob, _ = trainer.policy.evaluate_actions(
        sample.observations, sample.actions.long().flatten(), sample.lstm_states, sample.episode_starts
    )
    policy = trainer.policy
    actors = list((policy.core.actor if critic == "own" else policy.core).parameters())
    reached = [torch.autograd.grad(out.sum(), actors, retain_graph=True, allow_unused=True) for out in (values, log_prob)]
    moved = [any(each is not None and bool(each.any()) for each in gradients) for gradients in reached]
    assert moved == [critic == "shared", True]


def test_a_core_of_ones_own_goes_by_its_class():
    trainer = model(core=gtrxl.torch.LSTM, policy_kwargs={"core_kwargs": {"d_model": 6, "skip": True, "layers": 2}})
    assert trainer.policy.core.actor.output_size == 12
    trainer.learn(STEPS * TASKS)


def test_memory_is_kept_for_a_segment_s_start_alone():
    """So a rollout costs its segments, not its steps: sb3-contrib's buffer has four tensors of half a state for each step."""
    trainer = model(segment=12)
    buffer = collected(trainer)
    assert [start[0].shape for start in buffer.starts] == [(1, TASKS, 81)] * 2


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"segment": 5}, "segment must divide n_steps = 24, got 5"),
        ({"segment": 24, "batch_size": 36}, "segment must divide batch_size = 36, got 24"),
        ({"core": "gtrlx-gru"}, "there is no core 'gtrlx-gru'"),
        ({"policy_kwargs": {"core_kwargs": {"width": 3}}}, "gtrxl-gru takes no 'width'"),
        ({"policy_kwargs": {"share_features_extractor": False}}, "share_features_extractor must be True, got False"),
        ({"policy_kwargs": {"critic": "none"}}, "critic must be one of own, shared, got 'none'"),
    ],
)
def test_a_mistake_is_one_line(mistake, said):
    with pytest.raises(CoreError) as found:
        model(**mistake)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_segments_are_for_our_policy():
    with pytest.raises(CoreError, match="policy must be a GTrXLPolicy, got RecurrentActorCriticPolicy; for others there is"):
        GTrXLPPO("MlpLstmPolicy", DummyVecEnv([Noise]), n_steps=8, batch_size=8, device="cpu")


def test_a_state_of_another_policy_is_told():
    small = model(policy_kwargs={"core_kwargs": {"d_model": 4, "layers": 1, "heads": 2, "memory": 3}})
    seen = SPACES["vector"].sample()
    _, state = model().predict(seen)
    with pytest.raises(CoreError, match="a state of this policy has 26 numbers for each task, got 162"):
        small.predict(seen, state=state)
