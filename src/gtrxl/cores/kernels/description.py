"""What Python and C++ both know of a stack of layers, written once: the library's header is made from it (`header`).

B streams, T steps, N = B T rows, L layers, D width, F MLP width, H heads, K head width, I = H K, M memory slots, P = M + 1
distances, G = D times the arrays that a gate keeps. A name with a p behind it is that width in whole groups of floats.

A size is written as a product of these letters and numbers, "3*I". Arrays go to the library by name in the order given here,
never in the order in which a pytree happens to have them, and both sides check every shape.
"""

import math
from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array

from gtrxl.cores.attention import RelativeAttention
from gtrxl.cores.block import Block, FeedForward
from gtrxl.cores.errors import CoreError
from gtrxl.cores.gates import GATES, Gate, Native
from gtrxl.cores.layers import BEYOND, NORM_EPSILON, LayerNorm

GROUP = 16
"""Floats: widths are filled up with zeros to whole groups of them, a whole number of vectors on every machine."""
PANEL = 64
"""Columns of a packed matrix that lie together."""
LINE = 16
"""Floats in a line of the cache: every array that a layer keeps begins at a multiple of them."""


class Kind(NamedTuple):
    """A gate in the library."""

    name: str
    """In `GATES`."""
    number: int
    enumerator: str
    native: Native


def _kinds() -> dict[type[Gate], Kind]:
    own = [(name, gate, vars(gate).get("native")) for name, gate in GATES.items()]  # not a parent's
    known = [(name, gate, native) for name, gate, native in own if native is not None]
    return {
        gate: Kind(name, number, gate.__name__.removesuffix("Gate").upper(), native)
        for number, (name, gate, native) in enumerate(known)
    }


KINDS = _kinds()
"""The gates that the library computes."""


class Field(NamedTuple):
    """An array: what C++ calls it, where a block has it, and its shape."""

    name: str
    path: str
    shape: tuple[str, ...]


LAYER = (
    Field("qkv", "attention.w_qkv", ("D", "3*I")),
    Field("r", "attention.w_r", ("D", "I")),
    Field("o", "attention.w_o", ("I", "D")),
    Field("u", "attention.u", ("H", "K")),
    Field("v", "attention.v", ("H", "K")),
    Field("first", "mlp.first.weight", ("D", "F")),
    Field("bias_1", "mlp.first.bias", ("F",)),
    Field("second", "mlp.second.weight", ("F", "D")),
    Field("bias_2", "mlp.second.bias", ("D",)),
    Field("scale_1", "norm_1.scale", ("D",)),
    Field("offset_1", "norm_1.offset", ("D",)),
    Field("scale_2", "norm_2.scale", ("D",)),
    Field("offset_2", "norm_2.offset", ("D",)),
)
"""The weights of a layer when learning, in the order in which they are passed; those of its two gates follow."""


def gate_fields(native: Native, gate: str = "") -> list[Field]:
    """The weights of one gate when learning."""
    matrices = [Field(name, f"{gate}.{part.field}", ("D", f"{part.wide}*D")) for name, part in native.matrices.items()]
    return matrices + [Field("bias", f"{gate}.b_g", ("D",))] * native.bias


KEPT = {
    "qkv": "N*3*I",  # queries, keys and values
    "memory": "B*M*2*I",  # the memory's keys and values
    "r": "P*I",  # position keys
    "bias": "3*I",  # what the norm's offset adds to queries, keys and values
    "attended": "N*I",
    "max_score": "N*H",  # of each query's softmax the largest score,
    "inverse_sum": "N*H",  # and one over its sum
    "update_1": "N*D",
    "gate_1": "N*G",
    "after_1": "N*D",  # what the first gate gives
    "hidden": "N*F",  # the MLP within
    "update_2": "N*D",
    "gate_2": "N*G",
    "mean": "B*M",  # of the memory's rows
    "factor": "B*M",
}
"""What a layer keeps for its gradient, in this order. For `norm_inputs` the updates are behind their ReLU."""

