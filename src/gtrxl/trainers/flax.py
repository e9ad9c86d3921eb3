"""The JAX cores in Flax agents, linen and nnx. B streams, T steps, D_in and D_out the core's widths.

A core is a pytree: its arrays become Flax's parameters under the names they have, `weights/blocks/attention/w_qkv`, and every
call puts them back. So optimisers, masks, checkpoints and sharding of Flax see them like any others.

Needs Flax: `pip install 'gtrxl[flax]'`.
"""

import functools
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from gtrxl.cores import State, Streams, make_core
from gtrxl.cores.errors import CoreError
from gtrxl.trainers.extras import need

need("flax", extra="flax")

from flax import linen, nnx

Weights = dict[str, Any]
"""A core's arrays in nested dicts, by where they are in the core."""


def weights_of(core: Any) -> Weights:
    """The arrays of a core, trained ones too: what `LinenCore` has under `params/weights`."""
    nested: Weights = {}
    for where, leaf in jax.tree_util.tree_flatten_with_path(core)[0]:
        if eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct):
            *above, name = _places(where)
            inside = functools.reduce(lambda at, place: at.setdefault(place, {}), above, nested)
            inside[name] = leaf
    return nested


def with_weights(core: Any, weights: Mapping[str, Any]) -> Any:
    """The core with these arrays; of `core` only what is no array counts."""

    def filled(where: Any, leaf: Any) -> Any:
        if not (eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)):
            return leaf
        found: Any = weights
        name = ".".join(_places(where))
        for place in _places(where):
            if place not in found:
                raise CoreError(
                    f"weights must have {name} {list(leaf.shape)}, got none; they are of another core or of other sizes"
                )
            found = found[place]
        if jnp.shape(found) != leaf.shape:
            raise CoreError(
                f"weights must have {name} of shape {list(leaf.shape)}, got {list(jnp.shape(found))}; they are of other sizes"
            )
        return jnp.asarray(found)

    return jax.tree_util.tree_map_with_path(filled, core)


class LinenCore(linen.Module):
    """A core by the name, class or factory that `gtrxl.make_core` takes, with its `arguments`, for B streams at once.

    variables = memory.init(key, xs, memory.initial_state(B), resets)
    ys, state = memory.apply(variables, xs, state, resets)                     # T steps: xs [B, T, D_in], resets [B, T]
    y, state = memory.apply(variables, x, state, reset, method="step")         # one: x [B, D_in], reset [B]
    """

    core: Any
    input_size: int
    arguments: Mapping[str, Any]

    @linen.compact
    def bound(self) -> Any:
        """The core with this module's parameters: whatever else a core can do, such as `prepare`, goes through it."""
        weights = self.param("weights", lambda key: weights_of(self._make(key)))
        return with_weights(self._shape(), weights)

    def __call__(
        self, xs: Float[Array, "B T D_in"], state: State, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State]:
        """`unroll`: the same numbers as T steps, with gradients."""
        return Streams(self.bound(), xs.shape[0]).unroll(xs, state, resets=resets)

    def step(self, x: Float[Array, "B D_in"], state: State, reset: Bool[Array, " B"]) -> tuple[Float[Array, "B D_out"], State]:
        """One step of every stream; `reset` is true where `x` is the first of an episode."""
        return Streams(self.bound(), x.shape[0]).step(x, state, reset=reset)

    @linen.nowrap
    def initial_state(self, batch: int) -> State:
        """Of streams that have seen nothing; needs no parameters."""
        return _initial_state(self._shape(), batch)

    @linen.nowrap
    def _make(self, key: Any) -> Any:
        return make_core(self.core, input_size=self.input_size, key=key, **self.arguments)

    @linen.nowrap
    def _shape(self) -> Any:
        return _shape(self.core, self.input_size, tuple(sorted(self.arguments.items())))


class NnxCore(nnx.Module):
    """The same for nnx.

    memory = NnxCore("gtrxl-gru", input_size=16, rngs=nnx.Rngs(0), d_model=64, layers=2, heads=4, memory=32)
    ys, state = memory(xs, memory.initial_state(B), resets)
    y, state = memory.step(x, state, reset)
    """

    def __init__(self, core: Any, input_size: int, *, rngs: nnx.Rngs, **arguments: Any):
        self.recipe = (core, input_size, tuple(sorted(arguments.items())))
        made = make_core(core, input_size=input_size, key=rngs.params(), **arguments)
        self.output_size = made.output_size
        self.weights = _variables(weights_of(made))

    def bound(self) -> Any:
        """The core with this module's parameters."""
        return with_weights(_shape(*self.recipe), _arrays(self.weights))

    def __call__(
        self, xs: Float[Array, "B T D_in"], state: State, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State]:
        """`unroll`."""
        return Streams(self.bound(), xs.shape[0]).unroll(xs, state, resets=resets)

    def step(self, x: Float[Array, "B D_in"], state: State, reset: Bool[Array, " B"]) -> tuple[Float[Array, "B D_out"], State]:
        """One step of every stream."""
        return Streams(self.bound(), x.shape[0]).step(x, state, reset=reset)

    def initial_state(self, batch: int) -> State:
        """Of streams that have seen nothing."""
        return _initial_state(_shape(*self.recipe), batch)


@functools.cache
def _shape(core: Any, input_size: int, arguments: tuple[tuple[str, Any], ...]) -> Any:
    """The core without its numbers: shapes stand where arrays will."""
    return eqx.filter_eval_shape(
        lambda key: make_core(core, input_size=input_size, key=key, **dict(arguments)), jax.random.key(0)
    )


def _initial_state(shape: Any, batch: int) -> State:
    """A state has nothing to do with the weights, so any will do."""
    core = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if isinstance(leaf, jax.ShapeDtypeStruct) else leaf, shape)
    return Streams(core, batch).initial_state()


def _places(where: Any) -> list[str]:
    return jax.tree_util.keystr(where, simple=True, separator=".").split(".")


def _variables(weights: Weights) -> Any:
    return nnx.Dict({name: _variables(each) if isinstance(each, dict) else nnx.Param(each) for name, each in weights.items()})


def _arrays(variables: Any) -> Weights:
    return {name: each[...] if isinstance(each, nnx.Variable) else _arrays(each) for name, each in variables.items()}
