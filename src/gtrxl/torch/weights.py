"""Weights and states to and from JAX, and out of the safetensors that `gtrxl export` writes.

The names are those of `gtrxl.evaluation.export.named` without the agent around the core: `blocks.attention.w_qkv`.
"""

import os
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor

from gtrxl import cores as jax_cores
from gtrxl.cores import merlin as jax_merlin
from gtrxl.cores.errors import CoreError
from gtrxl.cores.linear import agalite as jax_agalite
from gtrxl.cores.linear import convolution as jax_convolution
from gtrxl.cores.linear import mlstm as jax_mlstm
from gtrxl.cores.linear import scan as jax_scan
from gtrxl.cores.linear import stack as jax_stack
from gtrxl.torch.cores.catalogue import TWINS
from gtrxl.torch.cores.contract import Core, check_weights
from gtrxl.torch.cores.linear.agalite import TracesState
from gtrxl.torch.cores.linear.convolution import ConvolvedState
from gtrxl.torch.cores.linear.mlstm import MatrixState
from gtrxl.torch.cores.linear.scan import Pair
from gtrxl.torch.cores.linear.stack import StackState
from gtrxl.torch.cores.markov import NoState
from gtrxl.torch.cores.memory import Memory
from gtrxl.torch.cores.merlin.core import MerlinState
from gtrxl.torch.cores.merlin.rl_mem import RLMemState
from gtrxl.torch.cores.merlin.rows import Rows
from gtrxl.torch.cores.recurrent import GRUState, LSTMState

PREFIX = "core."
"""Of a core's arrays among those of an agent."""


def from_jax(core: Any, *, device: Any = None) -> Core:
    """The twin of a core of `gtrxl.cores`, with its weights."""
    kind = TWINS.get(type(core))
    if kind is None:
        names = ", ".join(twin.__name__ for twin in TWINS)
        raise CoreError(f"the core must be one of {names}, got {type(core).__name__}; write its twin on gtrxl.torch.Core")
    module = kind(core.input_size, device=device, **kind.sizes(core))
    if _observed(core) is not None:
        module.observing(_observed(core))
    module.load_state_dict({name: _tensor(array) for name, array in _named(core).items()})
    return module


def to_jax(module: Any) -> Any:
    """The core of `gtrxl.cores` that has this module's weights."""
    kind = next((kind for kind, twin in TWINS.items() if twin is type(module)), None)
    if kind is None:
        names = ", ".join(twin.__name__ for twin in TWINS.values())
        raise CoreError(f"the module must be one of {names} of gtrxl.torch, got {type(module).__name__}")
    arguments = module.sizes(module)

    def made(key: Any) -> Any:
        core, observed = kind(module.input_size, key=key, **arguments), _observed(module)
        return core if observed is None else core.observing(observed, key=key)

    like = eqx.filter_eval_shape(made, jax.random.key(0))
    weights = module.state_dict()

    def filled(where: Any, leaf: Any) -> Any:
        return jnp.asarray(weights[_name(where)].detach().float().cpu().numpy()) if hasattr(leaf, "shape") else leaf

    return jax.tree_util.tree_map_with_path(filled, like)


def core_weights(arrays: Mapping[str, Any], *, prefix: str = PREFIX) -> dict[str, Tensor]:
    """Of an agent's arrays those of its core, by their names in the core: what `load_state_dict` takes.

    `arrays` are what `safetensors` reads, as tensors or NumPy arrays; where none begins with `prefix` they are taken as they are.
    """
    inside = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    return {name: _tensor(array) for name, array in (inside or arrays).items()}


def load_core(module: Core, path: str | os.PathLike[str], *, prefix: str = PREFIX) -> Core:
    """The module with the weights of a file that `gtrxl export` or `safetensors.torch.save_file` wrote."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        arrays = load_file(path)
    except (OSError, SafetensorError) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__)
        raise CoreError(f"cannot read weights from {os.fspath(path)}: {said}; `gtrxl export RUN` writes such a file") from None
    weights = core_weights(arrays, prefix=prefix)
    check_weights(module, weights, of=os.fspath(path))
    module.load_state_dict(weights)
    return module


RECORDS: dict[Any, Any] = {
    jax_cores.Memory: Memory,
    jax_cores.LSTMState: LSTMState,
    jax_cores.GRUState: GRUState,
    jax_cores.NoState: NoState,
    jax_merlin.Rows: Rows,
    jax_merlin.RLMemState: RLMemState,
    jax_merlin.MerlinState: MerlinState,
    jax_stack.StackState: StackState,
    jax_scan.Pair: Pair,
    jax_convolution.ConvolvedState: ConvolvedState,
    jax_mlstm.MatrixState: MatrixState,
    jax_agalite.TracesState: TracesState,
}
"""What states are made of in JAX -> the same here."""


def state_from_jax(state: Any, *, device: Any = None) -> Any:
    """A plain state of `gtrxl.cores`, with the streams in front (`gtrxl.Streams`), as the twin's."""
    if type(state) not in RECORDS:
        raise CoreError(f"state must be a plain one of gtrxl.cores, got {type(state).__name__}; core.plain gives it")

    def converted(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(map(converted, part))
        if type(part) in RECORDS:
            record = RECORDS[type(part)]
            return record(*(converted(getattr(part, name)) for name in record._fields))
        tensor = _tensor(part).to(device)
        return tensor if tensor.is_floating_point() else tensor.long()

    return converted(state)


def state_to_jax(state: Any) -> Any:
    """A plain state as one of `gtrxl.cores`, with the streams in front."""
    records = {ours: theirs for theirs, ours in RECORDS.items()}
    if type(state) not in records:
        raise CoreError(f"state must be a plain one, got {type(state).__name__}; core.plain gives it")

    def converted(part: Any) -> Any:
        if type(part) in records:
            return records[type(part)](**{name: converted(each) for name, each in part._asdict().items()})
        return tuple(map(converted, part)) if isinstance(part, tuple) else _array(part)

    return converted(state)


def _observed(core: Any) -> Any:
    """What a core that predicts was told to predict, in PyTorch or in JAX."""
    return getattr(getattr(core, "decoders", None), "observed", None)


def _named(core: Any) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(core)
    return {_name(where): leaf for where, leaf in leaves if hasattr(leaf, "shape")}


def _name(where: Any) -> str:
    return jax.tree_util.keystr(where, simple=True, separator=".")


def _tensor(array: Any) -> Tensor:
    if isinstance(array, Tensor):
        return array
    if array.dtype == jnp.bfloat16:  # which NumPy knows by name only
        return torch.from_numpy(np.array(array, np.float32)).bfloat16()
    return torch.from_numpy(np.array(array))


def _array(tensor: Tensor) -> jax.Array:
    tensor = tensor.detach().cpu()
    if not tensor.is_floating_point():
        return jnp.asarray(tensor.int().numpy())
    if tensor.dtype == torch.bfloat16:
        return jnp.asarray(tensor.float().numpy(), jnp.bfloat16)
    return jnp.asarray(tensor.float().numpy())
