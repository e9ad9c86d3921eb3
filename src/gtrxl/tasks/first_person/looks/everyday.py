"""Everyday things to look at: 33 small drawings, in the inks of `shapes`.

T x T texels. Lengths are in texels: x from the left, y from the bottom of a sheet of 32.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool

from gtrxl.tasks.first_person.looks.materials import TEXELS

DARK, MIDDLE, LIGHT = 1, 2, 3
"""As in `shapes`, which imports this file."""

Number = float | int
Mask = Bool[np.ndarray, "T T"]
Layer = tuple[int, Mask]
"""An ink, and where it goes; later layers cover earlier ones."""

_Y, _X = np.mgrid[0:TEXELS, 0:TEXELS] + 0.5


def _oval(x: Number, y: Number, wide: Number, tall: Number) -> Mask:
    return ((_X - x) / wide) ** 2 + ((_Y - y) / tall) ** 2 < 1


def _disc(x: Number, y: Number, radius: Number) -> Mask:
    return _oval(x, y, radius, radius)


def _box(left: Number, right: Number, low: Number, high: Number) -> Mask:
    return (left <= _X) & (right > _X) & (low <= _Y) & (high > _Y)


def _line(x0: Number, y0: Number, x1: Number, y1: Number, thick: Number) -> Mask:
    along = np.clip(((_X - x0) * (x1 - x0) + (_Y - y0) * (y1 - y0)) / ((x1 - x0) ** 2 + (y1 - y0) ** 2), 0, 1)
    return np.hypot(_X - x0 - along * (x1 - x0), _Y - y0 - along * (y1 - y0)) < thick / 2


def _shape(*corners: tuple[Number, Number]) -> Mask:
    """A polygon, by the parity of the edges to the right of a texel."""
    inside = np.zeros(_X.shape, bool)
    for (x0, y0), (x1, y1) in zip(corners, (*corners[1:], corners[0]), strict=True):
        if y0 != y1:
            inside ^= ((y0 > _Y) != (y1 > _Y)) & (x0 + (_Y - y0) * (x1 - x0) / (y1 - y0) > _X)
    return inside


def _ring(x: Number, y: Number, outer: Number, inner: Number) -> Mask:
    return _disc(x, y, outer) & ~_disc(x, y, inner)


def _both(one: Mask) -> Mask:
    """With its mirror image."""
    return one | one[:, ::-1]


def _balloon() -> list[Layer]:
    string = _line(16, 8, 14, 4, 1.6) | _line(14, 4, 17, 0, 1.6)
    return [(MIDDLE, _oval(16, 20, 11, 12)), (LIGHT, _disc(11.5, 25, 3)), (DARK, string | _shape((16, 10), (13, 6.5), (19, 6.5)))]


def _banana() -> list[Layer]:
    peel = _disc(16, 21.5, 15.8) & ~_disc(17, 35, 19)
    return [(MIDDLE, peel), (LIGHT, peel & _ring(17, 33, 23, 21)), (DARK, peel & ((_X < 4) | (_X > 28.5)))]


def _bottle() -> list[Layer]:
    glass = _box(9, 23, 0, 17) | _shape((9, 17), (23, 17), (19, 23), (13, 23)) | _box(13, 19, 22, 29)
    return [(MIDDLE, glass), (LIGHT, _box(9, 23, 4, 12)), (DARK, _box(12, 20, 28, 32))]


def _can() -> list[Layer]:
    tin = _oval(16, 4, 10, 4) | _box(6, 26, 4, 28)
    return [
        (MIDDLE, tin),
        (DARK, tin & (_X > 21) | _box(6, 26, 9, 11) | _box(6, 26, 20, 22)),
        (LIGHT, _oval(16, 28, 10, 4)),
        (DARK, _oval(16, 28, 4, 1.5)),
    ]


def _chair() -> list[Layer]:
    back = _both(_box(6, 10, 12, 32)) | _box(6, 26, 26, 32) | _box(6, 26, 19, 23)
    return [(DARK, _both(_box(4, 8, 0, 12))), (MIDDLE, back | _both(_box(8, 11, 3, 12))), (LIGHT, _box(3, 29, 10, 15))]


def _cherries() -> list[Layer]:
    stems = _line(9, 14, 19, 30, 2) | _line(23, 14, 19, 30, 2) | _oval(25, 28, 6, 2.6)
    return [
        (DARK, stems),
        (MIDDLE, _disc(8.5, 8, 8.4) | _disc(23.5, 8, 8.4)),
        (LIGHT, _disc(6, 10.5, 2.4) | _disc(21, 10.5, 2.4)),
    ]


def _cow() -> list[Layer]:
    face = _shape((6, 24), (26, 24), (22, 5), (10, 5)) | _oval(16, 24, 10, 5)
    horns = _both(_line(9, 26, 4, 28, 2.6) | _line(4, 28, 4, 32, 2.2))
    return [
        (LIGHT, horns),
        (DARK, _both(_oval(3.5, 22, 4, 2.4))),
        (MIDDLE, face),
        (LIGHT, _oval(16, 5.5, 8.5, 5.5) | _shape((13, 30), (19, 30), (17.5, 11), (14.5, 11))),
        (DARK, _both(_disc(12.5, 6, 1.5) | _disc(10.5, 19, 1.9))),
    ]


def _flower() -> list[Layer]:
    petals = np.any([_disc(16 + 7 * np.cos(a), 21 + 7 * np.sin(a), 4.6) for a in np.arange(6) * np.pi / 3], 0)
    stalk = _box(15, 17.4, 0, 16) | _shape((16, 2), (8, 9), (5, 8), (7, 4)) | _shape((16, 2), (24, 9), (27, 8), (25, 4))
    return [(DARK, stalk), (MIDDLE, petals), (LIGHT, _disc(16, 21, 4.2))]


def _fork() -> list[Layer]:
    prongs = _both(_box(8, 11, 18, 32)) | _both(_box(14.6, 16, 18, 32))
    return [(MIDDLE, prongs | _box(8, 24, 15, 20) | _box(13.6, 18.4, 0, 16)), (DARK, _box(16.6, 18.4, 0, 15)),
            (LIGHT, _box(8, 9, 19, 31))]  # fmt: skip


def _fridge() -> list[Layer]:
    return [
        (MIDDLE, _box(5, 27, 1, 32)),
        (DARK, _box(5, 27, 19.5, 21) | _box(24.5, 27, 1, 32) | _box(6, 10, 0, 1) | _box(22, 26, 0, 1)),
        (LIGHT, _box(8, 10.4, 22.5, 29) | _box(8, 10.4, 9, 18)),
    ]


def _guitar() -> list[Layer]:
    body = _oval(16, 8, 10, 8) | _oval(16, 17, 7.5, 6)
    return [
        (MIDDLE, body),
        (DARK, _box(14.6, 17.4, 14, 29) | _disc(16, 14, 3) | _box(11.5, 20.5, 5, 6.6)),
        (LIGHT, _box(13, 19, 27.5, 32)),
    ]


def _hair_brush() -> list[Layer]:
    bristles = _oval(16, 22, 5, 8)
    dots = bristles & ((_X // 2 + _Y // 2) % 2 == 0)
    return [(MIDDLE, _box(13, 19, 0, 16) | _oval(16, 22, 8, 10)), (LIGHT, bristles), (DARK, dots)]


def _hammer() -> list[Layer]:
    head = _box(13, 28, 22, 30) | _shape((13, 30), (13, 23), (3, 20), (5, 27))
    return [(DARK, _box(16, 20.5, 0, 23)), (MIDDLE, head), (LIGHT, _box(25, 28, 21, 31))]


def _ice_lolly() -> list[Layer]:
    ice = _box(7, 25, 9, 25) | _oval(16, 24, 9, 8)
    return [(LIGHT, _box(13.6, 18.4, 0, 10)), (MIDDLE, ice), (DARK, _both(_box(11, 13, 12, 26)))]


def _jug() -> list[Layer]:
    pot = _oval(13, 10, 11, 10) | _box(7, 19, 16, 28) | _shape((7, 26), (1, 32), (19, 32), (19, 26))
    return [(DARK, _ring(22, 18, 9, 5.6) & (_X > 17)), (MIDDLE, pot), (LIGHT, _oval(8, 12, 2, 5)), (DARK, _box(6, 20, 21, 23))]


def _key() -> list[Layer]:
    whole = _ring(16, 24, 8, 3.4) | _box(13.6, 18.4, 0, 18) | _box(17, 25, 0, 4) | _box(17, 23.5, 7, 11)
    return [(MIDDLE, whole), (LIGHT, _ring(16, 24, 8, 6.8) & (_X < 14)), (DARK, _box(17, 18.4, 0, 17))]


def _knife() -> list[Layer]:
    blade = _shape((12, 12), (20, 12), (20, 32), (17, 31), (13, 24))
    return [
        (MIDDLE, blade),
        (LIGHT, blade & (_X < 14.6)),
        (DARK, _box(13, 20, 0, 12)),
        (LIGHT, _disc(16.5, 3, 1) | _disc(16.5, 8, 1)),
    ]


def _ladder() -> list[Layer]:
    rungs = np.any([_box(7, 25, low, low + 2.6) for low in (2, 8, 14, 20, 26)], 0)
    return [(LIGHT, rungs), (MIDDLE, _both(_box(5, 9, 0, 32))), (DARK, _both(_box(8, 9, 0, 32)))]


def _mug() -> list[Layer]:
    return [
        (MIDDLE, _ring(23, 14, 8.5, 5) & (_X > 21) | _box(3, 23, 1, 26) | _oval(13, 26, 10, 3.5)),
        (DARK, _oval(13, 26.5, 8, 2.2)),
        (LIGHT, _box(3, 23, 9, 13)),
    ]


def _pencil() -> list[Layer]:
    return [
        (MIDDLE, _box(11, 21, 4, 22)),
        (DARK, _box(18, 21, 4, 22) | _box(11, 21, 3, 5)),
        (LIGHT, _shape((11, 22), (21, 22), (16, 32)) | _box(11, 21, 0, 3)),
        (DARK, _shape((14, 28), (18, 28), (16, 32))),
    ]


def _pig() -> list[Layer]:
    return [
        (DARK, _both(_shape((3, 20), (4, 31), (13, 26)))),
        (MIDDLE, _oval(16, 15, 15, 13)),
        (LIGHT, _oval(16, 11.5, 7, 5)),
        (DARK, _both(_oval(13.2, 11.5, 1.3, 2) | _disc(9, 19, 1.8))),
    ]


def _pincer() -> list[Layer]:
    jaws = _both(_shape((15, 20), (10, 20), (7, 26), (15, 32), (11.5, 26), (15, 23)))
    return [(MIDDLE, _both(_line(6, 2, 8, 9, 5) | _line(8, 9, 17, 20, 4.6))), (DARK, jaws), (LIGHT, _disc(16, 19, 2.6))]


def _plant() -> list[Layer]:
    tips = [(4, 24), (10, 30), (3, 15)]
    leaf = np.any([_line(16, 9, x, y, 2.4) | _line(16, 9, (16 + x) / 2, (9 + y) / 2, 4.6) for x, y in tips], 0)
    return [
        (MIDDLE, _both(leaf) | _line(16, 9, 16, 31, 3)),
        (DARK, _shape((10, 0), (22, 0), (25, 9), (7, 9))),
        (LIGHT, _box(6, 26, 8, 11)),
    ]


def _saxophone() -> list[Layer]:
    bell = _shape((1, 20), (11, 20), (9.6, 8), (4, 8))
    tube = _shape((20, 29), (23, 29), (20, 7), (14, 8)) | (_ring(12, 8.5, 8.5, 3) & (_Y < 9)) | bell
    return [
        (MIDDLE, tube | _line(21.5, 28, 27, 30, 2.4)),
        (DARK, _oval(6, 20, 5.4, 1.8) | _line(27, 30, 30, 26, 2.6)),
        (LIGHT, _disc(20, 22, 1.5) | _disc(19.3, 17.5, 1.5) | _disc(18.6, 13, 1.5) | _box(4.5, 6, 9, 17)),
    ]


def _shoe() -> list[Layer]:
    upper = _shape((1, 5), (1, 22), (12, 24), (15, 15), (26, 12), (31, 8), (31, 5))
    laces = _line(12.5, 16, 17, 19, 1.6) | _line(16, 13.5, 19, 17, 1.6) | _line(19.5, 12, 22, 15.5, 1.6)
    return [
        (MIDDLE, upper),
        (LIGHT, laces | _box(0, 32, 2, 5.6)),
        (DARK, _shape((1, 22), (12, 24), (12, 21), (1, 19)) | _box(0, 32, 0, 2.4)),
    ]


def _spoon() -> list[Layer]:
    return [
        (MIDDLE, _oval(16, 23, 8, 9) | _box(13.8, 18.2, 0, 16)),
        (DARK, _oval(16, 23, 5.6, 6.6)),
        (LIGHT, _oval(14, 25, 2, 3)),
    ]


def _suitcase() -> list[Layer]:
    return [
        (DARK, _box(10, 22, 20, 29) & ~_box(13, 19, 20, 26)),
        (MIDDLE, _box(1, 31, 1, 23)),
        (DARK, _both(_box(6, 9, 1, 23)) | _box(1, 31, 1, 3)),
        (LIGHT, _both(_box(11, 14, 17, 21))),
    ]


def _tennis_racket() -> list[Layer]:
    hoop = _oval(16, 21, 10.5, 11)
    inside = _oval(16, 21, 7.8, 8.3)
    strings = inside & ((_X % 4 < 1.1) | (_Y % 4 < 1.1))
    return [(MIDDLE, hoop & ~inside), (LIGHT, strings), (MIDDLE, _box(14, 18, 4, 12)), (DARK, _box(13.4, 18.6, 0, 7))]


def _tomato() -> list[Layer]:
    stalk = np.any([_line(16, 24, 16 + 8 * np.cos(a), 24 + 5 * np.sin(a), 2.4) for a in (0.1, 3.04, -0.9, -2.24, 1.57)], 0)
    return [
        (MIDDLE, _oval(11, 12.5, 10.5, 12) | _oval(21, 12.5, 10.5, 12)),
        (LIGHT, _oval(8, 17, 3, 2.4)),
        (DARK, stalk | _box(15, 17, 24, 31)),
    ]


def _toothbrush() -> list[Layer]:
    tufts = _box(17, 25, 20, 32) & (_Y % 3 > 0.9)
    return [
        (LIGHT, tufts),
        (MIDDLE, _box(12.5, 17.5, 0, 32)),
        (DARK, _box(12.5, 17.5, 2, 3.4) | _box(12.5, 17.5, 5, 6.4) | _box(12.5, 14, 8, 30)),
    ]


def _tree() -> list[Layer]:
    crown = _disc(9, 17, 8) | _disc(23, 17, 8) | _disc(16, 23, 9) | _disc(16, 15, 7)
    return [
        (DARK, _box(13, 19, 0, 14) | _shape((10, 0), (22, 0), (16, 6))),
        (MIDDLE, crown),
        (LIGHT, _disc(11, 24, 2) | _disc(7, 18, 1.7) | _disc(19, 20, 1.7)),
    ]


def _wine_glass() -> list[Layer]:
    bowl = _oval(16, 24, 9, 11) & (_Y < 31)
    return [
        (LIGHT, bowl | _box(14.8, 17.2, 2, 14) | _oval(16, 1.6, 9, 1.9)),
        (MIDDLE, bowl & (_Y < 26)),
        (DARK, bowl & (_Y > 25) & (_Y < 26.4)),
    ]


def _zebra() -> list[Layer]:
    hide = _oval(14, 16, 11, 6) | _shape((18, 16), (25, 18), (27, 29), (21, 28)) | _shape((20, 29), (27, 30), (32, 22), (28, 21))
    hide |= _box(4, 7, 0, 15) | _box(9, 11.6, 0, 12) | _box(17, 19.6, 0, 12) | _box(21, 24, 0, 15) | _line(3, 18, 1, 9, 1.8)
    stripes = hide & ((_X + 0.35 * _Y) % 5 < 2.1)
    return [(MIDDLE, hide), (DARK, stripes | _line(21, 30, 17, 21, 1.8) | _box(30, 32, 21, 24)), (LIGHT, _disc(26.6, 27, 1.1))]


_DRAWN: dict[str, Callable[[], list[Layer]]] = {
    "balloon": _balloon, "banana": _banana, "bottle": _bottle, "can": _can, "chair": _chair, "cherries": _cherries, "cow": _cow,
    "flower": _flower, "fork": _fork, "fridge": _fridge, "guitar": _guitar, "hair_brush": _hair_brush, "hammer": _hammer,
    "ice_lolly": _ice_lolly, "jug": _jug, "key": _key, "knife": _knife, "ladder": _ladder, "mug": _mug, "pencil": _pencil,
    "pig": _pig, "pincer": _pincer, "plant": _plant, "saxophone": _saxophone, "shoe": _shoe, "spoon": _spoon,
    "suitcase": _suitcase, "tennis_racket": _tennis_racket, "tomato": _tomato, "toothbrush": _toothbrush, "tree": _tree,
    "wine_glass": _wine_glass, "zebra": _zebra,
}  # fmt: skip

GREEN, WOOD, BLACK = (0.1, 30.0, 96.0, 30.0), (0.15, 96.0, 62.0, 32.0), (0.0, 30.0, 30.0, 34.0)
"""How much of a thing's own colour is in an ink, and what is added: stalks, handles, what is black."""
PALE, CREAM = (0.12, 214.0, 212.0, 206.0), (0.15, 198.0, 170.0, 118.0)
OWN_INKS: dict[str, dict[int, tuple[float, float, float, float]]] = {
    "balloon": {DARK: BLACK},
    "banana": {DARK: WOOD},
    "bottle": {DARK: BLACK, LIGHT: PALE},
    "can": {LIGHT: PALE},
    "cherries": {DARK: GREEN},
    "cow": {DARK: BLACK, LIGHT: PALE},
    "flower": {DARK: GREEN, LIGHT: (0.0, 250.0, 226.0, 120.0)},
    "fridge": {LIGHT: PALE},
    "guitar": {DARK: BLACK},
    "hair_brush": {LIGHT: PALE, DARK: BLACK},
    "hammer": {DARK: WOOD},
    "ice_lolly": {LIGHT: CREAM},
    "knife": {DARK: BLACK},
    "mug": {LIGHT: PALE},
    "pencil": {LIGHT: CREAM},
    "pig": {DARK: (0.3, 10.0, 10.0, 10.0)},
    "pincer": {DARK: BLACK, LIGHT: PALE},
    "plant": {DARK: WOOD, LIGHT: WOOD},
    "saxophone": {DARK: BLACK},
    "shoe": {DARK: BLACK, LIGHT: PALE},
    "suitcase": {DARK: WOOD, LIGHT: PALE},
    "tennis_racket": {DARK: BLACK, LIGHT: PALE},
    "tomato": {DARK: GREEN},
    "toothbrush": {LIGHT: PALE},
    "tree": {DARK: WOOD},
    "wine_glass": {LIGHT: PALE},
    "zebra": {DARK: BLACK, LIGHT: PALE},
}
"""Inks of a drawing that are not the usual ones."""


def sheets() -> dict[str, np.ndarray]:
    """The ink of each texel of each drawing, by its name."""
    found = {}
    for name, layers in _DRAWN.items():
        sheet = np.zeros((TEXELS, TEXELS), np.uint8)
        for tone, where in layers():
            sheet[where] = tone
        found[name] = sheet
    return found
