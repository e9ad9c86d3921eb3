"""What objects look like: one small drawing for each shape, in three inks.

S shapes, drawn on sheets of T x T texels.
"""

import numpy as np
from jaxtyping import Float, Int, UInt8

from gtrxl.tasks.first_person.looks import figures
from gtrxl.tasks.first_person.materials import TEXELS
from gtrxl.tasks.first_person.scene import SHAPES

NOTHING, DARK, MIDDLE, LIGHT = 0, 1, 2, 3
"""The inks of a drawing. What a colour becomes in each ink is up to the shape."""


def drawings() -> UInt8[np.ndarray, "S T T"]:
    """The ink of each texel of each shape. The first row is the lowest, the first column the leftmost."""
    v, u = (np.mgrid[0:TEXELS, 0:TEXELS] + 0.5) / TEXELS
    x = u - 0.5
    sheets = [np.zeros((TEXELS, TEXELS), np.uint8) for _ in SHAPES]

    def ink(name: str, *layers: tuple[np.ndarray, int]) -> None:
        for where, tone in layers:
            sheets[SHAPES.index(name)][where] = tone

    def disc(cx: float, cy: float, r: float) -> np.ndarray:
        return (u - cx) ** 2 + (v - cy) ** 2 < r**2

    def box(left: float, right: float, low: float, high: float) -> np.ndarray:
        return (u >= left) & (u < right) & (v >= low) & (v < high)

    ink("ball", (disc(0.5, 0.5, 0.48), DARK), (disc(0.46, 0.56, 0.40), MIDDLE), (disc(0.36, 0.68, 0.14), LIGHT))
    ink("cube", (box(0.0, 1.0, 0.0, 1.0), MIDDLE), (box(0.62, 1.0, 0.0, 0.8), DARK))
    ink("cube", ((v >= 0.8), LIGHT), ((np.abs(x + 0.19) > 0.28) & (u < 0.62) & (v < 0.8), MIDDLE))
    cone = np.abs(x) < 0.48 * (1 - v) + 0.01
    ink("cone", (cone, MIDDLE), (cone & (x > 0.2 * (1 - v)), DARK), (cone & (x < -0.18 * (1 - v)), LIGHT))
    ink("pillar", (np.abs(x) < 0.2, MIDDLE), ((np.abs(x - 0.13) < 0.07), DARK), ((np.abs(x + 0.13) < 0.05), LIGHT))
    ink("pillar", (((v < 0.1) | (v > 0.9)) & (np.abs(x) < 0.3), LIGHT), ((v < 0.1) & (np.abs(x) < 0.3), DARK))
    ring = disc(0.5, 0.5, 0.49) & ~disc(0.5, 0.5, 0.26)
    ink("ring", (ring, MIDDLE), (ring & ~disc(0.46, 0.54, 0.42), DARK), (ring & ~disc(0.56, 0.44, 0.46), LIGHT))
    cross = (np.abs(x) < 0.16) | (np.abs(v - 0.5) < 0.16)
    ink("cross", (cross, MIDDLE), (cross & ((np.abs(x - 0.12) < 0.04) | (np.abs(v - 0.38) < 0.04)), DARK))
    diamond = np.abs(x) + np.abs(v - 0.5) < 0.5
    ink(
        "diamond",
        (diamond, MIDDLE),
        (diamond & (x + v < 0.35), DARK),
        (diamond & (v - x > 0.75), LIGHT),
        (diamond & (x > 0) & (v < 0.5), DARK),
    )
    flesh = disc(0.34, 0.40, 0.33) | disc(0.66, 0.40, 0.33)
    ink("apple", (flesh, MIDDLE), (disc(0.28, 0.52, 0.10), LIGHT), (box(0.46, 0.54, 0.62, 0.98), DARK))
    ink("apple", (((u - 0.70) / 0.2) ** 2 + ((v - 0.86) / 0.1) ** 2 < 1, DARK))
    ink("cake", (box(0.03, 0.97, 0.0, 0.42), MIDDLE), (box(0.16, 0.84, 0.42, 0.72), MIDDLE), (box(0.03, 0.97, 0.34, 0.42), LIGHT))
    ink("cake", (box(0.16, 0.84, 0.64, 0.72), LIGHT), (box(0.46, 0.54, 0.72, 0.9), DARK), (disc(0.5, 0.93, 0.06), LIGHT))
    ink("cake", (box(0.03, 0.97, 0.0, 0.06), DARK), (box(0.03, 0.97, 0.16, 0.22), DARK))
    ink("car", (box(0.0, 1.0, 0.16, 0.46), MIDDLE), ((np.abs(x) < 0.40 - 0.45 * (v - 0.4)) & (v >= 0.46) & (v < 0.78), MIDDLE))
    ink("car", ((np.abs(x) < 0.33 - 0.45 * (v - 0.4)) & (v >= 0.5) & (v < 0.72) & (np.abs(x) > 0.03), LIGHT))
    ink("car", (disc(0.22, 0.16, 0.15) | disc(0.78, 0.16, 0.15), DARK), (disc(0.22, 0.16, 0.06) | disc(0.78, 0.16, 0.06), LIGHT))
    ink("cassette", (box(0.0, 1.0, 0.18, 0.84), MIDDLE), (box(0.08, 0.92, 0.38, 0.76), LIGHT), (box(0.2, 0.8, 0.18, 0.28), DARK))
    ink("cassette", (disc(0.3, 0.56, 0.13) | disc(0.7, 0.56, 0.13), DARK), (disc(0.3, 0.56, 0.05) | disc(0.7, 0.56, 0.05), LIGHT))
    ink("hat", (box(0.24, 0.76, 0.2, 0.92), MIDDLE), (box(0.0, 1.0, 0.08, 0.22), MIDDLE), (box(0.24, 0.76, 0.24, 0.4), DARK))
    ink("hat", (box(0.29, 0.37, 0.42, 0.9), LIGHT), (box(0.0, 1.0, 0.08, 0.12), DARK))
    ink("tv", (box(0.02, 0.98, 0.14, 0.78), MIDDLE), (box(0.08, 0.74, 0.22, 0.70), DARK), (disc(0.86, 0.6, 0.06), LIGHT))
    ink("tv", (disc(0.86, 0.42, 0.06), LIGHT), (box(0.14, 0.26, 0.0, 0.14) | box(0.74, 0.86, 0.0, 0.14), MIDDLE))
    ink("tv", ((np.abs(np.abs(x) - 0.9 * (v - 0.76)) < 0.035) & (v > 0.78), MIDDLE), (box(0.14, 0.34, 0.5, 0.64), LIGHT))
    ink(
        "flag",
        (box(0.06, 0.16, 0.0, 1.0), DARK),
        ((u >= 0.16) & (np.abs(v - 0.72) < 0.27 * (1 - (u - 0.16) / 0.84) + 0.02), MIDDLE),
    )
    ink("flag", ((u >= 0.16) & (v > 0.72) & (np.abs(v - 0.72) < 0.2 * (1 - (u - 0.16) / 0.84)) & (u < 0.4), LIGHT))
    figures.draw(ink, u, v)
    return np.stack(sheets)


