"""What docs/your-core.md shows is true: its core and its gate keep the contract, and its table names what there is."""

import re
from pathlib import Path
from typing import Any

import jax
import pytest

import gtrxl
from gtrxl.cores import CORES, core_arguments
from gtrxl.testing import check_core

PAGE = (Path(__file__).parent.parent / "docs" / "your-core.md").read_text()
CORE, GATE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_core_keeps_the_contract():
    names: dict = {"__name__": "example"}
    exec(CORE, names)
    check_core(names["Decay"](3, width=4, key=jax.random.key(0)))


def test_the_gate_makes_a_transformer():
    names: dict = {"__name__": "example"}
    exec(GATE, names)
    assert {"d_model", "layers", "heads", "memory"} == core_arguments(names["scaled"])
    core: Any = gtrxl.make_core(names["scaled"], input_size=3, d_model=4, heads=2, memory=3, key=jax.random.key(0))
    assert isinstance(core.blocks.gate_1, names["ScaledGate"])
    y, _ = core.step(jax.numpy.ones(3), core.initial_state(), reset=True)
    assert y.shape == (4,)


@pytest.mark.slow
def test_the_gated_transformer_keeps_the_contract():
    names: dict = {"__name__": "example"}
    exec(GATE, names)
    check_core(names["scaled"](3, d_model=4, heads=2, memory=3, key=jax.random.key(0)))


def test_the_table_names_every_core_and_its_sizes():
    (table,) = re.findall(r"\| name \| class \| sizes \|\n\|[-|]+\n(.*?)\n\n", PAGE, re.DOTALL)
    sizes, told = "", {}
    for line in table.splitlines():
        names, _, last = (cell.strip() for cell in line.strip("|").split("|"))
        sizes = sizes if last == "the same" else " ".join(re.findall(r"`([^`]+)`", last))
        told |= {name: frozenset(sizes.split()) for name in re.findall(r"`([^`]+)`", names)}
    assert told == {name: core_arguments(name) - {"norm_inputs"} for name in CORES}
