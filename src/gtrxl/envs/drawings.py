"""How each task is drawn on a canvas of SIDE by SIDE pixels. Amber is lit or looked at, blue is the agent."""

import numpy as np

from gtrxl.envs import canvas as c
from gtrxl.envs.canvas import Canvas, symbol
from gtrxl.envs.contract import State, Task
from gtrxl.envs.errors import TaskError
from gtrxl.envs.grid_numpad import GridNumpad, GridState
from gtrxl.envs.numpad import PAD_RADIUS, Numpad, NumpadState
from gtrxl.envs.pads import Pads
from gtrxl.envs.recall import Recall, RecallState
from gtrxl.envs.sphere import RADIUS
from gtrxl.envs.t_maze import LEFT, RIGHT, MazeState, TMaze

SIDE = 264


def draw(canvas: Canvas, task: Task, state: State, *, secret: bool) -> None:
    """Draws the state of one stream, its leaves NumPy arrays; `secret` adds what is hidden from the agent."""
    if isinstance(task, GridNumpad):
        _grid_numpad(canvas, task, state, secret)
    elif isinstance(task, Numpad):
        _numpad(canvas, task, state, secret)
    elif isinstance(task, TMaze):
        _t_maze(canvas, task, state, secret)
    elif isinstance(task, Recall):
        _recall(canvas, task, state, secret)
    else:
        raise TaskError(f"pictures are drawn of the tasks of the catalogue, got {task!r}; draw this one yourself")


def _pad_face(canvas: Canvas, pads: Pads, pad: int, centre: c.Point, *, size: c.Number, secret: bool, anchor: str = "mm") -> None:
    """The number of a pad, once it is lit or if secrets are shown."""
    number = int(pads.order[pad])
    if 0 <= number < int(pads.lit):
        canvas.text(centre, str(number + 1), size=size, fill="#7a4b00", anchor=anchor)
    elif secret and number >= 0:
        canvas.text(centre, str(number + 1), size=size, fill=c.FAINT, anchor=anchor)


def _ball(canvas: Canvas, centre: c.Point, radius: c.Number) -> None:
    x, y = centre
    canvas.disc(centre, radius, fill=c.AGENT, edge=c.AGENT_EDGE, line=max(1.0, radius / 10))
    canvas.disc((x - 0.32 * radius, y - 0.36 * radius), 0.24 * radius, fill="#a9c6ff")


