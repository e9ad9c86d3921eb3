"""A trained agent as it was found: in a checkpoint, or in files that were exported."""

from typing import Any, NamedTuple

import jax
from jaxtyping import PyTree

from gtrxl.networks.agent import Agent
from gtrxl.runs.config import Config
from gtrxl.runs.tasks import RunTasks


class Restored(NamedTuple):
    """An agent, and what it was trained on."""

    config: Config[Any]
    tasks: RunTasks
    agent: Agent
    update: int


def named(tree: PyTree) -> dict[str, Any]:
    """The arrays of an agent, or of a part of one, by where they are: `core.blocks.attention.w_qkv`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {name_of(where): leaf for where, leaf in leaves if hasattr(leaf, "shape")}


def name_of(where: Any) -> str:
    """The name of a place in the tree."""
    return jax.tree_util.keystr(where, simple=True, separator=".")