PACKED = {
    "scale_1": "Dp",
    "offset_1": "Dp",
    "scale_2": "Dp",
    "offset_2": "Dp",
    "bias_1": "Fp",
    "bias_2": "Dp",
    "u": "Ip",
    "v": "Ip",
    "queries": "D*Ip",
    "keys": "H*K*Dp",
    "positions": "H*K*Pp",
    "values": "H*D*Kp",
    "out": "Ip*Dp",
    "first": "D*Fp",
    "second": "F*Dp",
}
"""The weights of a layer when acting, packed in this order; of each gate then a bias, zeros if it has none, and its matrices."""


def packed_gate(native: Native) -> dict[str, str]:
    """The same for one gate."""
    return {"bias": "Dp", **{name: f"{part.wide}*D*Dp" for name, part in native.packed.items()}}


def evaluate(size: str, sizes: Mapping[str, int]) -> int:
    """A size in floats."""
    return math.prod(int(factor) if factor.isdigit() else sizes[factor] for factor in size.split("*"))


def sizes_of(blocks: Block) -> dict[str, int]:
    """The sizes that stacked blocks tell."""
    heads, head_dim = blocks.attention.u.shape[-2:]
    width, inner = blocks.norm_1.scale.shape[-1], heads * head_dim
    kept = KINDS[type(blocks.gate_1)].native.kept
    return {"D": width, "F": blocks.mlp.first.bias.shape[-1], "H": heads, "K": head_dim, "I": inner, "G": width * kept}


