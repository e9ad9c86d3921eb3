"""The golden cases (tests/golden/README.md), computed in float64 by code that shares nothing with the project."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import gtrxl.torch
from tests.cores import reference
from tests.cores.test_golden import TOLERANCE, golden_core
from tests.torch.building import assert_close, steps


@pytest.mark.parametrize("way", ["unroll", "steps", "prepared steps"])
@pytest.mark.parametrize("name", reference.VARIANTS)
def test_the_twin_gives_the_golden_outputs_and_memory(name, way):
    core, state, case = golden_core(name)
    twin = gtrxl.torch.from_jax(core)
    begin = gtrxl.torch.Memory(inputs=torch.from_numpy(np.array(state.inputs))[None], filled=torch.tensor([int(state.filled)]))
    xs, resets = torch.from_numpy(case["xs"].astype(np.float32))[None], torch.from_numpy(case["resets"])[None]
    with torch.no_grad():
        if way == "unroll":
            ys, after = twin.unroll(xs, begin, resets=resets)
        else:
            ys, after = steps(twin, xs, twin.prepare(begin) if way == "prepared steps" else begin, resets)
    after = twin.plain(after)
    assert_close(ys[0], case["ys"], TOLERANCE)
    assert_close(after.inputs[0], case["layer_inputs"][:, -core.memory :], TOLERANCE)
    first_of_episode = int(np.flatnonzero(case["resets"])[-1])
    assert int(after.filled[0]) == min(len(case["xs"]) - first_of_episode, core.memory)
