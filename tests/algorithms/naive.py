"""The learners once more, in NumPy, float64 and loops over steps: as the papers write them, to compare with.

A loss here takes the batch twice: `live`, what gradients flow through, and `still`, what they do not (the papers' stop-gradient).
Central differences in `live` are then the gradient that the learner must have. B streams, T steps.
"""

import numpy as np


def returns(reward, discount, value, valid, lam):
    """G_t by its recursion, one stream after the other."""
    G = np.zeros_like(reward)
    for b in range(reward.shape[0]):
        following = value[b, -1]
        for t in reversed(range(reward.shape[1])):
            if valid[b, t]:
                mix = (1 - lam) * value[b, t + 1] + lam * following
                following = reward[b, t] + discount[b, t] * mix
            else:
                following = value[b, t]
            G[b, t] = following
    return G


def vtrace(reward, discount, value, valid, log_ratio, lam, rho_bar, c_bar):
    """V-trace by the sum that defines it (Espeholt et al. 2018, eq. 1), not by its recursion."""
    B, T = reward.shape
    targets, advantages = value[:, :-1].copy(), np.zeros((B, T))
    ratio = np.exp(np.where(valid, log_ratio, 0))
    for b in range(B):
        for t in range(T):
            trace = 1.0
            for k in range(t, T):
                if not valid[b, k]:
                    break
                surprise = reward[b, k] + discount[b, k] * value[b, k + 1] - value[b, k]
                targets[b, t] += trace * min(rho_bar, ratio[b, k]) * surprise
                trace *= discount[b, k] * lam * min(c_bar, ratio[b, k])
        for t in range(T):
            if valid[b, t]:
                later = targets[b, t + 1] if t + 1 < T else value[b, T]
                later = lam * later + (1 - lam) * value[b, t + 1]
                advantages[b, t] = min(rho_bar, ratio[b, t]) * (reward[b, t] + discount[b, t] * later - value[b, t])
    return targets, advantages


def steps(valid):
    """Where a step counts, as (stream, time) pairs."""
    return [(b, t) for b in range(valid.shape[0]) for t in range(valid.shape[1]) if valid[b, t]]


def better_half(advantage, valid):
    """The steps with the largest advantages: half of those that count, rounded up."""
    ranked = sorted(steps(valid), key=lambda at: -advantage[at])
    return ranked[: (len(ranked) + 1) // 2]


def temperature_loss(advantage, half, eta, epsilon):
    return eta * epsilon + eta * np.log(sum(np.exp(advantage[at] / eta) for at in half) / len(half))


def in_units(batch, value):
    return value * batch["scale"][:, None] + batch["shift"][:, None]


def normalised(batch, x):
    return (x - batch["shift"][:, None]) / batch["scale"][:, None]


def value_loss(live, target, at):
    return sum((live["value"][i] - target[i]) ** 2 for i in at) / len(at) / 2


def vmpo(learner, live, still):
    """L_pi + L_V + L_eta + L_alpha (Song et al. 2019), as a dictionary of terms."""
    at = steps(still["valid"])
    unscaled = returns(still["reward"], still["discount"], in_units(still, still["value"]), still["valid"], learner.lam)
    target = normalised(still, unscaled)
    advantage = target - still["value"][:, :-1]
    if learner.rank_in_reward_units:
        advantage = advantage * still["scale"][:, None]
    half = better_half(advantage, still["valid"])
    total = sum(np.exp(advantage[i] / still["eta"]) for i in half)
    policy = -sum(np.exp(advantage[i] / still["eta"]) / total * live["log_prob"][i] for i in half)
    kl = 0.0
    for name, (_, epsilon) in learner.bounds().items():
        if f"kl_{name}" in live:
            moved, alpha = f"kl_{name}", f"alpha_{name}"
            kl += sum(live[alpha] * (epsilon - still[moved][i]) + still[alpha] * live[moved][i] for i in at) / len(at)
    temperature = temperature_loss(advantage, half, live["eta"], learner.eps_eta)
    return {"policy": policy, "value": value_loss(live, target, at), "temperature": temperature, "kl": kl}


def ppo(learner, live, still):
    at = steps(still["valid"])
    acting = in_units(still, still["behaviour_value"])
    target = normalised(still, returns(still["reward"], still["discount"], acting, still["valid"], learner.lam))
    advantage = target - still["behaviour_value"][:, :-1]
    counted = np.array([advantage[i] for i in at])
    advantage = (advantage - counted.mean()) / counted.std()
    policy = entropy = 0.0
    for i in at:
        ratio = np.exp(live["log_prob"][i] - still["behaviour_log_prob"][i])
        clipped = min(max(ratio, 1 - learner.clip), 1 + learner.clip)
        policy -= min(ratio * advantage[i], clipped * advantage[i]) / len(at)
        entropy -= learner.entropy_cost * live["entropy"][i] / len(at)
    return {"policy": policy, "value": learner.value_cost * value_loss(live, target, at), "entropy": entropy}


def impala(learner, live, still):
    at = steps(still["valid"])
    target, advantage = vtrace(
        still["reward"], still["discount"], in_units(still, still["value"]), still["valid"],
        still["log_prob"] - still["behaviour_log_prob"], learner.lam, learner.rho_bar, learner.c_bar,
    )  # fmt: skip
    advantage = advantage / still["scale"][:, None]
    policy = -sum(advantage[i] * live["log_prob"][i] for i in at) / len(at)
    entropy = -learner.entropy_cost * sum(live["entropy"][i] for i in at) / len(at)
    value = learner.value_cost * value_loss(live, normalised(still, target), at)
    return {"policy": policy, "value": value, "entropy": entropy}


def gradient(loss, live, still, name, size=1e-6):
    """Central differences of a sum of terms, for every entry of `live[name]`."""
    found = np.zeros_like(live[name])
    for i in np.ndindex(found.shape):
        ends = []
        for sign in (1, -1):
            moved = {key: np.array(of) for key, of in live.items()}
            moved[name][i] += sign * size
            ends.append(sum(loss(moved, still).values()))
        found[i] = (ends[0] - ends[1]) / (2 * size)
    return found


def popart_one_by_one(mean, second_moment, targets, step):
    """Running mean and second moment, moved by one return after the other."""
    for target in targets:
        mean += step * (target - mean)
        second_moment += step * (target**2 - second_moment)
    return mean, second_moment
