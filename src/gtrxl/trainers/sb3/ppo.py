"""`RecurrentPPO` of sb3-contrib that learns from whole segments and acts from a prepared memory. B tasks."""

import math
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import obs_as_tensor
from stable_baselines3.common.vec_env import VecEnv

from gtrxl.cores.errors import CoreError
from gtrxl.trainers.sb3.policy import GTrXLPolicy
from gtrxl.trainers.sb3.segments import check_segment, segment_buffer
from gtrxl.trainers.states import plain, prepared


class GTrXLPPO(RecurrentPPO):
    """The arguments, the loss and the calls of `RecurrentPPO`; what differs is how steps are kept and given to the loss.

    A rollout of `n_steps` is cut into segments of `segment` steps, by default as long as `n_steps` and `batch_size` allow.
    Episodes may begin inside a segment, and nothing is padded. Gradients flow within a segment; what came before it is in its
    first state.
    """

    policy_aliases = {**RecurrentPPO.policy_aliases, "GTrXLPolicy": GTrXLPolicy}  # noqa: RUF012 (as the parent has it)

    def __init__(self, policy: str | type[GTrXLPolicy], env: Any, *rest: Any, segment: int | None = None, **others: Any):
        self.segment = segment
        super().__init__(policy, env, *rest, **others)

    def _setup_model(self) -> None:
        whole = math.gcd(self.n_steps, self.batch_size or self.n_steps)
        segment = check_segment(self.segment or whole, n_steps=self.n_steps, batch_size=self.batch_size)
        steps, self.n_steps = self.n_steps, 1  # the parent's buffer, which would hold a state for every step, is made for nothing
        super()._setup_model()
        self.n_steps = steps
        if not isinstance(self.policy, GTrXLPolicy):
            raise CoreError(f"policy must be a GTrXLPolicy, got {type(self.policy).__name__}; for others there is RecurrentPPO")
        self._last_lstm_states: Any = self.policy.core.initial_state(self.n_envs)
        self.rollout_buffer = segment_buffer(
            self.observation_space,
            self.n_steps,
            self.observation_space,
            self.action_space,
            self.device,
            gamma=self.gamma,
            gae_lambda=self.gae_lambda,
            n_envs=self.n_envs,
            segment=segment,
        )

    def collect_rollouts(self, env: VecEnv, callback: BaseCallback, rollout_buffer: Any, n_rollout_steps: int) -> bool:
        """As the parent's; the memory is projected once, at the start, because the weights stay as they are meanwhile."""
        policy: Any = self.policy
        policy.set_training_mode(False)
        rollout_buffer.reset()
        if self.use_sde:
            policy.reset_noise(env.num_envs)
        callback.on_rollout_start()
        with torch.no_grad():
            state = prepared(policy.core, self._last_lstm_states)
            for step in range(n_rollout_steps):
                if self.use_sde and step and self.sde_sample_freq > 0 and step % self.sde_sample_freq == 0:
                    policy.reset_noise(env.num_envs)
                start = policy.halves(state, env.num_envs) if rollout_buffer.begins_segment() else None
                seen, starts = self._last_obs, self._last_episode_starts
                assert seen is not None
                obs_tensor, resets = obs_as_tensor(seen, self.device), torch.as_tensor(starts, device=self.device)
                actions, values, log_probs, state = policy.act(obs_tensor, state, resets)
                actions = actions.cpu().numpy()
                new_obs, rewards, dones, infos = env.step(self._allowed(actions))
                self.num_timesteps += env.num_envs
                callback.update_locals(locals())
                if not callback.on_step():
                    return False
                self._update_info_buffer(infos, dones)
                self._bootstrap(rewards, dones, infos, state)
                rollout_buffer.add(seen, actions, rewards, starts, values, log_probs, state=start)
                self._last_obs, self._last_episode_starts = new_obs, dones  # pyright: ignore[reportAttributeAccessIssue]
            self._last_lstm_states = plain(policy.core, state)
            seen, starts = self._last_obs, self._last_episode_starts
            assert seen is not None
            assert starts is not None
            last_values = self._values(obs_as_tensor(seen, self.device), self._last_lstm_states, starts)
        rollout_buffer.compute_returns_and_advantage(last_values=last_values, dones=starts)
        callback.update_locals(locals())
        callback.on_rollout_end()
        return True

    def _allowed(self, actions: np.ndarray) -> np.ndarray:
        """What the tasks take: a Gaussian knows no bounds."""
        if not isinstance(self.action_space, spaces.Box):
            return actions
        if self.policy.squash_output:
            return self.policy.unscale_action(actions)  # pyright: ignore[reportReturnType]
        return np.clip(actions, self.action_space.low, self.action_space.high)

    def _bootstrap(self, rewards: np.ndarray, dones: np.ndarray, infos: list[dict], state: Any) -> None:
        """An episode that only ran out of time would have gone on: its last reward has what the critic expects after it."""
        cut = [
            each
            for each in np.flatnonzero(dones)
            if infos[each].get("TimeLimit.truncated") and "terminal_observation" in infos[each]
        ]
        if not cut:
            return
        policy: Any = self.policy
        memory = policy.layout.parts(plain(policy.core, state))
        for each in cut:
            seen, _ = policy.obs_to_tensor(infos[each]["terminal_observation"])
            of_it = policy.layout.state({name: part[each : each + 1] for name, part in memory.items()})
            rewards[each] += self.gamma * self._values(seen, of_it, np.zeros(1, bool)).item()

    def _values(self, seen: Any, state: Any, starts: np.ndarray) -> torch.Tensor:
        resets = torch.as_tensor(starts, device=self.device)
        policy: Any = self.policy
        return policy._values(policy.remember(seen, state, resets, sequences=len(starts))[0])
