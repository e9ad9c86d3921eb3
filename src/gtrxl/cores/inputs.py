"""What is given to a core, checked in one place: shapes and types of inputs, resets and states, for one stream or for many.

T steps, B streams, D_in input width. Everything is seen from shapes: in a compiled program the checks cost nothing.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array

from gtrxl.cores.errors import CoreError

Form = tuple[Any, tuple[tuple[tuple[int, ...], Any], ...]]
"""Structure, and the shape and type of every array: all that a check asks of a state."""

MOST_FORMS = 512
_forms: dict[Any, set[Form]] = {}
"""Forms of states by the forms of the cores they belong to: a step outside a compiled program traces nothing to be checked."""


def check_step(core: Any, x: Array, reset: Array, *, streams: int | None = None) -> None:
    """Raise unless these are one step of one stream, or of so many."""
    _check_streams(streams, x=x, reset=reset)
    lead = () if streams is None else (streams,)
    width = getattr(core, "input_size", x.shape[-1] if x.ndim else None)
    if x.shape != (*lead, width):
        if streams is None:
            remedy = "for many streams use jax.vmap(core.step) or gtrxl.Streams, for many steps core.unroll"
        else:
            remedy = "for many steps use Streams.unroll"
        raise CoreError(
            f"x must have shape {_listed(*lead, width)} (one step of {_number(streams)}), got {list(x.shape)}; {remedy}"
        )
    if reset.shape != lead:
        each = "one bool for one stream" if streams is None else f"one bool for each of {streams} streams"
        raise CoreError(f"reset must be {each}, got shape {list(reset.shape)}; it says whether x starts an episode")
    _check_bool("reset", reset)


def check_unroll(core: Any, xs: Array, resets: Array, *, streams: int | None = None) -> None:
    """Raise unless these are T steps of one stream, or of so many."""
    _check_streams(streams, xs=xs, resets=resets)
    lead = () if streams is None else (streams,)
    width = getattr(core, "input_size", xs.shape[-1] if xs.ndim else None)
    if xs.ndim != len(lead) + 2 or xs.shape[-1] != width:
        remedy = "for many streams use jax.vmap(core.unroll) or gtrxl.Streams" if streams is None else "for one step use step"
        raise CoreError(
            f"xs must have shape {_listed(*lead, 'T', width)} (T steps of {_number(streams)}), got {list(xs.shape)}; {remedy}"
        )
    if xs.shape[-2] == 0:
        raise CoreError("xs must hold at least one step, got T = 0; leave the call out when there is nothing to learn from")
    if resets.shape != xs.shape[:-1]:
        raise CoreError(f"resets must have shape {list(xs.shape[:-1])}, one bool for each step of xs, got {list(resets.shape)}")
    _check_bool("resets", resets)


def check_state(core: Any, state: Any, prepare: Callable[[Any], Any], *, streams: int | None = None) -> None:
    """Raise unless this is a state of the core, for one stream or for so many, plain or as `prepare` makes it."""
    given = form_of(state)
    known = _known(core, streams)
    if given in known:
        return
    initial = _initial(core, streams)
    plain = form_of(initial)
    prepared = plain if given == plain else form_of(jax.eval_shape(prepare, initial))
    if given in (plain, prepared):
        known.add(given)
        return
    whose = "core.initial_state()" if streams is None else f"Streams(core, {streams}).initial_state()"
    begin = f"a state belongs to the core that made it, begin with {whose}"
    expected = prepared if given[0] == prepared[0] else plain
    if given[0] != expected[0]:
        kinds = [type(initial).__name__, type(state).__name__]
        if kinds[0] == kinds[1]:
            kinds = [f"{kind} of {of.num_leaves} arrays" for kind, of in zip(kinds, (expected[0], given[0]), strict=True)]
        raise CoreError(f"state must be {kinds[0]}, plain or prepared by this core, got {kinds[1]}; {begin}")
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(state)]
    where, wanted, got = next(
        (path, wanted, got) for path, wanted, got in zip(paths, expected[1], given[1], strict=True) if wanted != got
    )
    if streams is None and len(got[0]) == len(wanted[0]) + 1:
        begin = "for many streams use jax.vmap or gtrxl.Streams"
    elif wanted[1] != got[1]:
        begin = f"a state has the type that its core computes in, begin with {whose}"
    elif streams is not None and wanted[0][1:] == got[0][1:]:
        begin = f"states carry the {streams} streams in front, begin with {whose}"
    raise CoreError(f"state{where} must be {_typed(*wanted)}, got {_typed(*got)}; {begin}")


def form_of(tree: Any) -> Form:
    """Of any tree. What is not an array stands for itself."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, tuple(_form_of_leaf(leaf) for leaf in leaves)


def _form_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        return tuple(leaf.shape), leaf.dtype
    try:
        return jnp.shape(leaf), jnp.result_type(leaf)  # NumPy's float64 is what JAX makes of it
    except TypeError:
        return (), leaf


def _initial(core: Any, streams: int | None) -> Any:
    state = jax.eval_shape(core.initial_state)
    lead = () if streams is None else (streams,)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((*lead, *leaf.shape), leaf.dtype), state)


def _known(core: Any, streams: int | None) -> set[Form]:
    """The forms of states that were found right for cores of this one's form."""
    try:
        key = (type(core), form_of(core), streams)
        if key not in _forms and len(_forms) >= MOST_FORMS:
            _forms.clear()
        return _forms.setdefault(key, set())
    except TypeError:  # something in the core cannot be hashed
        return set()


def _check_streams(streams: int | None, **arrays: Array) -> None:
    for name, array in arrays.items():
        if streams is not None and (array.ndim == 0 or array.shape[0] != streams):
            raise CoreError(f"{name} must have {streams} streams along its first axis, got shape {list(array.shape)}")


def _check_bool(name: str, array: Array) -> None:
    if array.dtype != jnp.bool_:
        raise CoreError(f"{name} must be bool, got {array.dtype}; write for example {name}.astype(bool)")


def _number(streams: int | None) -> str:
    return "one stream" if streams is None else f"{streams} streams"


def _listed(*sizes: Any) -> str:
    return f"[{', '.join(str(size) for size in sizes)}]"


def _typed(shape: tuple[int, ...], dtype: Any) -> str:
    return f"{dtype}{list(shape)}"
