"""Something to draw on: shapes with smooth edges, glow and text, in pixels of the finished picture.

H rows, W columns.
"""

import functools
import math
from collections.abc import Iterable

import numpy as np
from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFilter, ImageFont

PAPER = "#f6f3ec"
INK = "#3b3a36"
FAINT = "#a9a498"
PAD = "#dcd6c8"
EDGE = "#c4bcab"
LIGHT = "#ffb52e"
LIGHT_EDGE = "#e08e00"
AGENT = "#2f6fde"
AGENT_EDGE = "#1d4a9c"
RIGHT = "#2e9e5b"
WRONG = "#d2453c"
WALL = "#8d8676"

SIDE = 264
"""Pixels along a side of a task that is drawn from above."""

_FINER = 3
"""Shapes are drawn this many times larger, then made smaller: that smooths their edges."""

Number = float | int
Point = tuple[Number, Number]


class Canvas:
    """A picture under way."""

    def __init__(self, width: int, height: int, *, colour: str = PAPER):
        self.width, self.height = width, height
        self._image = Image.new("RGB", (width * _FINER, height * _FINER), colour)
        self._draw = ImageDraw.Draw(self._image)

    def box(
        self, centre: Point, size: Point, *, fill: str | None, edge: str | None = None, line: Number = 2, round: Number = 0
    ) -> None:
        """A rectangle, perhaps with round corners."""
        (x, y), (w, h) = centre, size
        corners = _scaled((x - w / 2, y - h / 2, x + w / 2, y + h / 2))
        self._draw.rounded_rectangle(corners, radius=round * _FINER, fill=fill, outline=edge, width=int(line * _FINER))

    def disc(self, centre: Point, radius: Number, *, fill: str | None, edge: str | None = None, line: Number = 2) -> None:
        """A circle."""
        (x, y), r = centre, radius
        self._draw.ellipse(_scaled((x - r, y - r, x + r, y + r)), fill=fill, outline=edge, width=int(line * _FINER))

    def shape(self, points: Iterable[Point], *, fill: str) -> None:
        """A polygon."""
        self._draw.polygon([(x * _FINER, y * _FINER) for x, y in points], fill=fill)

    def line(self, points: Iterable[Point], *, fill: str, line: Number = 2) -> None:
        """A line through points."""
        scaled = [(x * _FINER, y * _FINER) for x, y in points]
        self._draw.line(scaled, fill=fill, width=int(line * _FINER), joint="curve")

    def text(self, centre: Point, text: str, *, size: Number, fill: str = INK, anchor: str = "mm") -> None:
        """Words; `anchor` as in Pillow: "mm" puts their middle at `centre`, "lm" their left end."""
        x, y = centre
        self._draw.text((x * _FINER, y * _FINER), text, fill=fill, font=_font(int(size * _FINER)), anchor=anchor)

    def glow(self, centre: Point, radius: Number, *, fill: str, strength: Number = 0.55) -> None:
        """Light, or with a dark colour a shadow, that fades outwards."""
        (x, y), r = centre, radius
        mask = _halo(round(4 * r * _FINER)).point(lambda v: v * strength)
        corner = round((x - 2 * r) * _FINER), round((y - 2 * r) * _FINER)
        self._image.paste(Image.new("RGB", mask.size, fill), corner, mask)

    def picture(self, box: tuple[Number, Number, Number, Number], pixels: UInt8[np.ndarray, "h w 3"]) -> None:
        """Someone else's picture in a box (left, top, width, height); its pixels stay sharp."""
        left, top, width, height = (round(number * _FINER) for number in box)
        size = (max(1, width), max(1, height))
        self._image.paste(Image.fromarray(np.ascontiguousarray(pixels)).resize(size, Image.Resampling.NEAREST), (left, top))

    def ball(self, centre: Point, radius: Number) -> None:
        """The agent."""
        x, y = centre
        self.disc(centre, radius, fill=AGENT, edge=AGENT_EDGE, line=max(1.0, radius / 10))
        self.disc((x - 0.32 * radius, y - 0.36 * radius), 0.24 * radius, fill="#a9c6ff")

    def pixels(self) -> UInt8[np.ndarray, "H W 3"]:
        """The finished picture."""
        return np.array(self._image.resize((self.width, self.height), Image.Resampling.BOX))


def symbol(canvas: Canvas, kind: int, centre: Point, radius: Number, *, fill: str | None = None) -> None:
    """One of many signs that are easy to tell apart; after six forms come the same ones in other colours."""
    colour = fill or _COLOURS[(kind + kind // len(_FORMS)) % len(_COLOURS)]
    (x, y), r = centre, radius
    corners, turn, inner = _FORMS[kind % len(_FORMS)]
    if corners == 0:
        canvas.disc(centre, 0.9 * r, fill=colour)
        return
    count = corners if inner is None else 2 * corners
    sizes = [r if inner is None or i % 2 == 0 else inner * r for i in range(count)]
    angles = [turn + 2 * math.pi * i / count for i in range(count)]
    canvas.shape(((x + s * math.sin(a), y - s * math.cos(a)) for s, a in zip(sizes, angles, strict=True)), fill=colour)


_COLOURS = ("#d2453c", "#2f6fde", "#2e9e5b", "#8e4fc0", "#e08e00", "#1899a8", "#c2478f")
_FORMS = ((0, 0.0, None), (4, math.pi / 4, None), (3, 0.0, None), (5, 0.0, 0.42), (4, 0.0, None), (4, 0.0, 0.3))
"""Corners, turn, and how deep the notches between corners are: disc, square, triangle, star, diamond, spark."""


def _scaled(numbers: tuple[Number, ...]) -> tuple[Number, ...]:
    return tuple(number * _FINER for number in numbers)


@functools.cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


@functools.cache
def _halo(side: int) -> Image.Image:
    mask = Image.new("L", (side, side), 0)
    quarter = side / 4
    ImageDraw.Draw(mask).ellipse((quarter, quarter, side - quarter, side - quarter), fill=255)
    return mask.filter(ImageFilter.GaussianBlur(side / 10))