def inks() -> Float[np.ndarray, "S 4 4"]:
    """For each shape and ink: how much of the object's own colour is in it, and what red, green and blue are added."""
    usual = np.zeros((4, 4))
    usual[DARK] = (0.55, 0, 0, 0)
    usual[MIDDLE] = (1, 0, 0, 0)
    usual[LIGHT] = (0.55, 105, 105, 105)
    special = {
        "apple": {DARK: (0.15, 40, 90, 24)},
        "cake": {DARK: (0.3, 92, 58, 30), LIGHT: (0.12, 220, 214, 205)},
        "car": {DARK: (0.0, 34, 34, 38), LIGHT: (0.1, 172, 204, 214)},
        "cassette": {DARK: (0.0, 36, 34, 36), LIGHT: (0.1, 216, 212, 200)},
        "tv": {DARK: (0.0, 30, 40, 56), LIGHT: (0.1, 190, 210, 214)},
        "flag": {DARK: (0.0, 96, 84, 72)},
        "hat": {DARK: (0.2, 24, 24, 28)},
        **figures.INKS,
    }
    found = np.stack([usual] * len(SHAPES))
    for name, own in special.items():
        for tone, value in own.items():
            found[SHAPES.index(name), tone] = value
    return found.astype(np.float32)


def words() -> Int[np.ndarray, "2 S T"]:
    """The drawings by column: bit v of a word belongs to row v; the low bits of the inks, then the high ones."""
    ink = drawings().astype(np.uint64)
    bit = np.uint64(1) << np.arange(TEXELS, dtype=np.uint64)[None, :, None]
    found = np.stack([((ink & np.uint64(1)) * bit).sum(1), ((ink >> np.uint64(1)) * bit).sum(1)])
    return found.astype(np.uint32).view(np.int32)
