"""Streams divided among devices: the block of docs/scale.md as it stands, beside one device."""

import re
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

ROOT = Path(__file__).parents[2]
STREAMS, STEPS, INPUT = 4, 9, 5


def block() -> str:
    """The page's program, for two devices however many cores there are."""
    (found,) = re.findall(r"```python\n(.*?jax\.shard_map.*?)```", (ROOT / "docs/scale.md").read_text(), re.DOTALL)
    assert "os.cpu_count()" in found
    return found.replace("os.cpu_count()", "2")


def main() -> None:
    """Gradients on two devices are those of one, and every stream was where it should be."""
    page: dict = {}
    exec(block(), page)
    import gtrxl

    core = gtrxl.make_core("gtrxl-gru", input_size=INPUT, d_model=8, layers=2, heads=2, memory=6, key=jax.random.key(0))
    xs = jax.random.normal(jax.random.key(1), (STREAMS, STEPS, INPUT))
    resets = jax.random.bernoulli(jax.random.key(2), 0.2, (STREAMS, STEPS))
    streams = gtrxl.Streams(core, STREAMS)
    _, state = streams.unroll(xs + 1, streams.initial_state(), resets=resets)
    spread = page["gradient"](core, xs, state, resets)

    def loss(core: gtrxl.Core) -> jax.Array:
        return jnp.mean(jnp.square(gtrxl.Streams(core, STREAMS).unroll(xs, state, resets=resets)[0]))

    whole = jax.grad(loss)(core)
    for one, two in zip(jax.tree.leaves(whole), jax.tree.leaves(spread), strict=True):
        assert len(two.sharding.device_set) == 2
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)
    assert max(float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(eqx.filter(whole, eqx.is_array))) > 1e-3


def test_the_page_s_program_gives_the_gradients_of_one_device():
    """In a process of its own, because devices are counted once per process."""
    program = [sys.executable, "-m", "tests.cores.test_devices"]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    main()
