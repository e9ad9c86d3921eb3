"""How fast is training on compiled tasks of others, beside the loop that ships with them?

    python benchmarks/jax_tasks.py

navix ships a PPO agent without memory; it is run as it comes, with its own defaults: 16 streams of 128 steps, one epoch in 8
minibatches, an MLP each for policy and value, which see the numbers of all cells. Ours is run with PPO in the same batches on
the same cells (one-hot, and the previous action), without memory and with cores that remember. The contenders take turns, a
turn is a whole training run, the median counts; compiling is left out on both sides.
"""

import dataclasses
import functools
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
import tyro

STREAMS, UNROLL = 16, 128
EPOCHS, MINIBATCHES = 1, 8
"""How often and in how many parts a batch is learned from: navix's defaults."""
RIVAL = "navix PPO, no memory"
OURS = {"gtrxl PPO, no memory": "none", "gtrxl PPO, lstm": "lstm", "gtrxl PPO, gtrxl-gru": "gtrxl-gru"}
"""Contender -> core."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """What to measure."""

    tasks: tuple[str, ...] = ("Navix-DoorKey-5x5-v0", "Navix-Empty-Random-8x8-v0")
    sides: Literal["both", "rival", "ours"] = "both"
    turns: int = 3
    frames: int = 204_800
    """Of one turn."""


def rival(task: str, frames: int) -> Callable[[int], float]:
    """navix's own agent: seed -> frames a second."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import navix  # pyright: ignore[reportMissingImports]
        from navix.agents import PPO, ActorCritic, PPOHparams  # pyright: ignore[reportMissingImports]

        flat = functools.partial(_flat, navix.observations.symbolic)
        env = navix.make(task)
        space = env.observation_space
        size = int(jnp.prod(jnp.array(space.shape)))
        env = env.replace(observation_fn=flat, observation_space=space.replace(shape=(size,), dtype=jnp.float32))
        hparams = PPOHparams(budget=frames, num_envs=STREAMS, num_steps=UNROLL, num_epochs=EPOCHS, num_minibatches=MINIBATCHES)
        agent = PPO(hparams, ActorCritic(len(env.action_set)), env)
        train = jax.jit(agent.train).lower(jax.random.key(0)).compile()

    def run(seed: int) -> float:
        begun = time.perf_counter()
        state, _ = jax.block_until_ready(train(jax.random.key(seed)))
        return int(state.frames) / (time.perf_counter() - begun)

    return run


def _flat(observe: Callable[..., jax.Array], state: object) -> jax.Array:
    """As navix's own examples flatten what an MLP sees."""
    return observe(state).reshape(-1).astype(jnp.float32)


def ours(task: str, core: str, frames: int) -> Callable[[int], float]:
    """A whole training run of this package: seed -> frames a second, between its reports."""
    import gtrxl

    def run(seed: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            trained = gtrxl.train(
                task=f"jax:navix/{task}",
                core=core,
                algorithm="ppo",
                steps=frames,
                seed=seed,
                streams=STREAMS,
                unroll=UNROLL,
                learner={"epochs": EPOCHS, "minibatches": MINIBATCHES},
                run=f"{folder}/run",
                quiet=True,
                board=False,
            )
        # The first report has compiling in it.
        return statistics.median(row["frames_per_second"] for row in trained.rows[1:])

    return run


def main(settings: Settings) -> None:
    """Every contender once, then again, as often as there are turns."""
    for task in settings.tasks:
        contenders: dict[str, Callable[[int], float]] = {}
        if settings.sides != "ours":
            contenders[RIVAL] = rival(task, settings.frames)
        if settings.sides != "rival":
            contenders |= {name: ours(task, core, settings.frames) for name, core in OURS.items()}
        speeds: dict[str, list[float]] = {name: [] for name in contenders}
        for turn in range(settings.turns):
            for name, run in contenders.items():
                speeds[name].append(run(turn))
        beside = statistics.median(speeds[RIVAL]) if RIVAL in speeds else None
        print(f"\n{task}, {STREAMS} streams x {UNROLL} steps, {settings.turns} turns of {settings.frames:,} frames")
        for name, each in speeds.items():
            middle = statistics.median(each)
            ratio = "" if beside is None else f"   {middle / beside:5.2f} x"
            print(f"  {name:24} {middle:12,.0f} frames/s   ({min(each):,.0f} to {max(each):,.0f}){ratio}")


if __name__ == "__main__":
    main(tyro.cli(Settings))
