"""A first-person world for people: seen from above, with what its agent cannot see, and its instruction in words.

N words, T steps, R rows and C columns of cells.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Float, Int

from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import Canvas
from gtrxl.tasks.first_person.heights import NO_GROUND
from gtrxl.tasks.first_person.looks.materials import DOOR_PAINT, PAINT
from gtrxl.tasks.first_person.scene import (
    COLOURS,
    DOOR,
    FREE,
    GLASS,
    PATTERNS,
    PICTURES,
    SHAPES,
    WALL_HEIGHT,
    Body,
    Objects,
    Scene,
)
from gtrxl.tasks.words import NO_WORD, PLACES

_PATH, _JUMP = "#1d4a9c", 1.0
_PAPER = "#fbfaf7"


def read(instruction: Int[np.ndarray, " N"]) -> str:
    """The text of an instruction; a word that no level uses is "…"."""
    return " ".join(_WORD_OF.get(int(bucket), "…") for bucket in instruction if bucket != NO_WORD)


_WORD_OF = {place: word for word, place in PLACES.items()}


def draw_plan(
    canvas: Canvas,
    scene: Scene,
    body: Body,
    *,
    corner: c.Point,
    side: c.Number,
    path: Float[np.ndarray, "T 2"] | None = None,
) -> None:
    """Walls, floor, objects, the body and where it came along, in a square. What is not there now is hollow; a cross in a ring
    is what hangs above the walls."""
    wall, floor = np.asarray(scene.wall), np.asarray(scene.floor)
    rows, columns = wall.shape
    cell = side / max(rows, columns)
    left, top = corner[0] + (side - cell * columns) / 2, corner[1] + (side - cell * rows) / 2

    def at(x: c.Number, y: c.Number) -> c.Point:
        return left + cell * x, top + cell * y

    strength = _strengths(scene)
    for row in range(rows):
        for column in range(columns):
            number = int(wall[row, column])
            # Through glass one sees what is below, which may be nothing.
            below = number in (FREE, GLASS)
            colour = _material(int(floor[row, column]), strength[row, column]) if below else _material(number, 1.0)
            # A little larger than the cell: no lines show between cells.
            canvas.box(at(column + 0.5, row + 0.5), (cell + 0.5, cell + 0.5), fill=colour)
    if path is not None:
        for way in _ways(path):
            canvas.line([at(x, y) for x, y in way.tolist()], fill=_PATH, line=max(1.0, cell / 12))
    _objects(canvas, scene.objects, at, cell)
    (x, y), heading = np.asarray(body.place).tolist(), float(body.heading)
    points = [(0.42, 0.0), (0.3, 2.5), (0.3, -2.5)]
    arrow = [at(x + r * math.cos(heading + turn), y + r * math.sin(heading + turn)) for r, turn in points]
    canvas.disc(at(x, y), max(4.0, 0.5 * cell), fill="#ffffff", edge=c.AGENT_EDGE, line=1)
    canvas.shape(arrow, fill=c.AGENT)


def _objects(canvas: Canvas, objects: Objects, at: Callable[[c.Number, c.Number], c.Point], cell: float) -> None:
    """Each as a disc of its colour."""
    for i, (x, y) in enumerate(np.asarray(objects.place).tolist()):
        there, colour = bool(objects.there[i]), _hex(PAINT[COLOURS[int(objects.colour[i])]])
        radius = max(2.5, 0.5 * cell * float(objects.size[i]))
        if x <= 0 and y <= 0:
            continue  # room for an object, never used
        if SHAPES[int(objects.shape[i])] in ("pad", "fence"):
            canvas.box(at(x, y), (2 * radius, 2 * radius), fill=colour if there else None, edge=colour, line=2)
        else:
            canvas.disc(at(x, y), radius, fill=colour if there else None, edge="#222222" if there else colour, line=1.5)
        if there and float(objects.lift[i]) >= WALL_HEIGHT:
            for turn in (1, -1):
                (px, py), r = at(x, y), 0.6 * radius
                canvas.line([(px - r, py - turn * r), (px + r, py + turn * r)], fill="#222222", line=1)


def _strengths(scene: Scene) -> Float[np.ndarray, "R C"]:
    """How strong the floor's colour is: the higher the stronger."""
    if scene.ground is None:
        return np.full(scene.wall.shape, 0.25)
    ground = np.asarray(scene.ground)
    there = ground > NO_GROUND
    low, high = ground[there].min(), ground[there].max()
    return np.where(there, 0.2 + 0.7 * (ground - low) / max(high - low, 1e-6), 0.0)


def _ways(path: Float[np.ndarray, "T 2"]) -> list[Float[np.ndarray, "_ 2"]]:
    """A path, cut where the body was put elsewhere."""
    jumps = np.flatnonzero(np.linalg.norm(np.diff(path, axis=0), axis=1) > _JUMP) + 1
    return [way for way in np.split(path, jumps) if len(way) > 1]


def _material(number: int, strength: float) -> str:
    """The colour of a wall's or a floor's number, mixed with paper; paper alone where there is no floor."""
    if number == FREE:
        return _PAPER
    carpet = number - GLASS - 1
    painted = carpet if carpet < len(COLOURS) else (carpet - len(COLOURS)) // len(PICTURES)
    colour = painted if number > GLASS else (number - 1) // len(PATTERNS)
    rgb = np.array(DOOR_PAINT if number == DOOR else PAINT[COLOURS[colour]])
    return _hex(0.85 * strength * rgb + (1 - strength) * 236)


def _hex(rgb: Iterable[c.Number | np.number]) -> str:
    return "#" + "".join(f"{round(float(value)):02x}" for value in rgb)
