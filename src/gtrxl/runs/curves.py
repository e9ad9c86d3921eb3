"""A curve in plain text: dots of braille characters, two across and four down in each, and the lines to compare it with."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

Number = float | int
Point = tuple[Number, Number]
BLANK = 0x2800  # the braille character without dots; each dot adds its bit
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
NARROWEST, LOWEST = 8, 2
Piece = tuple[str, int | None]
LETTERS_APART = 12
"""Characters between two letters on a curve, at least."""


def curve(
    points: Sequence[Point], lines: Mapping[str, Number], width: int = 72, height: int = 16, *, x_end: Number | None = None
) -> str:
    """Draw `points` (frames, return) over a level for each of `lines`, in `height` rows of at most `width` characters.

    Points in the same column are averaged. Frames begin at 0 and end at `x_end` or the last point. Points that are not finite are
    left out. A plot is never smaller than 8 characters by 2.
    """
    drawn = plot({"": points}, lines, width, height, x_end=x_end)
    return "\n".join("".join(text for text, _ in row).rstrip() for row in drawn)


def plot(
    curves: Mapping[str, Sequence[Point]],
    lines: Mapping[str, Number],
    width: int = 72,
    height: int = 16,
    *,
    x_end: Number | None = None,
) -> list[list[Piece]]:
    """Several curves in one frame, as rows of pieces: a text, and which curve it belongs to, from 0; None for the frame.

    A curve's name is a letter that is written on it here and there, so that it is known without colours too.
    """
    found = {name: _finite(points) for name, points in curves.items()}
    lines = {name: float(level) for name, level in lines.items() if math.isfinite(level)}
    every = [point for points in found.values() for point in points]
    last = max([float(x_end or 0.0), *(x for x, _ in every)]) or 1.0

    low, high = _span([*(y for _, y in every), *lines.values()])
    rows = max(height - 2, LOWEST)
    scale = {0: _number(high), rows // 2: _number(high - (high - low) * (rows // 2) / (rows - 1)), rows - 1: _number(low)}
    left = max(len(text) for text in scale.values())

    def row_of(y: float) -> float:
        return (high - y) / (high - low) * (rows - 1)

    names: dict[int, list[str]] = {}
    for name, level in sorted(lines.items(), key=lambda line: -line[1]):
        names.setdefault(round(row_of(level)), []).append(f"{name} {_number(level)}")
    labels = {row: " " + ", ".join(said) for row, said in names.items()}
    right = max(map(len, labels.values()), default=0)
    if width - left - 2 - right < 2 * NARROWEST:  # no room for both: the curve comes first
        labels, right = dict.fromkeys(labels, ""), 0
    columns = max(width - left - 2 - right, NARROWEST)

    cells = _cells(found, last=last, columns=columns, rows=rows, row_of=row_of)
    drawn: list[list[Piece]] = []
    for row in range(rows):
        empty = "┄" if row in labels else " "
        inside = [cells.get((row, column), (empty, None)) for column in range(columns)]
        drawn.append([(f"{scale.get(row, ''):>{left}} │", None), *inside, (labels.get(row, ""), None)])
    end = f"{amount(last)} frames"
    drawn.append([(f"{'':>{left}} └{'─' * columns}", None)])
    drawn.append([(f"{'':>{left}}  {'0' if len(end) + 1 < columns else '':<{max(columns - len(end), 0)}}{end}", None)])
    return drawn


def _finite(points: Sequence[Point]) -> list[tuple[float, float]]:
    return sorted((float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y))


def amount(count: Number) -> str:
    """A number of frames in few characters: 950, 12 k, 1.5 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # What would be rounded up to a thousand of a unit is one of the next.
        if count >= 0.9995 * size:
            share = count / size
            return f"{share:.1f} {unit}" if share < 99.95 else f"{share:.0f} {unit}"
    return f"{count:.0f}"


def shown(score: Number, beside: Iterable[Number] = ()) -> str:
    """A return, with three digits that count at the size of the scores it is seen `beside`: 0.479 of 1, 12.3 of 45, 1234 of 5000.

    All of a task's returns get as many decimals, so that a column of them can be read down.
    """
    largest = max((abs(float(each)) for each in (score, *beside) if math.isfinite(each)), default=0.0)
    if largest >= 1e6 or not math.isfinite(score):
        return f"{score:.3g}"
    decimals = 3 - math.ceil(math.log10(largest)) if largest else 3
    return f"{score:z.{min(max(decimals, 0), 6)}f}"


def _span(levels: Sequence[float]) -> tuple[float, float]:
    low, high = min(levels, default=0.0), max(levels, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1.0):
        room = max(1.0, 0.1 * abs(high))
        return low - room, high + room
    return low, high


def _number(value: float) -> str:
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value + 0.0:.3g}"


def _cells(
    curves: Mapping[str, Sequence[Point]], *, last: float, columns: int, rows: int, row_of: Callable[[float], float]
) -> dict[tuple[int, int], Piece]:
    """What stands in every place (row, column) that a curve goes through."""
    dots: dict[tuple[int, int], tuple[int, int]] = {}
    letters: dict[tuple[int, int], Piece] = {}
    apart = max(LETTERS_APART, 3 * len(curves))
    for number, (letter, points) in enumerate(curves.items()):
        path = _path(points, last=last, across=2 * columns, down=4 * rows, row_of=row_of)
        for x, y in path:
            place = (y // 4, x // 2)
            dots[place] = (dots.get(place, (0, 0))[0] | DOTS[x % 2][y % 4], number)
        places = list(dict.fromkeys((y // 4, x // 2) for x, y in path))
        # Each curve at columns of its own: where all of them lie on each other, every letter is still to be seen.
        mine = [place for place in places if place[1] % apart == (number + 1) * apart // (len(curves) + 1)] or places[-1:]
        if letter:
            free = {place[1]: place for place in mine if place not in letters}
            letters |= dict.fromkeys(free.values(), (letter, number))
    return {place: (chr(BLANK + bits), number) for place, (bits, number) in dots.items()} | letters


def _path(
    points: Sequence[Point], *, last: float, across: int, down: int, row_of: Callable[[float], float]
) -> list[tuple[int, int]]:
    """The dots (x, y) of a curve: the mean of each column of dots, joined to the next one by a line."""
    heights: dict[int, list[float]] = {}
    for x, y in points:
        heights.setdefault(min(max(int(x / last * across), 0), across - 1), []).append(y)
    # Row r's middle is at dot 4 r + 1.5, so that a curve on a level lies on its line.
    corners = [(column, row_of(math.fsum(ys) / len(ys)) * 4 + 1.5) for column, ys in heights.items()]
    dots = []
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] or corners, strict=False):
        steps = max(abs(x1 - x0), math.ceil(abs(y1 - y0)), 1)
        for step in range(steps + 1):
            x = round(x0 + (x1 - x0) * step / steps)
            dots.append((x, min(max(round(y0 + (y1 - y0) * step / steps), 0), down - 1)))
    return dots
