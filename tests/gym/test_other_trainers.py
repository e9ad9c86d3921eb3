"""Our tasks under someone else's trainer: Stable-Baselines3's recurrent PPO. Needs the extra `sb3`; skipped without it."""

import gymnasium
import numpy as np
import pytest

import gtrxl.tasks  # registers the tasks

sb3_contrib = pytest.importorskip("sb3_contrib", reason="pip install 'gtrxl[sb3]'")

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's and Stable-Baselines3's own are not ours to judge


@pytest.mark.parametrize("name", ["gtrxl/Numpad-v0", "gtrxl/GridNumpad-v0"])
def test_its_checker_finds_nothing_wrong(name, recwarn):
    from stable_baselines3.common.env_checker import check_env

    assert gtrxl.tasks
    env = gymnasium.make(name)
    check_env(env, warn=True, skip_render_check=True)
    assert not [str(each.message) for each in recwarn if "stable_baselines3" in str(each.filename)]


@pytest.mark.parametrize(("name", "size"), [("gtrxl/Numpad-v0", 2), ("gtrxl/GridNumpad-v0", 2)])
def test_recurrent_ppo_trains_on_it(name, size):
    def make() -> gymnasium.Env:
        return gymnasium.make(name, size=size, episode_steps=40)

    model = sb3_contrib.RecurrentPPO(
        "MlpLstmPolicy", make(), n_steps=64, batch_size=32, n_epochs=2, seed=0, policy_kwargs={"lstm_hidden_size": 16}
    )
    before = {key: value.detach().clone().numpy() for key, value in model.policy.named_parameters()}
    model.learn(total_timesteps=256)
    after = {key: value.detach().numpy() for key, value in model.policy.named_parameters()}
    assert model.num_timesteps == 256
    assert len(model.ep_info_buffer) == 256 // 40  # whole episodes reached it, through Gymnasium's own statistics
    assert all(np.isfinite(value).all() for value in after.values())
    assert any((before[key] != after[key]).any() for key in after if "lstm_actor" in key)  # its memory learned from our episodes


def test_a_trained_model_plays_an_episode_to_its_end():
    env = gymnasium.make("gtrxl/Numpad-v0", size=2, episode_steps=30)
    model = sb3_contrib.RecurrentPPO("MlpLstmPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0)
    model.learn(total_timesteps=32)
    observation, _ = env.reset(seed=1)
    state, begins, steps, over = None, np.ones(1, bool), 0, False
    while not over:
        action, state = model.predict(observation, state=state, episode_start=begins)
        observation, _, terminated, truncated, _ = env.step(action)
        begins, steps, over = np.zeros(1, bool), steps + 1, terminated or truncated
    assert steps == 30
