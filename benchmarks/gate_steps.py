"""Gates that learn more slowly than the rest: does a high learning rate then do the gated stack less harm?

    python benchmarks/gate_steps.py                      # 12 runs of 1 M frames, half a minute to a minute and a half each
    python benchmarks/gate_steps.py --rate 2e-3 --shares 1 0.25 --seeds 1

Grid Numpad 2x2, twelve layers of width 32 as in `gtrxl reproduce rates`, with the norm before the heads. Adam's steps of the
gates' weights and biases are multiplied by a share; a share of 1 is V-MPO as it is. Prints the return of the last 200 episodes.
"""

import dataclasses
import pathlib

import jax
import optax
import tyro

import gtrxl
from gtrxl.cli.tables import print_table, table


@dataclasses.dataclass(frozen=True, kw_only=True)
class SlowGates(gtrxl.VMPO):
    """V-MPO with smaller steps for gates."""

    gate_share: float = 1.0
    """Of Adam's step, for what is inside a gate."""

    def optimiser(self) -> optax.GradientTransformation:
        """Adam, and less of it for gates."""

        def shorten(changes: optax.Updates, params: optax.Params | None) -> optax.Updates:
            del params
            return jax.tree_util.tree_map_with_path(
                lambda path, change: self.gate_share * change if "gate_" in jax.tree_util.keystr(path) else change, changes
            )

        return optax.chain(super().optimiser(), optax.stateless(shorten))


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which runs."""

    rate: float = 5e-3
    shares: tuple[float, ...] = (1.0, 0.25, 0.1)
    seeds: int = 3
    steps: int = 1_000_000
    runs: pathlib.Path = pathlib.Path("runs/gate-steps")


def main(settings: Settings) -> None:
    """Trains and prints."""
    net = {"layers": 12, "width": 32, "heads": 2, "head_dim": 16, "mlp": 32, "gate_bias": "depth"}
    made = table("core, share of the step", [f"seed {seed}" for seed in range(settings.seeds)])
    for core, share in (("trxl-i", 1.0), *(("gtrxl-gru", share) for share in settings.shares)):
        returns = []
        for seed in range(settings.seeds):
            run = gtrxl.train(
                task="grid-numpad",
                core=core,
                seed=seed,
                steps=settings.steps,
                devices=1,
                final_rate=1.0,
                net=net,
                algorithm=SlowGates(
                    learning_rate=settings.rate,
                    gate_share=share,
                    adam_epsilon=1e-8,
                    eps_eta=0.2,
                    eps_alpha=0.02,
                    alpha_init=0.3,
                ),
                run=settings.runs / f"{core}-{settings.rate:g}-{share:g}-{seed}",
            )
            returns.append(f"{run.mean_return:.1f}")
        made.add_row(f"{core}, {share:g}", *returns)
    print_table(made)


if __name__ == "__main__":
    main(tyro.cli(Settings, description=__doc__))
