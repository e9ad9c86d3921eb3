"""Pictures on walls: a framed drawing of an everyday thing, as large as the wall of a cell. With them, all that walls show.

P patterns of T x T texels, M materials: the numbers in `Scene.wall`.
"""

import numpy as np
from jaxtyping import Int, UInt8

from gtrxl.tasks.first_person.looks import materials, shapes
from gtrxl.tasks.first_person.looks.materials import CARPET, MEAN, PAINT, TEXELS, packed
from gtrxl.tasks.first_person.scene import COLOURS, PICTURES, SHAPES

_LIGHT = np.array([1.0, 0.15, 0.4, 0.7])
"""Of the ground and of the three inks."""
_FRAME, _INSIDE = 2, 28
"""Texels of the frame, and of what is inside it."""


def patterns() -> UInt8[np.ndarray, "P T T"]:
    """Those of materials.py, then one for each of PICTURES. The first row is the top."""
    drawings = shapes.drawings()[:, ::-1]
    every = np.arange(_INSIDE) * TEXELS // _INSIDE  # a drawing, made a little smaller
    found = np.full((len(PICTURES), TEXELS, TEXELS), 0.15)
    inside = slice(_FRAME, _FRAME + _INSIDE)
    for number, name in enumerate(PICTURES):
        found[number, inside, inside] = _LIGHT[drawings[SHAPES.index(name)][every][:, every]]
    found = MEAN + (found - found.mean((1, 2), keepdims=True))
    return np.concatenate([materials.patterns(), np.clip(np.round(found * 255), 0, 255).astype(np.uint8)])


def entries() -> Int[np.ndarray, " M"]:
    """Those of materials.py, then every picture in every colour."""
    paint = packed(np.array([PAINT[name] for name in COLOURS], float))
    pictures = paint[:, None] | np.arange(CARPET + 1, CARPET + 1 + len(PICTURES), dtype=np.int32)[None, :] << 24
    return np.concatenate([materials.entries(), pictures.reshape(-1)]).astype(np.int32)
