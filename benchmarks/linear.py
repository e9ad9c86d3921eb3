"""Linear cores: what a step costs beside an LSTM's of the same width, and whether a segment is faster in a loop or in rounds.

    python benchmarks/linear.py steps          # acting: a compiled loop of steps, prepared states, 1 and 32 streams
    python benchmarks/linear.py scans          # learning: unrolls of 16 to 256 steps of 32 streams, with and without gradient

Every candidate is compiled first; then they take turns, and the least of several rounds counts. Time is the processor's own
(`time.process_time`) on one thread, so that other work on the machine changes it little. Both print a table in Markdown.
"""

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import equinox as eqx
import jax
import jax.numpy as jnp

import gtrxl
from gtrxl.cores.linear import scan

CORES = (
    "lstm", "gru", "lru", "s5", "mingru", "minlstm", "mamba2", "mlstm", "deltanet", "ffm", "agalite", "gtrxl-lru",
)  # fmt: skip
LOOP = 32
"""Steps in one compiled loop."""


def measured(programs: dict[Any, Callable[[], Any]], *, rounds: int, seconds: float) -> dict[Any, float]:
    """Seconds of one call of each, least of the rounds; each round calls long enough for the clock."""
    calls = {}
    for name, program in programs.items():
        jax.block_until_ready(program())
        began = time.process_time()
        jax.block_until_ready(program())
        calls[name] = max(1, round(seconds / max(time.process_time() - began, 1e-6)))
    best = dict.fromkeys(programs, float("inf"))
    for _ in range(rounds):
        for name, program in programs.items():
            began = time.process_time()
            for _ in range(calls[name]):
                jax.block_until_ready(program())
            best[name] = min(best[name], (time.process_time() - began) / calls[name])
    return best


def acting(name: str, width: int, streams: int) -> Callable[[], Any]:
    """A compiled loop of steps, the input as wide as the core."""
    core = gtrxl.make_core(name, input_size=width, d_model=width, layers=1, key=jax.random.key(0))
    many = gtrxl.Streams(core, streams)
    xs = jax.random.normal(jax.random.key(1), (LOOP, streams, width))
    resets = jnp.zeros((LOOP, streams), bool).at[LOOP // 2].set(True)

    @eqx.filter_jit
    def run(many: gtrxl.Streams, state: Any) -> Any:
        def step(state: Any, of: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
            y, state = many.step(of[0], state, reset=of[1])
            return state, y

        return jax.lax.scan(step, state, (xs, resets))

    state = many.prepare(many.initial_state())
    return lambda: run(many, state)


def steps(widths: list[int], *, rounds: int) -> None:
    """Microseconds of a step, and how that compares with the LSTM's."""
    sizes = [(width, streams) for width in widths for streams in (1, 32)]
    found = {}
    for width, streams in sizes:
        programs = {name: acting(name, width, streams) for name in CORES}
        best = measured(programs, rounds=rounds, seconds=0.02)
        found |= {(name, width, streams): 1e6 * best[name] / LOOP for name in CORES}
    print("| microseconds a step | " + " | ".join(f"width {w}, {b} stream{'s' * (b > 1)}" for w, b in sizes) + " |")
    print("|---|" + "---:|" * len(sizes))
    for name in CORES:
        cells = [f"{found[name, *size]:.1f} ({found[name, *size] / found['lstm', *size]:.2f})" for size in sizes]
        print(f"| `{name}` | " + " | ".join(cells) + " |")


def learning(name: str, length: int, *, in_rounds: bool, gradient: bool, width: int = 64, streams: int = 32) -> Callable[[], Any]:
    """An unroll in one form, alone or with the gradient of a sum by all weights."""
    core = gtrxl.make_core(name, input_size=width, d_model=width, layers=1, key=jax.random.key(0))
    many = gtrxl.Streams(core, streams)
    xs = jax.random.normal(jax.random.key(1), (streams, length, width))
    resets = jax.random.uniform(jax.random.key(2), (streams, length)) < 0.03

    def loss(many: gtrxl.Streams, state: Any) -> jax.Array:
        scan.in_rounds = lambda: in_rounds  # read while the program is traced
        return jnp.sum(jnp.square(many.unroll(xs, state, resets=resets)[0]))

    run = eqx.filter_jit(eqx.filter_grad(loss) if gradient else loss)
    state = many.initial_state()
    return lambda: run(many, state)


def scans(names: list[str], lengths: list[int], *, rounds: int) -> None:
    """Milliseconds of an unroll of 32 streams, loop and rounds."""
    print("| milliseconds, 32 streams, width 64 | " + " | ".join(f"{length} steps" for length in lengths) + " |")
    print("|---|" + "---:|" * len(lengths))
    for name in names:
        for gradient in (False, True):
            rows: dict[bool, list[str]] = {False: [], True: []}
            for length in lengths:
                programs = {form: learning(name, length, in_rounds=form, gradient=gradient) for form in (False, True)}
                best = measured(programs, rounds=rounds, seconds=0.05)
                for form in (False, True):
                    rows[form].append(f"{1e3 * best[form]:.2f}")
            kind = "forward and backward" if gradient else "forward"
            for form, said in ((False, "loop"), (True, "rounds")):
                print(f"| `{name}`, {kind}, {said} | " + " | ".join(rows[form]) + " |", flush=True)


def main() -> None:
    """Parse and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("steps", "scans"))
    parser.add_argument("--widths", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--cores", nargs="+", default=["lru", "mingru", "mamba2"])
    parser.add_argument("--lengths", type=int, nargs="+", default=[16, 64, 256])
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    if given.part == "steps":
        steps(given.widths, rounds=given.rounds)
    else:
        scans(given.cores, given.lengths, rounds=given.rounds)


if __name__ == "__main__":
    main()
