"""Does MERLIN predict, and does what it predicts help it to remember? Beside its control RL-MEM and an LSTM.

    python benchmarks/merlin.py --train --runs /tmp/merlin                          # 15 runs, 20 minutes of one core
    python benchmarks/merlin.py --runs /tmp/merlin --out docs/data/merlin.json --figure docs/img/merlin.png

The task is to name four cards that were shown at least 13 steps ago, learned from segments of 8 steps: no gradient reaches from
an answer back to its card. Curves are those of the runs' own rows; what is predicted there is held against episodes just
played, never learned from. Held-out numbers are of each run's last weights, on episodes with seeds of their own.
"""

import dataclasses
import json
import pathlib
import statistics
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import tyro
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

import gtrxl
from gtrxl.cli.tables import print_table, table
from gtrxl.evaluation.loading import restore_agent
from gtrxl.networks.counts import parameters
from gtrxl.report.runs_figure import COLOURS, STYLE
from gtrxl.runs.folder import read_config
from gtrxl.runs.metrics import read
from gtrxl.training.building import make_agent
from gtrxl.training.rollout import act, begin

TASK = "recall:items=4,ask=4,kinds=4,delay=12"
LARGE = {"width": 192}
MODELS: dict[str, tuple[str, str, dict[str, int], float]] = {
    "merlin": ("MERLIN", "merlin", {}, 2e-3),
    "rl-mem": ("RL-MEM", "rl-mem", {}, 2e-3),
    "lstm": ("LSTM of 64", "lstm", {}, 2e-3),
    "lstm-large": ("LSTM of 192", "lstm", LARGE, 2e-3),
    "rl-mem-low": ("RL-MEM, rate 5e-4", "rl-mem", {}, 5e-4),
    "lstm-low": ("LSTM of 64, rate 5e-4", "lstm", {}, 5e-4),
    "lstm-large-low": ("LSTM of 192, rate 5e-4", "lstm", LARGE, 5e-4),
}
"""What runs are called -> label, core, what is its own of `NET`, learning rate. MERLIN's rate was found on its first seed; the
others have a second one, with one seed. The larger LSTM has as many parameters as MERLIN."""
NET = {"layers": 1, "width": 64, "mlp": 64, "memory": 32, "torso": 64, "hidden": 64}
ADAM_EPSILON = 1e-6
PARTS = {"prediction_vector": "what was seen: lost, in nats", "prediction_kl": "KL(posterior || prior), in nats"}
STREAMS, STEPS, HELD_OUT_SEED = 64, 63, 1_000_003
"""Of the held-out episodes: three whole ones in each stream."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to do."""

    runs: pathlib.Path
    """Where the run folders are: MODEL-SEED."""
    train: bool = False
    """Make the runs that are not there."""
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int = 1_500_000
    out: pathlib.Path | None = None
    figure: pathlib.Path | None = None


def trained(settings: Settings, model: str, seed: int) -> pathlib.Path:
    """The folder of a run, made if asked for."""
    _, core, net, rate = MODELS[model]
    folder = settings.runs / f"{model}-{seed}"
    if settings.train and not folder.exists():
        gtrxl.train(
            run=folder,
            task=TASK,
            core=core,
            seed=seed,
            steps=settings.steps,
            streams=32,
            unroll=8,
            devices=1,
            reports=50,
            net={**NET, **net},
            learner={"learning_rate": rate, "adam_epsilon": ADAM_EPSILON},
            quiet=True,
        )
    return folder


