"""A transformer's weights by the paper's symbols, and back: the bridge between the project and `reference.py`."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl import Transformer

NAMES = {  # paper's symbols, side by side where the project stores them so -> where the project keeps them
    ("W_Q", "W_K", "W_V"): lambda block: block.attention.w_qkv,
    ("W_R",): lambda block: block.attention.w_r,
    ("W_O",): lambda block: block.attention.w_o,
    ("u",): lambda block: block.attention.u,
    ("v",): lambda block: block.attention.v,
    ("W_1",): lambda block: block.mlp.first.weight,
    ("b_1",): lambda block: block.mlp.first.bias,
    ("W_2",): lambda block: block.mlp.second.weight,
    ("b_2",): lambda block: block.mlp.second.bias,
    ("ln1_scale",): lambda block: block.norm_1.scale,
    ("ln1_offset",): lambda block: block.norm_1.offset,
    ("ln2_scale",): lambda block: block.norm_2.scale,
    ("ln2_offset",): lambda block: block.norm_2.offset,
}
GATE_NAMES = {
    "ResidualGate": {},
    "InputGate": {("W_g",): lambda gate: gate.w_g},
    "OutputGate": {("W_g",): lambda gate: gate.w_g, ("b_g",): lambda gate: gate.b_g},
    "HighwayGate": {("W_g",): lambda gate: gate.w_g, ("b_g",): lambda gate: gate.b_g},
    "SigTanhGate": {("W_g", "U_g"): lambda gate: gate.wu_g, ("b_g",): lambda gate: gate.b_g},
    "GRUGate": {
        ("W_r", "W_z", "W_g"): lambda gate: gate.w_rzg,
        ("U_r", "U_z"): lambda gate: gate.u_rz,
        ("U_g",): lambda gate: gate.u_g,
        ("b_g",): lambda gate: gate.b_g,
    },
}


def places(block):
    """Symbols -> getter, gates included."""
    found = dict(NAMES)
    for prefix, get in (("mha_", lambda block: block.gate_1), ("mlp_", lambda block: block.gate_2)):
        for symbols, within in GATE_NAMES[type(get(block)).__name__].items():
            found[tuple(prefix + symbol for symbol in symbols)] = lambda block, get=get, within=within: within(get(block))
    return found


def gate_weights(gate):
    """A gate's weights in float64."""
    found = {}
    for symbols, get in GATE_NAMES[type(gate).__name__].items():
        found.update(zip(symbols, np.split(np.asarray(get(gate), np.float64), len(symbols), axis=-1), strict=True))
    return found


def block_weights(block):
    """One layer's weights in float64."""
    found = {}
    for symbols, get in places(block).items():
        found.update(zip(symbols, np.split(np.asarray(get(block), np.float64), len(symbols), axis=-1), strict=True))
    return found


def weights_of(core: Transformer):
    """Every layer's weights, the first layer first."""
    return [block_weights(jax.tree.map(lambda leaf, layer=layer: leaf[layer], core.blocks)) for layer in range(core.layers)]


def with_weights(core: Transformer, layers) -> Transformer:
    """The core with these weights in its layers."""
    for symbols, get in places(core.blocks).items():
        stacked = jnp.asarray(
            np.stack([np.concatenate([of[symbol] for symbol in symbols], axis=-1) for of in layers]), jnp.float32
        )
        assert stacked.shape == get(core.blocks).shape, (symbols, stacked.shape, get(core.blocks).shape)
        core = eqx.tree_at(lambda of, get=get: get(of.blocks), core, stacked)
    return core


def without_embedding(core: Transformer) -> Transformer:
    """The core with the identity for an input projection: its input is E^(0)."""
    size = core.output_size
    return eqx.tree_at(lambda of: (of.embed.weight, of.embed.bias), core, (jnp.eye(size), jnp.zeros(size)))
