"""2,500 pictures to recognise, each drawn from its number: a figure of ten shapes and ten colours on one of five patterns in
one of five pairs of colours. No two are the same. H height and W width of a picture, G cells along a side of a drawn table.
"""

import functools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int

FIGURES = ("disc", "square", "triangle", "diamond", "star", "ring", "plus", "heart", "moon", "arrow")
GROUNDS = ("plain", "stripes", "checks", "dots", "rays")
INKS = np.array([(205, 30, 40), (240, 130, 20), (250, 225, 50), (60, 170, 50), (0, 125, 85),
                 (40, 190, 200), (30, 70, 200), (130, 50, 170), (235, 90, 180), (110, 70, 40)])  # fmt: skip
"""What figures are painted with."""
PAPERS = np.array([[(235, 235, 225), (200, 200, 190)], [(190, 215, 240), (140, 175, 215)], [(245, 205, 190), (225, 165, 145)],
                   [(205, 235, 190), (160, 205, 140)], [(50, 50, 60), (20, 20, 28)]])  # fmt: skip
"""What patterns are painted with: four pale pairs and a dark one."""
POOL = len(FIGURES) * len(INKS) * len(GROUNDS) * len(PAPERS)
GRAIN = 64
"""Cells of a table along a side."""


def drawing(number: Int[Array, ""], row: Int[Array, "H W"], column: Int[Array, "H W"]) -> Int[Array, "H W 3"]:
    """The picture of a number, where rows and columns of a table say."""
    figure, number = number % len(FIGURES), number // len(FIGURES)
    ink, number = number % len(INKS), number // len(INKS)
    ground, paper = number % len(GROUNDS), number // len(GROUNDS)
    pattern = jnp.asarray(grounds())[ground, row, column].astype(jnp.int32)
    behind = jnp.asarray(PAPERS)[paper][pattern]
    return jnp.where(jnp.asarray(figures())[figure, row, column][..., None], jnp.asarray(INKS)[ink], behind)


def _plane() -> tuple[np.ndarray, np.ndarray]:
    """East and north of each cell, from -1 to 1."""
    at = (np.arange(GRAIN) + 0.5) * 2 / GRAIN - 1
    return at[None, :] * np.ones((GRAIN, 1)), -at[:, None] * np.ones((1, GRAIN))


@functools.cache
def figures() -> Bool[np.ndarray, "10 G G"]:
    """Where each figure is."""
    x, y = _plane()
    far, angle = np.hypot(x, y), np.arctan2(x, y)
    turn = np.mod(angle + np.pi / 5, 2 * np.pi / 5) - np.pi / 5
    heart_x, heart_y = x / 0.62, (y + 0.08) / 0.6
    found = {
        "disc": far < 0.62,
        "square": (np.abs(x) < 0.55) & (np.abs(y) < 0.55),
        "triangle": (y > -0.55) & (y < 0.62 - 1.75 * np.abs(x)),
        "diamond": np.abs(x) / 0.55 + np.abs(y) / 0.75 < 1,
        "star": far * (np.cos(turn) + 1.1 * np.abs(np.sin(turn))) < 0.7 - 0.42 * np.abs(turn),
        "ring": (far < 0.66) & (far > 0.36),
        "plus": (np.minimum(np.abs(x), np.abs(y)) < 0.2) & (np.maximum(np.abs(x), np.abs(y)) < 0.66),
        "heart": (heart_x**2 + heart_y**2 - 0.75) ** 3 < heart_x**2 * heart_y**3,
        "moon": (far < 0.66) & (np.hypot(x - 0.32, y) > 0.52),
        "arrow": ((np.abs(y) < 0.17) & (x > -0.66) & (x < 0.1)) | ((x >= 0.05) & (np.abs(y) < 0.68 - x)),
    }
    return np.stack([found[name] for name in FIGURES])


@functools.cache
def grounds() -> Bool[np.ndarray, "5 G G"]:
    """Which cells of each pattern have its second colour."""
    x, y = _plane()
    found = {
        "plain": np.zeros((GRAIN, GRAIN), bool),
        "stripes": np.mod(x + y, 0.5) < 0.25,
        "checks": (np.floor(x * 3) + np.floor(y * 3)) % 2 == 0,
        "dots": np.hypot(np.mod(x, 0.4) - 0.2, np.mod(y, 0.4) - 0.2) < 0.13,
        "rays": np.mod(np.arctan2(y, x), np.pi / 5) < np.pi / 10,
    }
    return np.stack([found[name] for name in GROUNDS])
