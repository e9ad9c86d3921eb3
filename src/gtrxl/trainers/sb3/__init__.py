"""The cores in Stable-Baselines3: a policy for sb3-contrib's `RecurrentPPO`, and `GTrXLPPO`, which trains it faster.

    from gtrxl.trainers.sb3 import GTrXLPPO, GTrXLPolicy

    model = GTrXLPPO(GTrXLPolicy, "CartPole-v1", policy_kwargs={"core": "gtrxl-gru", "core_kwargs": {"memory": 32}})
    model.learn(100_000)

Needs Stable-Baselines3: `pip install 'gtrxl[sb3]'`.
"""

from gtrxl.trainers.extras import need

need("torch", "stable_baselines3", "sb3_contrib", extra="sb3")

from gtrxl.trainers.sb3.policy import GTrXLPolicy
from gtrxl.trainers.sb3.ppo import GTrXLPPO

__all__ = ["GTrXLPPO", "GTrXLPolicy"]
