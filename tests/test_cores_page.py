"""docs/cores.md names every core once, in the catalogue's order, with the bytes of its state."""

import re
from pathlib import Path

import equinox as eqx
import jax
import pytest

from gtrxl import make_core
from gtrxl.cores import CORES, core_arguments

PAGE = (Path(__file__).parents[1] / "docs" / "cores.md").read_text()
ROWS = re.findall(r"^\| `([\w-]+)` \|.*\| ([\d,]+) \|$", PAGE, re.MULTILINE)


def test_every_core_is_there_once_and_in_order():
    assert [name for name, _ in ROWS] == list(CORES)


@pytest.mark.parametrize(("name", "told"), ROWS)
def test_the_bytes_are_those_of_the_state(name, told):
    memory = {"memory": 64} if "memory" in core_arguments(name) else {}
    core = eqx.filter_eval_shape(
        lambda key: make_core(name, input_size=64, d_model=64, layers=2, key=key, **memory), jax.random.key(0)
    )
    leaves = jax.tree.leaves(jax.eval_shape(core.initial_state))
    assert sum(leaf.size * leaf.dtype.itemsize for leaf in leaves) == int(told.replace(",", ""))