def _grid_numpad(canvas: Canvas, task: GridNumpad, state: GridState, secret: bool) -> None:
    cell = (SIDE - 24) / task.size
    pad = 0.84 * cell
    centres = [(12 + cell * (0.5 + i % task.size), 12 + cell * (0.5 + i // task.size)) for i in range(task.size**2)]
    lights = np.asarray(state.pads.order >= 0) & np.asarray(state.pads.order < state.pads.lit)
    for centre, lit in zip(centres, lights, strict=True):
        if lit:
            canvas.glow(centre, 0.53 * cell, fill=c.LIGHT, strength=0.8)
    for i, (centre, lit) in enumerate(zip(centres, lights, strict=True)):
        fill, edge = (c.LIGHT, c.LIGHT_EDGE) if lit else (c.PAD, c.EDGE)
        canvas.box(centre, (pad, pad), fill=fill, edge=edge, line=2, round=0.14 * cell)
        corner = (centre[0] - 0.36 * cell, centre[1] - 0.28 * cell)
        _pad_face(canvas, state.pads, i, corner, size=max(12, 0.16 * cell), secret=secret, anchor="lm")
    x, y = centres[int(state.row) * task.size + int(state.column)]
    canvas.glow((x, y + 0.08 * cell), 0.2 * cell, fill="#000000", strength=0.3)
    _ball(canvas, (x, y), 0.2 * cell)


def _numpad(canvas: Canvas, task: Numpad, state: NumpadState, secret: bool) -> None:
    scale = (SIDE - 40) / (2 * task.half_width)

    def at(x: float, y: float) -> c.Point:
        return SIDE / 2 + scale * x, SIDE / 2 + scale * y

    canvas.box((SIDE / 2, SIDE / 2), (SIDE - 16, SIDE - 16), fill=c.WALL, edge="#6f6959", line=2, round=14)
    canvas.box((SIDE / 2, SIDE / 2), (SIDE - 38, SIDE - 38), fill="#ece7da", round=6)
    lights = np.asarray(state.pads.order >= 0) & np.asarray(state.pads.order < state.pads.lit)
    radius = scale * PAD_RADIUS
    for i, (x, y) in enumerate(task.pad_centres):
        centre = at(float(x), float(y))
        if lights[i]:
            canvas.glow(centre, 1.4 * radius, fill=c.LIGHT, strength=0.85)
        canvas.disc(centre, 1.5 * radius, fill=c.LIGHT if lights[i] else c.PAD, edge=c.LIGHT_EDGE if lights[i] else c.EDGE)
        canvas.disc(centre, radius, fill=None, edge=c.LIGHT_EDGE if lights[i] else c.EDGE, line=1)
        _pad_face(canvas, state.pads, i, centre, size=max(12, 0.9 * radius), secret=secret)
    x, y, height = (float(v) for v in state.sphere.position)
    ground = at(x, y)
    ball = scale * RADIUS * (1 + 0.6 * height)
    # Seen a little from the side: what is higher is drawn further up, and its shadow stays on the floor, larger and fainter.
    canvas.glow((ground[0] + scale * 0.5 * height, ground[1] + 0.25 * ball), ball * (1 + height), fill="#000000", strength=0.42)
    _ball(canvas, (ground[0], ground[1] - scale * 0.9 * height), ball)


def _t_maze(canvas: Canvas, task: TMaze, state: MazeState, secret: bool) -> None:
    left, right, middle, wide, arm = 32.0, SIDE - 36.0, SIDE / 2, 32.0, 84.0
    floor = "#e4dece"
    for grown, colour in ((8, c.WALL), (0, floor)):
        canvas.box(((left + right) / 2, middle), (right - left + wide + grown, wide + grown), fill=colour, round=4)
        canvas.box((right, middle), (wide + grown, 2 * arm + wide + grown), fill=colour, round=4)
    cell = (right - left) / task.corridor
    if cell >= 4:
        for i in range(1, task.corridor):
            x = left + (i - 0.5) * cell + cell / 2
            canvas.line([(x, middle + 8), (x, middle + 11)], fill=c.EDGE, line=1)

    place, side, turned = int(state.place), int(state.side), int(state.turned)
    for each in (LEFT, RIGHT):
        end = (right, middle + (-arm if each == LEFT else arm))
        if turned == each:
            canvas.glow(end, 24, fill=c.RIGHT if turned == side else c.WRONG, strength=0.7)
        elif not turned:
            canvas.text(end, "?", size=20, fill=c.FAINT)

    # The sign is bright while the agent sees it.
    seen = place == 0
    sign = (left, middle - 58)
    canvas.line([(left, middle - 40), (left, middle - 20)], fill=c.WALL, line=4)
    canvas.box(sign, (44, 40), fill=c.LIGHT if seen else c.PAD, edge=c.LIGHT_EDGE if seen else c.EDGE, round=6)
    if seen or secret or turned:
        _arrow(canvas, sign, up=side == LEFT, fill="#7a4b00" if seen else c.FAINT)
    else:
        canvas.text(sign, "…", size=18, fill=c.FAINT)

    x = left + place * cell
    y = middle + {0: 0.0, LEFT: -arm, RIGHT: arm}[turned]
    canvas.glow((x, y + 5), 12, fill="#000000", strength=0.3)
    _ball(canvas, (x, y), 12)
    if turned:
        word, colour = ("correct", c.RIGHT) if turned == side else ("wrong", c.WRONG)
        canvas.text((right - 66, y), word, size=18, fill=colour)
    canvas.text((left - 14, middle + 42), f"{place} of {task.corridor} cells", size=13, fill=c.INK, anchor="lm")


def _arrow(canvas: Canvas, centre: c.Point, *, up: bool, fill: str) -> None:
    x, y = centre
    tip = -13 if up else 13
    canvas.line([(x, y - tip), (x, y + tip * 0.3)], fill=fill, line=5)
    canvas.shape([(x, y + tip), (x - 10, y + tip * 0.1), (x + 10, y + tip * 0.1)], fill=fill)


def _recall(canvas: Canvas, task: Recall, state: RecallState, secret: bool) -> None:
    columns = min(task.items, 4) if task.items <= 8 else -(-task.items // 3)
    rows = -(-task.items // columns)
    across = min(62.0, (SIDE - 16) / columns)
    width, tall = 0.84 * across, min(1.15 * across, 130 / rows)
    elapsed, question = int(state.elapsed), int(state.elapsed) - task.items - task.delay
    asked = int(state.questions[question]) if 0 <= question < task.ask else None
    answered = int(state.questions[question - 1]) if 1 <= question <= task.ask else None
    done = {int(card) for card in state.questions[: max(question, 0)]}
    centres = [
        (SIDE / 2 + across * (card % columns - (columns - 1) / 2), 88 + 1.2 * tall * (card // columns - (rows - 1) / 2))
        for card in range(task.items)
    ]
    looked_at = elapsed if elapsed < task.items else asked
    if looked_at is not None:
        canvas.glow(centres[looked_at], 0.6 * tall, fill=c.LIGHT, strength=0.75)
    for card, centre in enumerate(centres):
        kind = int(state.cards[card])
        shown = card == elapsed or card in done
        edge = c.EDGE
        if card == answered:
            edge = c.RIGHT if int(state.answer) == kind else c.WRONG
        if card == looked_at:
            edge = c.LIGHT_EDGE
        canvas.box(centre, (width, tall * 1.05), fill="#fffdf8" if shown else "#5f7fa8", edge=edge, line=3, round=8)
        if shown or secret:
            symbol(canvas, kind, centre, 0.3 * width, fill=None if shown else "#9fb4cf")
        elif card == asked:
            canvas.text(centre, "?", size=0.5 * tall, fill="#ffffff")
        else:
            canvas.box(centre, (0.72 * width, 0.8 * tall), fill=None, edge="#86a1c4", line=1.5, round=5)

    if elapsed < task.items:
        words = f"card {elapsed + 1} of {task.items}"
    elif question < 0:
        words = f"wait: {-question}"
    elif asked is not None:
        words = f"question {question + 1} of {task.ask}: which kind was this?"
    else:
        words = f"{int(state.right)} of {task.ask} right"
    canvas.text((SIDE / 2, 178), words, size=14)

    step = min(46.0, (SIDE - 20) / task.kinds)
    for kind in range(task.kinds):
        centre = (SIDE / 2 + step * (kind - (task.kinds - 1) / 2), 220)
        chosen = question >= 1 and int(state.answer) == kind
        canvas.disc(
            centre,
            0.45 * step,
            fill="#ffffff" if chosen else c.PAPER,
            edge=c.AGENT if chosen else c.EDGE,
            line=3 if chosen else 1.5,
        )
        symbol(canvas, kind, centre, 0.24 * step)
