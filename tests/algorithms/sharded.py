"""Run by `test_sharded.py` in a process of its own, because devices are counted once per process.

One batch on one device, and spread over four: prints OK if loss and gradients are the same, and if finding the better half
never brings the whole batch to one place.
"""

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gtrxl.algorithms import VMPO, vmpo
from tests.algorithms import batches


def main() -> None:
    jax.config.update("jax_num_cpu_devices", 4)
    three, more = batches.make(0), batches.make(1)
    batch = {name: np.concatenate([three[name], more[name][:1]]) for name in three}
    one, learner = batches.inputs(batch), VMPO()
    multipliers = learner.multipliers(("categorical",))
    mesh = Mesh(np.array(jax.devices()), ("streams",))
    assert mesh.size == 4
    spread = jax.device_put(one, NamedSharding(mesh, PartitionSpec("streams")))
    expected, found = (batches.loss_and_gradients(learner, multipliers, inputs) for inputs in (one, spread))
    for x, y in zip(jax.tree.leaves(expected), jax.tree.leaves(found), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-6)
    assert np.count_nonzero(found[2][1].log_prob) == (batch["valid"].sum() + 1) // 2
    program = str(jax.jit(vmpo.top_half).lower(spread.reward, spread.valid).compile().as_text())
    assert "all-reduce" in program
    assert "all-gather" not in program
    print("OK")


if __name__ == "__main__":
    main()
