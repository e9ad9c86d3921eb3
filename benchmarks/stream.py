"""What a new stack leaves of the observation, by core: what a policy sees before anything was learned.

python benchmarks/stream.py                              # the sizes of the laptop's `gates` and `sensitivity`
python benchmarks/stream.py --variance 0.3333 --layers 12

Inputs are normal; the output of the last layer is compared with the embedded input of the same step, over full memories. Likeness
is their cosine (1: nothing but the observation, 0: none of it), size the ratio of their norms.
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from gtrxl import Transformer, make_core
from gtrxl.cli.tables import print_table, table
from gtrxl.cores import CORES

SEEDS = 5
STEPS = 96


def stream(name: str, *, layers: int, variance: float, seed: int) -> tuple[float, float]:
    """Likeness and size for one set of new weights."""
    sizes = {"d_model": 32, "layers": layers, "heads": 2, "head_dim": 16, "mlp": 32, "memory": 64, "init_variance": variance}
    core = make_core(name, input_size=32, key=jax.random.key(seed), **sizes)
    assert isinstance(core, Transformer)
    xs = jax.random.normal(jax.random.key(1000 + seed), (core.memory + STEPS, 32))
    ys, _ = core.unroll(xs, core.initial_state(), resets=jnp.arange(len(xs)) == 0)
    seen, made = (np.asarray(each[core.memory :], np.float64) for each in (core.embed(xs), ys))
    before, after = np.linalg.norm(seen, axis=-1), np.linalg.norm(made, axis=-1)
    return float(np.mean(np.sum(seen * made, -1) / (before * after))), float(np.mean(after / before))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--variance", type=float, default=1.0, help="init_variance of the weights")
    chosen = parser.parse_args()
    made = table("core", ["likeness", "size"])
    for name in (name for name, (kind, _, _) in CORES.items() if kind is Transformer):
        each = np.array([stream(name, layers=chosen.layers, variance=chosen.variance, seed=seed) for seed in range(SEEDS)])
        told = (
            f"{mean:.2f} ({least:.2f}-{most:.2f})"
            for mean, least, most in zip(each.mean(0), each.min(0), each.max(0), strict=True)
        )
        made.add_row(name, *told)
    print_table(made)


if __name__ == "__main__":
    main()
