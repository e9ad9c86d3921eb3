"""Our cores in Stable-Baselines3 beside its LSTM: frames a second, and the score on CartPole without velocities.

    python benchmarks/sb3.py --out docs/data/sb3.json              # frames a second, turn by turn
    python benchmarks/sb3.py --learn 3 --out docs/data/sb3_learned.json    # 100,000 frames each, 3 seeds

All but one have what rl-baselines3-zoo has for RecurrentPPO on CartPoleNoVel: 8 tasks x 32 steps, batches of 256, 20 epochs,
and the published 100,000 frames. Its LSTM has sb3-contrib's default sizes (256, two of them); a second one has the width of our
cores. One thread; seconds are those of its processor, which a busy machine disturbs less than the clock's. Each turn is a process
of its own, and the ratios are those within a turn. A score is the mean return of 20 episodes after training, with the likeliest
actions; 500 is perfect.
"""

import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

import gymnasium
import numpy as np
import tyro

GTRXL = {"core": "gtrxl-gru", "core_kwargs": {"d_model": 64, "layers": 1, "heads": 4, "memory": 16}}
SHARED = {**GTRXL, "critic": "shared"}
FEWER = {"n_steps": 128, "n_epochs": 10}
CONTENDERS: dict[str, tuple[str, dict[str, Any], dict[str, int]]] = {
    "RecurrentPPO, its LSTM 256": ("RecurrentPPO", {}, {}),
    "RecurrentPPO, its LSTM 64": ("RecurrentPPO", {"lstm_hidden_size": 64}, {}),
    "RecurrentPPO, GTrXLPolicy 1 x 64": ("RecurrentPPO", GTRXL, {}),
    "GTrXLPPO, GTrXLPolicy 1 x 64": ("GTrXLPPO", GTRXL, {}),
    "GTrXLPPO, GTrXLPolicy 1 x 64, shared": ("GTrXLPPO", SHARED, {}),
    "GTrXLPPO, the same, 128 steps and 10 epochs": ("GTrXLPPO", SHARED, FEWER),
    "GTrXLPPO, our LSTM 64": ("GTrXLPPO", {"core": "lstm", "core_kwargs": {"d_model": 64}}, {}),
}
"""Name -> the algorithm, what it gives its policy, and which of its settings are others. The first is whom the others are
compared with; the one with fewer epochs is the script of docs/sb3.md."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    turns: int = 3
    frames: int = 8_192
    """Of a turn."""
    learn: int = 0
    """Seeds to train on instead, for 100,000 frames each."""
    only: tuple[str, ...] = ()
    """Contenders whose names hold one of these; all if empty."""
    out: pathlib.Path | None = None
    turn: str | None = None
    """One turn in this process: a contender, a bar, a seed; prints frames a second, and a score if `learn`."""


def make() -> gymnasium.Env:
    """CartPole that shows positions alone, in units of where an episode ends: as they come, angles are too small to see."""
    shown, limits = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32), np.array([2.4, 0.21], np.float32)
    return gymnasium.wrappers.TransformObservation(gymnasium.make("CartPole-v1"), lambda seen: seen[[0, 2]] / limits, shown)


def here(turn: str, settings: Settings) -> tuple[float, float | None]:
    """One turn: frames a second of the processor between the first rollout and the last, and the score."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    from gtrxl.trainers.sb3 import GTrXLPolicy, GTrXLPPO

    torch.set_num_threads(1)
    name, _, seed = turn.rpartition("|")
    algorithm, of_policy, other = CONTENDERS[name]
    policy: Any = GTrXLPolicy if "core" in of_policy else "MlpLstmPolicy"
    times: list[tuple[int, float]] = []

    class Clock(BaseCallback):
        """Notes when a rollout begins."""

        def _on_rollout_start(self) -> None:
            times.append((self.num_timesteps, time.process_time()))

        def _on_step(self) -> bool:
            return True

    model = {"RecurrentPPO": RecurrentPPO, "GTrXLPPO": GTrXLPPO}[algorithm](
        policy,
        make_vec_env(make, n_envs=8, seed=int(seed)),
        **({"n_steps": 32, "n_epochs": 20} | other),
        batch_size=256,
        gamma=0.98,
        gae_lambda=0.8,
        learning_rate=lambda left: 1e-3 * left,
        clip_range=lambda left: 0.2 * left,
        vf_coef=0.05 if of_policy.get("critic") == "shared" else 0.5,
        policy_kwargs=of_policy,
        seed=int(seed),
        device="cpu",
    )
    model.learn(100_000 if settings.learn else settings.frames, callback=Clock())
    (first, begun), (last, ended) = times[1], times[-1]
    score = None
    if settings.learn:
        score, _ = evaluate_policy(model, make_vec_env(make, n_envs=8, seed=1000 + int(seed)), n_eval_episodes=20)
    return (last - first) / (ended - begun), score  # pyright: ignore[reportReturnType]


def elsewhere(name: str, seed: int, settings: Settings) -> tuple[float, float | None]:
    """The same in a process of its own."""
    words = [
        sys.executable,
        __file__,
        "--turn",
        f"{name}|{seed}",
        "--frames",
        str(settings.frames),
        "--learn",
        str(settings.learn),
    ]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    rate, score = json.loads(done.stdout.splitlines()[-1])
    return rate, score


def main() -> None:
    """Turns, then the table."""
    settings = tyro.cli(Settings, description=__doc__)
    if settings.turn is not None:
        print(json.dumps(here(settings.turn, settings)))
        return
    names = [name for name in CONTENDERS if not settings.only or any(part in name for part in settings.only)]
    found: dict[str, list[tuple[float, float | None]]] = {name: [] for name in names}
    for turn in range(settings.learn or settings.turns):
        for name in names:
            found[name].append(elsewhere(name, turn, settings))
            print(f"turn {turn}: {name}: {found[name][-1]}", file=sys.stderr, flush=True)
    print("| contender | frames/s | times its LSTM |" + (" scores |" if settings.learn else ""))
    print("|---|---:|---:|" + ("---|" if settings.learn else ""))
    rows = []
    for name, each in found.items():
        rates, scores = [rate for rate, _ in each], [score for _, score in each]
        ratios = [rate / base for rate, (base, _) in zip(rates, found[names[0]], strict=True)]
        shown = f" {', '.join(f'{score:.0f}' for score in scores)} |" if settings.learn else ""
        print(f"| {name} | {statistics.median(rates):,.0f} | {statistics.median(ratios):.2f} |{shown}")
        row = {"contender": name, "rates": [round(rate, 1) for rate in rates], "times": [round(ratio, 2) for ratio in ratios]}
        rows.append(row | ({"scores": scores} if settings.learn else {}))
    if settings.out is not None:
        what = f"--learn {settings.learn}" if settings.learn else f"--turns {settings.turns} --frames {settings.frames}"
        command = f"python benchmarks/sb3.py {what}"
        settings.out.write_text(json.dumps({"made_by": command, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
