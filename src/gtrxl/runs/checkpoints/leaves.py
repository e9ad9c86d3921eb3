"""The arrays of a pytree by name, and how they are put back: as what they were, where they were."""

import math
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")


def named_arrays(tree: Any) -> dict[str, Any]:
    """Every array by its path in the tree. Functions, strings and Python numbers are the program's, not the run's."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def size_of(tree: Any) -> int:
    """Bytes of all arrays in a pytree: about what one checkpoint of it takes on disk."""
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in named_arrays(tree).values())


def plain(array: Any) -> Any:
    """The array as numbers: random keys as what they are made of."""
    return jax.random.key_data(array) if _is_key(array) else array


def generator(array: Any) -> str | None:
    """The name of the random generator that an array holds keys of; None if it holds numbers."""
    if not _is_key(array):
        return None
    if isinstance(array, jax.Array):
        return str(jax.random.key_impl(array))
    # A ShapeDtypeStruct cannot be asked, only compared.
    return next(name for name in GENERATORS if jax.random.key(0, impl=name).dtype == array.dtype)


def put_back(like: Any, arrays: Mapping[str, np.ndarray], generators: Mapping[str, str | None]) -> Any:
    """`like` with these numbers in the places of its arrays; arrays without elements need none."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(like)
    restored = []
    for path, leaf in leaves:
        name = jax.tree_util.keystr(path)
        if name in arrays:
            restored.append(_dressed(arrays[name], leaf, generators[name]))
        else:
            restored.append(_empty(leaf, generators[name]) if name in generators else leaf)
    return jax.tree_util.tree_unflatten(structure, restored)


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _dressed(numbers: np.ndarray, like: Any, generator: str | None) -> Any:
    """Makes numbers the same kind of thing as `like`: NumPy or JAX, keys or numbers, weakly typed or not, placed as it is."""
    if isinstance(like, np.ndarray | np.generic):
        return numbers if isinstance(like, np.ndarray) else like.dtype.type(numbers)
    sharding = _chosen_sharding(like)
    array = jnp.asarray(numbers) if sharding is None else jax.device_put(numbers, sharding)
    if generator is not None:
        return jax.random.wrap_key_data(array, impl=generator)
    if getattr(like, "weak_type", False):
        # A weak type changes what later sums are computed in; writing into a weak array is the way to make one.
        weak = jnp.full(array.shape, {"i": 0, "f": 0.0}.get(array.dtype.kind, 0j))
        return weak.at[...].set(array) if weak.dtype == array.dtype else array
    return array


def _empty(like: Any, generator: str | None) -> Any:
    if isinstance(like, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, like) if generator is not None else like
        return _dressed(np.zeros(data.shape, data.dtype), like, generator)
    return like


def _chosen_sharding(array: Any) -> Any:
    """Where an array was put on purpose; None for those that JAX is free to place."""
    if isinstance(array, jax.Array):
        return plain(array).sharding if array.committed else None
    return getattr(array, "sharding", None)
