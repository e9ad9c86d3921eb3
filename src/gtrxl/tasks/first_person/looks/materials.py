"""What walls, floors and doors look like: paints and patterns.

P patterns of T x T texels, M materials: the numbers in `Scene.wall`.
"""

import numpy as np
from jaxtyping import Float, Int, UInt8

from gtrxl.tasks.first_person.scene import COLOURS, PATTERNS

TEXELS = 32
"""A side of a pattern and of a drawing."""

PAINT: dict[str, tuple[int, int, int]] = {
    "red": (222, 48, 44),
    "green": (64, 176, 68),
    "blue": (52, 92, 226),
    "yellow": (244, 214, 52),
    "magenta": (232, 70, 196),
    "cyan": (60, 206, 220),
    "orange": (246, 142, 36),
    "white": (238, 238, 232),
    "purple": (126, 62, 178),
    "brown": (142, 94, 54),
    "black": (30, 30, 34),
    "grey": (140, 140, 146),
}
"""What each colour is, in red, green and blue."""
DOOR_PAINT = (176, 124, 70)
CARPET = len(PATTERNS) + 1
"""The pattern of carpets, after the door's: plain, but told apart by its number."""
MEAN = 0.8
"""Of every pattern: from far away a wall has its colour times this, whatever its pattern."""


RGB = np.array([PAINT[name] for name in COLOURS], np.float32)
"""The paints by number."""


def patterns() -> UInt8[np.ndarray, "P T T"]:
    """How light each texel of each pattern is, 255 the lightest; then the door's and the carpet's. The first row is the top."""
    y, x = np.mgrid[0:TEXELS, 0:TEXELS]
    course = y // 8
    brick = (x + 8 * (course % 2)) % 16
    drawn = {
        "plain": np.where(((x * 7 + y * 13) % 11 == 0) | ((x * 5 + y * 3) % 17 == 0), 0.93, 1.0),
        "bricks": np.where((y % 8 < 1) | (brick < 1), 0.5, 0.9 + 0.1 * ((course * 5 + (x + 8 * (course % 2)) // 16 * 3) % 3 - 1)),
        "stripes": np.where(x % 16 < 8, 1.0, 0.55),
        "checks": np.where((x // 8 + y // 8) % 2 == 0, 1.0, 0.58),
        "dots": np.where((x % 16 - 7.5) ** 2 + (y % 16 - 7.5) ** 2 < 21, 0.4, 1.0),
        "planks": np.where(y % 8 < 1, 0.5, 0.88 + 0.12 * ((y // 8 * 3 + (x + y // 8 * 11) // 16 * 2) % 3 - 1))
        - 0.35 * ((x + y // 8 * 11) % 32 < 1),
    }
    frame = (x < 2) | (x >= 30) | (y < 2)
    panel = ((x >= 5) & (x < 15) | (x >= 17) & (x < 27)) & ((y >= 5) & (y < 15) | (y >= 18) & (y < 29))
    edge = panel & ~(((x >= 6) & (x < 14) | (x >= 18) & (x < 26)) & ((y >= 6) & (y < 14) | (y >= 19) & (y < 28)))
    handle = (x - 27.5) ** 2 + (y - 16.5) ** 2 < 4
    door = np.select([handle, frame, edge, panel], [1.5, 0.3, 0.45, 0.8], 0.95)
    all_ = np.stack([*(drawn[name] for name in PATTERNS), door, drawn["plain"]]).astype(np.float64)
    all_ = MEAN + (all_ - all_.mean((1, 2), keepdims=True))
    return np.clip(np.round(all_ * 255), 0, 255).astype(np.uint8)


def packed(rgb: Float[np.ndarray, "*n 3"]) -> Int[np.ndarray, "*n"]:
    """Colours as one number each: red in the lowest byte."""
    whole = np.clip(np.round(rgb), 0, 255).astype(np.int32)
    return whole[..., 0] | whole[..., 1] << 8 | whole[..., 2] << 16


def entries() -> Int[np.ndarray, " M"]:
    """For each number in `Scene.wall`: the packed colour, and in the highest byte the pattern. What is free and what is
    glass show nothing."""
    paint = packed(np.array([PAINT[name] for name in COLOURS], float))
    found = paint[:, None] | np.arange(len(PATTERNS), dtype=np.int32)[None, :] << 24
    door = packed(np.array([DOOR_PAINT], float)) | len(PATTERNS) << 24
    nothing = np.zeros(1, np.int32)
    carpets = paint | CARPET << 24
    return np.concatenate([nothing, found.reshape(-1), door, nothing, carpets]).astype(np.int32)
