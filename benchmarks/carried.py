"""What new weights still tell of a sign at the far end of a corridor: before anything was learned, by core and by task.

    python benchmarks/carried.py                       # corridors of 1,500 steps, a minute or two
    python benchmarks/carried.py --corridor 384

An episode is played to the junction twice, with one sign and with the other; torso and core are new, the policy looks at the
core's output at unit size. Printed is how far apart the two outputs are, as a share of their size: 1 is all another, and at 1e-5
nothing of the sign is left that a policy could find. In `t-maze` a corridor is seen as a 1, in `passive-t-maze` as zeros.
"""

import argparse
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import gtrxl
from gtrxl.cli.tables import print_table, table
from gtrxl.runs import settings
from gtrxl.training.building import make_agent

SEEDS = 5
TASKS = ("t-maze", "passive-t-maze")


def contenders(corridor: int) -> dict[str, tuple[str, dict[str, Any], dict[str, Any]]]:
    """What is printed -> core, settings of the network, the core's own arguments."""
    long = {"shortest": 1 - 1.5 / corridor, "longest": 1 - 0.15 / corridor}
    plain = {
        name: (name, {}, {}) for name in ("lstm", "gru", "lru", "s5", "mingru", "minlstm", "mamba2", "mlstm", "deltanet", "ffm")
    }
    memory = {"memory": corridor + 1}
    return plain | {
        "ffm": ("ffm", {}, {}),
        f"lru, keeps {long['shortest']:g} to {long['longest']:g}": ("lru", {}, long),
        "trxl-i": ("trxl-i", memory, {}),
        "gtrxl-gru": ("gtrxl-gru", memory, {}),
        "gtrxl-gru, b_g = 0": ("gtrxl-gru", memory | {"gate_bias": 0.0}, {}),
    }


def apart(task: str, corridor: int, core: str, net: dict[str, Any], own: dict[str, Any], *, seed: int) -> float:
    """How far apart what is seen at the junction is after the two signs, for one draw of new weights."""
    config = settings.change(
        settings.defaults(task=f"{task}:corridor={corridor}", core=core),
        {"net": net, "core_args": tuple(f"{name}={value!r}" for name, value in own.items())},
    )
    agent = make_agent(config, config.tasks.shown, jax.random.key(seed))
    episodes = np.zeros((2, corridor + 1, 4 if task == "t-maze" else 2), np.float32)
    if task == "t-maze":  # left, right, corridor, junction
        episodes[0, 0, 0] = episodes[1, 0, 1] = 1
        episodes[:, 1:-1, 2] = episodes[:, -1, 3] = 1
    else:  # at the junction, the sign
        episodes[0, 0, 1], episodes[1, 0, 1] = 1, -1
        episodes[:, -1, 0] = 1
    resets = jnp.arange(corridor + 1) == 0

    @eqx.filter_jit
    def seen(observations: jax.Array) -> jax.Array:
        ys, _ = agent.core.unroll(agent.torso(observations), agent.core.initial_state(), resets=resets)
        return (ys[-1] - ys[-1].mean()) / ys[-1].std()

    one, other = (np.asarray(seen(jnp.asarray(episode)), np.float64) for episode in episodes)
    return float(np.linalg.norm(one - other) / np.linalg.norm(one))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corridor", type=int, default=1500)
    chosen = parser.parse_args()
    made = table("core", list(TASKS))
    for label, (core, net, own) in contenders(chosen.corridor).items():
        cells = []
        for task in TASKS:
            each = [apart(task, chosen.corridor, core, net, own, seed=seed) for seed in range(SEEDS)]
            cells.append(f"{np.median(each):.1g} ({min(each):.1g} to {max(each):.1g})")
        made.add_row(label, *cells)
    print_table(made)
    print(f"two layers of {gtrxl.defaults(task='t-maze').net.width}; medians of {SEEDS} draws of new weights, least to most")


if __name__ == "__main__":
    main()
