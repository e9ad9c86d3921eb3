"""A picture of any task: what an observation shows, its numbers as bars and its pictures as pictures.

H rows, W columns, C channels.
"""

import math
from typing import Any

import jax
import numpy as np
from jaxtyping import UInt8

from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import SIDE, Canvas

_MARGIN, _LABEL, _ROW = 12.0, 14.0, 56.0
"""Around everything; the height of a name; the least height that numbers need."""
_BARS = 48
"""More numbers than this are drawn as shades."""


def picture_of(shown: Any) -> UInt8[np.ndarray, "H W 3"]:
    """Every array of an observation, or of anything else, one below the other."""
    named = jax.tree_util.tree_flatten_with_path(shown)[0]
    parts = [(jax.tree_util.keystr(path).strip(".[]'\""), np.asarray(leaf)) for path, leaf in named if _drawable(leaf)]
    canvas = Canvas(SIDE, SIDE)
    room = (SIDE - 2 * _MARGIN) / max(1, len(parts))
    for number, (name, part) in enumerate(parts):
        top = _MARGIN + number * room
        label = _LABEL if name and room >= _ROW / 2 else 0.0
        if label:
            canvas.text((_MARGIN, top + label / 2), name, size=11, anchor="lm")
        box = (_MARGIN, top + label, SIDE - 2 * _MARGIN, max(4.0, room - label - 6))
        if is_picture(part):
            canvas.picture(_fitted(box, part.shape[:2]), _coloured(part))
        else:
            _numbers(canvas, box, part.astype(np.float64).ravel())
    return canvas.pixels()


def is_picture(part: np.ndarray) -> bool:
    """Rows, columns and one, three or four channels of bytes."""
    return part.ndim == 3 and part.dtype == np.uint8 and part.shape[2] in (1, 3, 4)


def _drawable(leaf: Any) -> bool:
    return not jax.dtypes.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key) and np.size(leaf) > 0


def _coloured(part: UInt8[np.ndarray, "H W C"]) -> UInt8[np.ndarray, "H W 3"]:
    return part.repeat(3, axis=2) if part.shape[2] == 1 else part[..., :3]


def _fitted(box: tuple[float, float, float, float], shape: tuple[int, ...]) -> tuple[float, float, float, float]:
    """The largest box of the picture's proportions in the middle of a box."""
    left, top, wide, tall = box
    scale = min(wide / shape[1], tall / shape[0])
    w, h = shape[1] * scale, shape[0] * scale
    return left + (wide - w) / 2, top + (tall - h) / 2, w, h


def _numbers(canvas: Canvas, box: tuple[float, float, float, float], values: np.ndarray) -> None:
    """Bars up from a line in the middle or down from it, a full one as long as the largest number but at least 1; or shades."""
    left, top, wide, tall = box
    values = np.nan_to_num(values)
    shares = values / max(1.0, float(np.abs(values).max()))
    if len(values) <= _BARS:
        middle, step = top + tall / 2, wide / len(values)
        canvas.line([(left, middle), (left + wide, middle)], fill=c.EDGE, line=1)
        for i, share in enumerate(shares):
            length = share * tall / 2
            centre = (left + (i + 0.5) * step, middle - length / 2)
            if length:
                canvas.box(centre, (max(1.0, 0.7 * min(step, 28.0)), abs(length)), fill=c.AGENT if share > 0 else c.WRONG)
        return
    columns = math.ceil(math.sqrt(len(shares) * wide / tall))
    rows = math.ceil(len(shares) / columns)
    grid = np.zeros(rows * columns)
    grid[: len(shares)] = shares
    light, full = np.array([246.0, 243.0, 236.0]), np.where(grid[:, None] > 0, [[47.0, 111, 222]], [[210.0, 69, 60]])
    shades = light + np.abs(grid)[:, None] * (full - light)
    canvas.picture(box, shades.reshape(rows, columns, 3).astype(np.uint8))
