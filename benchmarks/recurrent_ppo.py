"""How fast is training on a Gymnasium task beside Stable-Baselines3's RecurrentPPO, on the same machine?

    pip install sb3-contrib popgym
    python benchmarks/recurrent_ppo.py --out docs/data/recurrent_ppo.json

The contenders take turns, each turn is a training run in a process of its own, and the ratios are those within a turn: what else
the machine does falls on all of them. Frames a second are those between the first report and the last, so that starting and
compiling count for nobody. RecurrentPPO has what rl-baselines3-zoo has for CartPole without velocities: 8 tasks x 32 steps, 20
epochs, an LSTM of 64; batches of 256, a second LSTM for the value and observations as they are were chosen here. It is also run
with one epoch, which nobody learns with, to see its own ceiling. Ours has its defaults: 16 tasks x 32 steps, each frame learned
from once.
"""

import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

import tyro

TASKS = {"RepeatPreviousEasy": ("popgym-RepeatPreviousEasy-v0", ()), "CartPole": ("CartPole-v1", ("--mask-velocity",))}
"""Name -> the id, and our options. RecurrentPPO is given CartPole as it is: hiding numbers costs it nothing then."""
EPOCHS = {"RecurrentPPO": 20, "RecurrentPPO, 1 epoch": 1}
CORES = {"gtrxl, LSTM 1 x 128": "lstm", "gtrxl, GTrXL-GRU 2 x 64": "gtrxl-gru"}
BEFORE = "RecurrentPPO"
"""Whom the others are compared with."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    tasks: tuple[str, ...] = tuple(TASKS)
    turns: int = 5
    frames: int = 250_000
    """Of one of our turns."""
    rival_frames: int = 10_000
    """Of one of theirs."""
    threads: int = 1
    """Of torch: for nets of this size more are not faster."""
    options: str = ""
    """More options of `gtrxl train`, in one text."""
    out: pathlib.Path | None = None
    turn: str | None = None
    """One turn of RecurrentPPO in this process: the id of its task, a colon, its epochs; prints frames a second."""


def ours(core: str, id: str, options: tuple[str, ...], settings: Settings) -> float:
    """One training run: frames a second between its first report and its last."""
    with tempfile.TemporaryDirectory() as folder:
        run = pathlib.Path(folder) / "run"
        words = ["gtrxl", "train", f"gym:{id}", "--algorithm", "vmpo", "--core", core]
        words += ["--steps", str(settings.frames), "--reports", "20"]
        more = [*options, *settings.options.split(), "--run", str(run), "--no-board"]
        subprocess.run([sys.executable, "-m", *words, *more], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        return (rows[-1]["frames"] - rows[0]["frames"]) / (rows[-1]["seconds"] - rows[0]["seconds"])


def theirs(epochs: int, id: str, settings: Settings) -> float:
    """The same of RecurrentPPO."""
    words = [sys.executable, __file__, "--turn", f"{id}:{epochs}", "--rival-frames", str(settings.rival_frames)]
    words += ["--threads", str(settings.threads)]
    done = subprocess.run(words, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return float(done.stdout.split()[-1])


def rival_turn(turn: str, settings: Settings) -> float:
    """RecurrentPPO, here: frames a second between its first batch and its last."""
    import torch  # pyright: ignore[reportMissingImports]
    from sb3_contrib import RecurrentPPO  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.callbacks import BaseCallback  # pyright: ignore[reportMissingImports]
    from stable_baselines3.common.env_util import make_vec_env  # pyright: ignore[reportMissingImports]

    torch.set_num_threads(settings.threads)
    id, _, epochs = turn.rpartition(":")
    if id.startswith("popgym-"):
        import popgym  # noqa: F401  # pyright: ignore[reportMissingImports]
    times: list[tuple[int, float]] = []

    class Clock(BaseCallback):
        """Notes when a batch begins."""

        def _on_rollout_start(self) -> None:
            times.append((self.num_timesteps, time.perf_counter()))

        def _on_step(self) -> bool:
            return True

    nets: dict[str, Any] = {"lstm_hidden_size": 64, "enable_critic_lstm": True, "ortho_init": False, "net_arch": [64]}
    learned: dict[str, Any] = {"gamma": 0.98, "gae_lambda": 0.8, "learning_rate": 1e-3, "ent_coef": 0.0}
    sizes: dict[str, Any] = {"n_steps": 32, "batch_size": 256, "n_epochs": int(epochs)}
    model = RecurrentPPO("MlpLstmPolicy", make_vec_env(id, n_envs=8), policy_kwargs=nets, **sizes, **learned)
    model.learn(settings.rival_frames, callback=Clock())
    (first, begun), (last, ended) = times[1], times[-1]
    return (last - first) / (ended - begun)


def main() -> None:
    """Turns, then the table."""
    settings = tyro.cli(Settings, description=__doc__)
    if settings.turn is not None:
        print(rival_turn(settings.turn, settings))
        return
    rows = []
    print("| task | contender | frames/s | slowest to fastest | times RecurrentPPO, turn by turn |\n|---|---|---:|---|---|")
    for name in settings.tasks:
        id, options = TASKS[name]
        rates: dict[str, list[float]] = {each: [] for each in (*EPOCHS, *CORES)}
        for _ in range(settings.turns):
            for each, epochs in EPOCHS.items():
                rates[each].append(theirs(epochs, id, settings))
            for each, core in CORES.items():
                rates[each].append(ours(core, id, options, settings))
        for each, found in rates.items():
            times = [mine / base for mine, base in zip(found, rates[BEFORE], strict=True)]
            spread = f"{min(found):,.0f} to {max(found):,.0f}"
            middle, shown = statistics.median(times), ", ".join(f"{ratio:.1f}" for ratio in sorted(times))
            print(f"| {name} | {each} | {statistics.median(found):,.0f} | {spread} | {middle:.1f} ({shown}) |", flush=True)
            rounded = {"rates": [round(rate, 1) for rate in found], "times": [round(ratio, 2) for ratio in times]}
            rows.append({"task": name, "contender": each, "median": round(statistics.median(found), 1), **rounded})
        if settings.out is not None:
            made = {"made_by": "python benchmarks/recurrent_ppo.py", "turns": settings.turns, "options": settings.options}
            settings.out.write_text(json.dumps({**made, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
