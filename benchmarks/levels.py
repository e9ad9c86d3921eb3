"""The native library of each level of processor beside the one compiled for this machine (`-march=native`).

    python benchmarks/levels.py                    # what this environment has: a wheel's libraries, or compiled now

A process for each level; they are asked in turn, once a round, so that whatever else the machine does falls on all alike. What is
shown is the quickest of all rounds, in milliseconds, and beside the machine's own. With one thread it is the time of the
processor, which a busy machine disturbs less than the clock's.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable

from gtrxl.cores.kernels import levels

CASES = {
    "act, small: 16 streams, 2 layers of 64": ("act", {"d_model": 64, "layers": 2, "heads": 4, "memory": 64}, 16),
    "act, wide: 4 streams, 4 layers of 256": ("act", {"d_model": 256, "layers": 4, "heads": 8, "head_dim": 64, "memory": 128}, 4),
    "learn, small: 16 x 32 steps": ("learn", {"d_model": 64, "layers": 2, "heads": 4, "memory": 64}, 16),
    "learn, wide: 1 x 32 steps": ("learn", {"d_model": 256, "layers": 4, "heads": 8, "head_dim": 64, "memory": 128}, 1),
    "look: ResNet, 4 pictures of 72 x 96": ("look", {}, 4),
}
REPEATS = {"act": 10, "learn": 1, "look": 1}
"""Calls that are timed together: not long, so that some round is undisturbed on a busy machine."""


def child() -> None:
    """Answers each case's name with the seconds of one call, until nothing is asked."""
    prepared: dict[str, Callable[[], float]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in prepared:
            prepared[name] = prepare(name)
        print(prepared[name](), flush=True)


def prepare(name: str) -> Callable[[], float]:
    """A case, compiled, as a function that times it."""
    import jax
    import jax.numpy as jnp

    import gtrxl
    from gtrxl.networks import SMALL_CHANNELS, ResNet

    kind, sizes, streams = CASES[name]
    random = jax.random.key(0)
    if kind == "look":
        net = ResNet((72, 96), channels=SMALL_CHANNELS, features=64, key=random)
        pictures = jax.random.randint(random, (streams, 72, 96, 3), 0, 256).astype(jnp.uint8)
        call = jax.jit(jax.grad(lambda net: jnp.sum(jnp.square(net(pictures)))))
        return lambda: timed(lambda _: call(net), None, REPEATS[kind])
    core = gtrxl.make_core("gtrxl-gru", input_size=16, key=random, **sizes)
    many = gtrxl.Streams(core, streams)
    if kind == "act":
        x, reset = jax.random.normal(random, (streams, 16)), jnp.zeros(streams, bool)
        step = jax.jit(lambda state: many.step(x, state, reset=reset)[1], donate_argnums=0)
        return lambda: timed(step, many.prepare(many.initial_state()), REPEATS[kind])
    xs, resets = jax.random.normal(random, (streams, 32, 16)), jnp.zeros((streams, 32), bool)
    state = many.initial_state()

    def loss(core: gtrxl.Core) -> jax.Array:
        return jnp.sum(jnp.square(gtrxl.Streams(core, streams).unroll(xs, state, resets=resets)[0]))

    call = jax.jit(jax.grad(loss))
    return lambda: timed(lambda _: call(core), None, REPEATS[kind])


def timed(call: Callable, state: object, repeats: int) -> float:
    """Seconds of one call, when the first has compiled."""
    import jax

    clock = time.process_time if os.environ["OMP_NUM_THREADS"] == "1" else time.perf_counter
    state = jax.block_until_ready(call(state))
    begin = clock()
    for _ in range(repeats):
        state = call(state)
    jax.block_until_ready(state)
    return (clock() - begin) / repeats


def main() -> None:
    """Asks all, round after round, and prints a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--levels", nargs="+", default=levels.run_here())
    parser.add_argument("--json", action="store_true", help="all seconds, as JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        return child()
    common = {**os.environ, "GTRXL_NATIVE": "1", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": str(asked.threads)}
    if asked.threads == 1:
        common["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    others = {level: {levels.LEVEL: level} for level in (levels.HERE, *asked.levels)}
    command = [sys.executable, __file__, "--child"]
    children = {
        name: subprocess.Popen(command, env={**common, **given}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for name, given in others.items()
    }
    seconds = {case: {name: [] for name in children} for case in CASES}
    for number in range(asked.rounds):
        for case in CASES:
            for name, process in list(children.items())[:: 1 if number % 2 else -1]:
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(case + "\n")
                process.stdin.flush()
                seconds[case][name].append(float(process.stdout.readline()))
    for process in children.values():
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    if asked.json:
        print(json.dumps(seconds, indent=2))
        return None
    print("| |" + " | ".join(children) + " |\n|---|" + "---|" * len(children))
    for case, found in seconds.items():
        own = min(found[levels.HERE])
        cells = [f"{1e3 * min(times):.2f} ({min(times) / own:.2f})" for times in found.values()]
        print(f"| {case} | " + " | ".join(cells) + " |")
    return None


if __name__ == "__main__":
    main()