def filled_up(sizes: Mapping[str, int]) -> dict[str, int]:
    """With the widths in whole groups of floats."""
    whole = {f"{letter}p": -(-sizes[letter] // GROUP) * GROUP for letter in "DFKP" if letter in sizes}
    return {**sizes, **whole, "Ip": sizes["H"] * whole["Kp"]}


def described(block: Block) -> bool:
    """Whether this says all of a block: it and its parts are the paper's, not somebody's variation of one."""
    gate = type(block.gate_1)
    parts = (block, block.attention, block.mlp, block.norm_1, block.norm_2, block.gate_2)
    paper = (Block, RelativeAttention, FeedForward, LayerNorm, LayerNorm, gate)
    if gate not in KINDS or any(type(part) is not kind for part, kind in zip(parts, paper, strict=True)):
        return False
    return len(jax.tree.leaves(block)) == len(_fields(block))


def arrays_of(blocks: Block) -> list[Array]:
    """The weights of stacked blocks in the order in which they are passed."""
    sizes, arrays = sizes_of(blocks), []
    for field in _fields(blocks):
        array = _at(blocks, field.path)
        shape = tuple(evaluate(size, sizes) for size in field.shape)
        if array.shape[1:] != shape:
            raise CoreError(f"{field.path} must be {list(shape)} in every layer, got {list(array.shape[1:])}")
        arrays.append(array)
    return arrays


def with_arrays(blocks: Block, arrays: list[Array]) -> Block:
    """Blocks that have these in their places."""
    return eqx.tree_at(lambda of: [_at(of, field.path) for field in _fields(blocks)], blocks, arrays)


def _fields(blocks: Block) -> list[Field]:
    native = KINDS[type(blocks.gate_1)].native
    return [*LAYER, *gate_fields(native, "gate_1"), *gate_fields(native, "gate_2")]


def _at(block: Block, path: str) -> Any:
    return reduce(getattr, path.split("."), block)


# The header.


def header() -> str:
    """All of this in C++: constants, the kinds of gates, and where each array of a layer lies."""
    kinds = list(KINDS.values())
    return f"""// Made by description.py, which has the words to it.
#pragma once

#include <cstdint>
#include <vector>

namespace gtrxl {{

constexpr long GROUP = {GROUP};
constexpr long PANEL = {PANEL};
constexpr long LINE = {LINE};
constexpr float EPSILON = {NORM_EPSILON!r}f;  // of the norms
constexpr float BEYOND = {BEYOND!r}f;  // what gradients of spoilt rows are multiplied by (layers.py)

enum GateKind : int64_t {{ {", ".join(f"{kind.enumerator} = {kind.number}" for kind in kinds)} }};
constexpr long GATES = {len(kinds)};
constexpr long GATE_KEPT[] = {{{", ".join(str(kind.native.kept) for kind in kinds)}}};

// Pointers to the weights, or to their gradients, of one layer when learning.
template <class Float>
struct Weights {{
  struct Gate {{
    Float {_pointers(_names(lambda native: [field.name for field in gate_fields(native)]))};
  }};
  Float {_pointers([field.name for field in LAYER])};
  Gate gate_1, gate_2;

  // Of all arrays, in the order in which they are passed, all layers in each.
  template <class Stack>
  static std::vector<std::vector<long>> shapes(const Stack& z) {{
    std::vector<std::vector<long>> all;
{_lines(4, *(f"all.push_back({_shape(field)});" for field in LAYER))}
    for (int gate = 0; gate < 2; ++gate) {{
{_by_kind(6, lambda native: [f"all.push_back({_shape(field)});" for field in gate_fields(native)])}
    }}
    return all;
  }}

  template <class Stack>
  Weights(const std::vector<Float*>& all, long l, const Stack& z) {{
    size_t next = 0;
    const auto take = [&](Float*& field, long floats) {{ field = all[next++] + l * floats; }};
{_lines(4, *(f"take({field.name}, {_product(field.shape)});" for field in LAYER))}
    for (Gate* gate : {{&gate_1, &gate_2}}) {{
{_by_kind(6, lambda native: [f"take(gate->{field.name}, {_product(field.shape)});" for field in gate_fields(native)])}
    }}
  }}
}};

// What a layer keeps for its gradient.
template <class Float>
struct Kept {{
  Float {_pointers(list(KEPT))};

  template <class Stack>
  Kept(Float* start, const Stack& z) {{
    const auto take = [&](Float*& field, long n) {{
      field = start == nullptr ? nullptr : start + floats_;
      floats_ += (n + LINE - 1) / LINE * LINE;
    }};
{_lines(4, *(f"take({name}, {_product((size,))});" for name, size in KEPT.items()))}
  }}
  template <class Stack>
  static long floats(const Stack& z) {{
    return Kept(nullptr, z).floats_;
  }}

 private:
  long floats_ = 0;
}};

// The packed weights of one layer when acting.
struct PackedLayer {{
  struct Gate {{
    const float {_pointers(_names(lambda native: list(packed_gate(native))))};
  }};
  const float {_pointers(list(PACKED))};
  Gate gate_1, gate_2;
  const float* end = nullptr;

  template <class Stack>
  PackedLayer(const float* at, const Stack& z) {{
    const auto take = [&](const float*& field, long floats) {{
      field = at;
      at += floats;
    }};
{_lines(4, *(f"take({name}, {_product((size,))});" for name, size in PACKED.items()))}
    for (Gate* gate : {{&gate_1, &gate_2}}) {{
{_by_kind(6, lambda native: [f"take(gate->{name}, {_product((size,))});" for name, size in packed_gate(native).items()])}
    }}
    end = at;
  }}
  template <class Stack>
  static long floats(const Stack& z) {{
    const float* const none = nullptr;
    return PackedLayer(none, z).end - none;
  }}
}};

}}  // namespace gtrxl
"""


def _product(shape: tuple[str, ...]) -> str:
    factors = [factor for size in shape for factor in size.split("*")]
    return " * ".join(factor if factor.isdigit() else f"z.{factor}" for factor in factors)


def _shape(field: Field) -> str:
    return f"{{z.L, {', '.join(_product((size,)) for size in field.shape)}}}"


def _pointers(names: list[str]) -> str:
    return ", ".join(f"*{name} = nullptr" for name in names)


def _names(of: Callable[[Native], list[str]]) -> list[str]:
    """Those of all gates, each once."""
    return list(dict.fromkeys(name for kind in KINDS.values() for name in of(kind.native)))


def _lines(indent: int, *lines: str) -> str:
    return "\n".join(" " * indent + line for line in lines)


def _by_kind(indent: int, of: Callable[[Native], list[str]]) -> str:
    cases = [f"case {kind.enumerator}: {' '.join([*of(kind.native), 'break;'])}" for kind in KINDS.values()]
    return _lines(indent, "switch (z.gate) {", *(f"  {case}" for case in cases), "}")
