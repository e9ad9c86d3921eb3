"""A curve in plain text: dots of braille characters, two across and four down in each, and the lines to compare it with."""

import math
from collections.abc import Callable, Mapping, Sequence

Number = float | int
Point = tuple[Number, Number]
BLANK = 0x2800  # the braille character without dots; each dot adds its bit
DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
NARROWEST, LOWEST = 8, 2


def curve(
    points: Sequence[Point], lines: Mapping[str, Number], width: int = 72, height: int = 16, *, x_end: Number | None = None
) -> str:
    """Draw `points` (frames, return) over a level for each of `lines`, in `height` rows of at most `width` characters.

    Points in the same column are averaged. Frames begin at 0 and end at `x_end` or the last point. Points that are not finite are
    left out. A plot is never smaller than 8 characters by 2.
    """
    points = sorted((float(x), float(y)) for x, y in points if math.isfinite(x) and math.isfinite(y))
    lines = {name: float(level) for name, level in lines.items() if math.isfinite(level)}
    last = max([float(x_end or 0.0), *(x for x, _ in points)]) or 1.0

    low, high = _span([*(y for _, y in points), *lines.values()])
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

    dots = _dots(points, last=last, columns=columns, rows=rows, row_of=row_of)
    drawn = []
    for row in range(rows):
        empty = "┄" if row in labels else " "
        cells = "".join(chr(BLANK + dots[row][column]) if dots[row][column] else empty for column in range(columns))
        drawn.append(f"{scale.get(row, ''):>{left}} │{cells}{labels.get(row, '')}".rstrip())
    end = f"{amount(last)} frames"
    drawn.append(f"{'':>{left}} └{'─' * columns}")
    drawn.append(f"{'':>{left}}  {'0' if len(end) + 1 < columns else '':<{max(columns - len(end), 0)}}{end}")
    return "\n".join(drawn)


def amount(count: Number) -> str:
    """A number of frames in few characters: 950, 12 k, 1.5 M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        # What would be rounded up to a thousand of a unit is one of the next.
        if count >= 0.9995 * size:
            share = count / size
            return f"{share:.1f} {unit}" if share < 99.95 else f"{share:.0f} {unit}"
    return f"{count:.0f}"


def _span(levels: Sequence[float]) -> tuple[float, float]:
    low, high = min(levels, default=0.0), max(levels, default=1.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1.0):
        room = max(1.0, 0.1 * abs(high))
        return low - room, high + room
    return low, high


def _number(value: float) -> str:
    return f"{value:.0f}" if 100 <= abs(value) < 1e6 else f"{value + 0.0:.3g}"


def _dots(points: Sequence[Point], *, last: float, columns: int, rows: int, row_of: Callable[[float], float]) -> list[list[int]]:
    """The dots of every character: the mean of each column of dots, joined to the next one by a line."""
    dots = [[0] * columns for _ in range(rows)]
    across, down = 2 * columns, 4 * rows
    heights: dict[int, list[float]] = {}
    for x, y in points:
        heights.setdefault(min(max(int(x / last * across), 0), across - 1), []).append(y)
    # Row r's middle is at dot 4 r + 1.5, so that a curve on a level lies on its line.
    path = [(column, row_of(math.fsum(ys) / len(ys)) * 4 + 1.5) for column, ys in heights.items()]
    for (x0, y0), (x1, y1) in zip(path, path[1:] or path, strict=False):
        steps = max(abs(x1 - x0), math.ceil(abs(y1 - y0)), 1)
        for step in range(steps + 1):
            x = round(x0 + (x1 - x0) * step / steps)
            y = min(max(round(y0 + (y1 - y0) * step / steps), 0), down - 1)
            dots[y // 4][x // 2] |= DOTS[x % 2][y % 4]
    return dots
