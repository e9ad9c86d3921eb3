"""GTrXL in a PPO loop of your own: Equinox, Optax and a Gymnasium vector environment, without `gtrxl.train`.

    python examples/ppo_loop.py

What a loop must get right with a memory, and where it stands below:
1. `reset` is true with the first observation of an episode, and never else.
2. Learning begins with the memory as it was before the first step of the unroll.
3. A prepared memory belongs to the weights that prepared it; it is made plain before they change.
4. Gymnasium's vector environments show the last observation of an episode and then ignore an action: that step does not count.

B streams, T steps, A actions.
"""

from typing import Any, NamedTuple

import equinox as eqx
import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array

import gtrxl
from gtrxl.algorithms import advantages


class Net(eqx.Module):
    """A core between the observation and one layer for the policy and the value."""

    core: gtrxl.Transformer
    head: eqx.nn.Linear

    def answer(self, y: Array) -> tuple[Array, Array]:
        """Log-probabilities of the actions, and the value."""
        out = jnp.vectorize(self.head, signature="(d)->(a)")(y)
        return jax.nn.log_softmax(out[..., :-1]), out[..., -1]


class Steps(NamedTuple):
    """What happened: arrays [B, T]."""

    observation: Any
    reset: Any
    valid: Any
    action: Any
    log_prob: Any
    value: Any
    reward: Any
    discount: Any


@eqx.filter_jit
def prepare(net: Net, memory: Any, streams: int) -> Any:
    """The memory, ready for many steps under these weights."""
    return gtrxl.Streams(net.core, streams).prepare(memory)


@eqx.filter_jit
def plain(net: Net, fast: Any, streams: int) -> Any:
    """The memory alone, right under any weights."""
    return gtrxl.Streams(net.core, streams).plain(fast)


@eqx.filter_jit
def act(net: Net, observation: Any, fast: Any, reset: Any, key: Array) -> tuple[Array, Array, Array, Any]:
    """An action for every stream, its log-probability, the value, and the memory after the step."""
    y, fast = gtrxl.Streams(net.core, len(reset)).step(observation, fast, reset=reset)
    log_probs, value = net.answer(y)
    action = jax.random.categorical(key, log_probs)
    return action, jnp.take_along_axis(log_probs, action[:, None], 1)[:, 0], value, fast


@eqx.filter_jit
def learn(
    net: Net, opt_state: Any, steps: Steps, memory: Any, last: Array, optimiser: Any, epochs: int, lam: float
) -> tuple[Net, Any]:
    """PPO on one batch of unrolls; `memory` is from before their first step, `last` the value after them."""
    value = jnp.concatenate([steps.value, last[:, None]], axis=1)
    gain = advantages(reward=steps.reward, discount=steps.discount, value=value, valid=steps.valid, lam=lam)
    target = gain + steps.value
    gain = (gain - gain.mean()) / (gain.std() + 1e-6)

    def mean(x: Array) -> Array:
        return jnp.sum(jnp.where(steps.valid, x, 0.0)) / jnp.sum(steps.valid)

    @eqx.filter_grad
    def gradient(net: Net) -> Array:
        ys, _ = gtrxl.Streams(net.core, len(last)).unroll(steps.observation, memory, resets=steps.reset)
        log_probs, value = net.answer(ys)
        ratio = jnp.exp(jnp.take_along_axis(log_probs, steps.action[..., None], 2)[..., 0] - steps.log_prob)
        surrogate = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.2) * gain)
        entropy = -jnp.sum(jnp.exp(log_probs) * log_probs, axis=-1)
        return mean(-surrogate + 0.5 * (value - target) ** 2 - 0.01 * entropy)

    for _ in range(epochs):
        updates, opt_state = optimiser.update(gradient(net), opt_state)
        net = eqx.apply_updates(net, updates)
    return net, opt_state


def main(
    *,
    corridor: int = 10,
    streams: int = 32,
    unroll: int = 24,
    updates: int = 150,
    width: int = 32,
    layers: int = 2,
    seed: int = 0,
) -> list[float]:
    """Learns a T-maze, which cannot be solved without memory, and returns the returns of all episodes."""
    envs = gymnasium.make_vec("gtrxl/TMaze-v0", num_envs=streams, corridor=corridor)
    assert isinstance(envs.single_action_space, gymnasium.spaces.Discrete)
    actions = int(envs.single_action_space.n)
    observation, _ = envs.reset(seed=seed)
    core_key, head_key, key = jax.random.split(jax.random.key(seed), 3)
    core = gtrxl.Transformer(observation.shape[1], d_model=width, layers=layers, heads=2, memory=2 * corridor, key=core_key)
    net = Net(core, eqx.nn.Linear(core.output_size, actions + 1, key=head_key))
    optimiser = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3))
    opt_state = optimiser.init(eqx.filter(net, eqx.is_inexact_array))

    memory = gtrxl.Streams(net.core, streams).initial_state()
    reset, valid = np.ones(streams, bool), np.ones(streams, bool)
    total, returns = np.zeros(streams), []
    for update in range(updates):
        fast, rows = prepare(net, memory, streams), []
        for _ in range(unroll):
            key, act_key = jax.random.split(key)
            action, log_prob, value, fast = act(net, observation, fast, reset, act_key)
            after, reward, terminated, truncated, _ = envs.step(np.asarray(action))
            discount = np.where(terminated, 0.0, 0.97)
            rows.append(Steps(observation, reset, valid, action, log_prob, value, reward.astype(np.float32), discount))
            over = terminated | truncated
            total += reward
            returns += total[over].tolist()
            total[over] = 0
            # What comes after an end is the episode's last observation; what comes after that is the first of the next.
            observation, reset, valid = after, ~valid, ~over
        last = act(net, observation, fast, reset, key)[2]
        steps = Steps(*(jnp.stack([jnp.asarray(each) for each in column], 1) for column in zip(*rows, strict=True)))
        before, memory = memory, plain(net, fast, streams)
        net, opt_state = learn(net, opt_state, steps, before, last, optimiser, 4, 0.95)
        if update % 10 == 9 and returns:
            print(f"update {update + 1:4}: mean return {np.mean(returns[-200:]):.2f} (without memory at most 0.5)", flush=True)
    envs.close()
    return returns


if __name__ == "__main__":
    main()
