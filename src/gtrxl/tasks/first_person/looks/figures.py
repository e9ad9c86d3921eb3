"""Drawings of who is fought and what is found outdoors: opponents, their guns and shields, mushrooms, rocks, cacti and shrubs.

T x T texels; `u` runs to the right and `v` up, both from 0 to 1.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Float

DARK, MIDDLE, LIGHT = 1, 2, 3
"""The inks, as in shapes.py."""
FIGURES = ("bot", "shooter", "gun", "shield", "mushroom", "rock", "cactus", "shrub")
"""A shooter is an opponent in the moment of a shot."""

INKS = {
    "bot": {DARK: (0.12, 18, 18, 22), LIGHT: (0.1, 210, 216, 220)},
    "shooter": {DARK: (0.12, 18, 18, 22), LIGHT: (0.0, 255, 214, 60)},
    "gun": {DARK: (0.0, 34, 34, 38), LIGHT: (0.1, 200, 204, 210)},
    "shield": {DARK: (0.3, 20, 24, 30)},
    "mushroom": {DARK: (0.0, 214, 196, 160), LIGHT: (0.0, 248, 244, 232)},
    "rock": {DARK: (0.35, 30, 28, 28), LIGHT: (0.6, 70, 66, 62)},
}
"""As in `shapes.inks`: how much of the own colour is in an ink, and what is added."""


def draw(ink: Callable[..., None], u: Float[np.ndarray, "T T"], v: Float[np.ndarray, "T T"]) -> None:
    """Inks the sheets: `ink(name, (where, tone), ...)`."""
    x = u - 0.5

    def disc(cx: float, cy: float, r: float, *, wide: float = 1.0) -> np.ndarray:
        return ((u - cx) / wide) ** 2 + (v - cy) ** 2 < r**2

    def box(left: float, right: float, low: float, high: float) -> np.ndarray:
        return (u >= left) & (u < right) & (v >= low) & (v < high)

    # Dark boots and gloves, a suit in the own colour, a head with a visor, a gun held across.
    for name in ("bot", "shooter"):
        ink(name, (box(0.30, 0.46, 0.06, 0.44) | box(0.54, 0.70, 0.06, 0.44), MIDDLE), (disc(0.5, 0.86, 0.13), MIDDLE))
        ink(name, (box(0.28, 0.47, 0.0, 0.09) | box(0.53, 0.72, 0.0, 0.09), DARK), (box(0.27, 0.73, 0.40, 0.74), MIDDLE))
        ink(name, (box(0.16, 0.28, 0.44, 0.72) | box(0.72, 0.84, 0.44, 0.72), MIDDLE), (box(0.27, 0.73, 0.38, 0.43), DARK))
        ink(name, (box(0.40, 0.62, 0.83, 0.90), LIGHT), (box(0.44, 0.92, 0.52, 0.59), DARK))
        ink(name, (box(0.14, 0.28, 0.44, 0.50), DARK))
    flash = disc(0.76, 0.56, 0.2) | ((np.abs(u - 0.76) < 0.04) | (np.abs(v - 0.56) < 0.04)) & disc(0.76, 0.56, 0.3)
    ink("shooter", (flash, LIGHT))

    ink("gun", (box(0.04, 0.96, 0.48, 0.64), MIDDLE), (box(0.04, 0.96, 0.60, 0.64), LIGHT), (box(0.66, 0.82, 0.22, 0.48), DARK))
    ink("gun", (box(0.0, 0.1, 0.44, 0.68), DARK), (box(0.4, 0.5, 0.34, 0.48), DARK), (box(0.3, 0.6, 0.66, 0.74), DARK))
    narrowing = 0.42 * np.sqrt(np.clip((v - 0.04) / 0.51, 0, 1))
    shield = (np.abs(x) < 0.42) & (v > 0.55) & (v < 0.95) | (np.abs(x) < narrowing) & (v <= 0.55)
    ink("shield", (shield, MIDDLE), (shield & (np.abs(np.abs(x) - 0.36) < 0.05) & (v > 0.5), DARK), (shield & (v > 0.89), DARK))
    ink("shield", (box(0.44, 0.56, 0.2, 0.84) & shield, LIGHT), (box(0.22, 0.78, 0.58, 0.70) & shield, LIGHT))

    cap = disc(0.5, 0.46, 0.44) & (v > 0.46)
    ink("mushroom", (box(0.40, 0.60, 0.0, 0.48), DARK), (cap, MIDDLE), (disc(0.34, 0.66, 0.08) & cap, LIGHT))
    ink("mushroom", ((disc(0.62, 0.72, 0.09) | disc(0.78, 0.54, 0.06) | disc(0.20, 0.52, 0.05)) & cap, LIGHT))
    rock = disc(0.40, 0.22, 0.38) | disc(0.68, 0.16, 0.30) | disc(0.52, 0.42, 0.22)
    ridge = v - 0.5 * u
    ink("rock", (rock, MIDDLE), (rock & (x + 0.6 * v > 0.28), DARK), (rock & (ridge > 0.26) & (ridge < 0.36), LIGHT))
    ink("rock", (rock & (np.abs(v - 0.2 - 0.5 * np.abs(x - 0.05)) < 0.02), DARK))
    trunk = (np.abs(x) < 0.11) & (v < 0.92) | disc(0.5, 0.92, 0.11) & (v < 1)
    arms = box(0.14, 0.40, 0.38, 0.50) | box(0.14, 0.26, 0.38, 0.72) | box(0.60, 0.86, 0.52, 0.63) | box(0.75, 0.86, 0.52, 0.84)
    ink("cactus", (arms, MIDDLE), (trunk, MIDDLE))
    ink("cactus", (trunk & (np.abs(x - 0.07) < 0.025), DARK), (trunk & (np.abs(x + 0.05) < 0.02), LIGHT))
    ink("cactus", (box(0.23, 0.26, 0.40, 0.72) | box(0.83, 0.86, 0.54, 0.84), DARK))
    # Leaves: a heap of small discs, light above and dark below.
    rng = np.random.default_rng(5)
    for number in range(40):
        cx, cy = 0.5 + 0.42 * np.sqrt(rng.random()) * np.cos(rng.random() * 2 * np.pi), 0.06 + 0.5 * rng.random()
        ink("shrub", (disc(float(cx), float(cy * (1.15 - abs(cx - 0.5))), 0.09), (DARK, MIDDLE, MIDDLE, LIGHT)[number % 4]))