def curve(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """The columns that are drawn."""
    there = [name for name in ("frames", "return_mean", *PARTS) if name in rows[-1]]
    return {name: [None if row[name] is None else round(row[name], 4) for row in rows] for name in there}


def held_out(folder: pathlib.Path) -> dict[str, dict[str, float]]:
    """What is lost on new episodes by the last weights, and by the first; and how often z tells a card's kind rightly."""
    found = restore_agent(folder, "last")
    (task,) = found.tasks.tasks  # pyright: ignore[reportAttributeAccessIssue]
    first = make_agent(found.config, task, jax.random.key(HELD_OUT_SEED))
    return {name: _lost(agent, task) for name, agent in (("untrained", first), ("trained", found.agent))}


def _lost(agent: Any, task: Any) -> dict[str, float]:
    keys = jax.random.split(jax.random.key(HELD_OUT_SEED), 2)

    @eqx.filter_jit
    def play(agent: Any) -> dict[str, jax.Array]:
        situation = begin(task, jax.random.split(keys[0], STREAMS))
        memory, played = agent.initial_state(STREAMS), {}
        _, _, unroll, _ = act(agent, task, agent.prepare(memory), situation, keys=jax.random.split(keys[1], STREAMS), steps=STEPS)
        _, _, said = agent.predict(unroll.observation, memory, resets=unroll.reset)
        told = {"reward": unroll.reward, "returns": jnp.zeros_like(unroll.reward), "reset": unroll.reset, "valid": unroll.valid}
        losses = agent.prediction_losses(said, observation=unroll.observation, action=unroll.action, **told)
        count = jnp.sum(unroll.valid)
        for name in ("vector", "kl", "action", "reward"):
            played[name] = jnp.sum(jnp.where(unroll.valid, losses[name], 0.0)) / count
        kinds = unroll.observation[..., : task.kinds]
        card = unroll.valid & (jnp.sum(kinds, axis=-1) > 0)
        right = jnp.argmax(agent.core.decoders.vector(said.z)[..., : task.kinds], axis=-1) == jnp.argmax(kinds, axis=-1)
        return played | {"kinds told right": jnp.sum(card & right) / jnp.sum(card)}

    return {name: round(float(value), 4) for name, value in play(agent).items()}


def draw(data: dict[str, Any], file: pathlib.Path) -> None:
    """Returns of all, and what MERLIN's predictions lose."""
    with rc_context(STYLE):
        figure = Figure(figsize=(10, 3.1), layout="constrained")
        panels = figure.subplots(1, 3)
        sizes = list(dict.fromkeys((core, str(net)) for _, core, net, _ in MODELS.values()))
        for model, (label, core, net, rate) in MODELS.items():
            colour, line = COLOURS[sizes.index((core, str(net)))], "-" if rate == MODELS["merlin"][3] else "--"
            for panel, name in zip(panels, ("return_mean", *PARTS), strict=True):
                curves = [run["curve"][name] for run in data["runs"] if run["model"] == model and name in run["curve"]]
                if not curves:
                    continue
                frames = data["runs"][0]["curve"]["frames"]
                for each in curves:
                    panel.plot(frames, each, color=colour, alpha=0.3, linewidth=0.6, linestyle=line)
                panel.plot(
                    frames, np.mean(np.asarray(curves, float), axis=0), color=colour, linewidth=1.8, linestyle=line, label=label
                )
        panels[0].axhline(0.25, color="#999999", linestyle=":", linewidth=1)
        panels[0].set_ylim(0, 1.02)
        figure.legend(
            *panels[0].get_legend_handles_labels(), frameon=False, loc="outside lower center", ncols=len(MODELS), fontsize=7
        )
        for panel, title in zip(panels, ("share of right answers", *PARTS.values()), strict=True):
            panel.set_title(title, loc="left", fontsize=9)
            panel.set_xlabel("frames")
            panel.xaxis.set_major_locator(MaxNLocator(4))
            panel.xaxis.set_major_formatter(lambda value, _: f"{value / 1e6:g} M")
        panels[1].set_yscale("log")
        figure.savefig(file, dpi=130)


def main(settings: Settings) -> None:
    """Train what is asked for, read, print, write."""
    runs = []
    for model, (_, core, *_) in MODELS.items():
        for seed in settings.seeds[: 1 if model.endswith("-low") else None]:
            folder = trained(settings, model, seed)
            rows = read(folder / "metrics.jsonl")
            late = statistics.mean(row["return_mean"] for row in rows[-5:])
            run = {"model": model, "seed": seed, "parameters": _parameters(folder), "late": round(late, 4), "curve": curve(rows)}
            runs.append(run | ({"held_out": held_out(folder)} if core == "merlin" else {}))
    data = {"task": TASK, "steps": settings.steps, "net": NET, "streams": 32, "unroll": 8, "runs": runs}
    shown = table("core", ["parameters", "share of right answers late, each seed"])
    for model, (label, *_) in MODELS.items():
        mine = [run for run in runs if run["model"] == model]
        shown.add_row(label, f"{mine[0]['parameters']:,}", ", ".join(f"{run['late']:.2f}" for run in mine))
    print_table(shown)
    shown = table("held out, each seed of MERLIN", ["before training", "after"])
    for name in runs[0]["held_out"]["trained"]:
        told = [[run["held_out"][when][name] for run in runs if "held_out" in run] for when in ("untrained", "trained")]
        shown.add_row(name, *(", ".join(f"{value:.3f}" for value in each) for each in told))
    print_table(shown)
    if settings.out is not None:
        settings.out.write_text(json.dumps(data) + "\n")
    if settings.figure is not None:
        draw(data, settings.figure)


def _parameters(folder: pathlib.Path) -> int:
    config = read_config(folder)
    return parameters(eqx.filter_eval_shape(lambda: make_agent(config, gtrxl.make_task(TASK), jax.random.key(0))))


if __name__ == "__main__":
    main(tyro.cli(Settings))
