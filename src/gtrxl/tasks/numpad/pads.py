"""The rules of Numpad, which the sphere and the grid share: what happens when a pad is pressed.

P pads, L numbers in the hidden sequence.
"""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Int8, PRNGKeyArray

from gtrxl.tasks.drawing import canvas as c
from gtrxl.tasks.drawing.canvas import Canvas
from gtrxl.tasks.errors import in_range
from gtrxl.tasks.numpad.paths import orders


class Pads(eqx.Module):
    """The hidden sequence and how far the agent is in it."""

    order: Int8[Array, " P"]
    """For each pad its place in the sequence; -1 when it is not in it."""

    lit: Int[Array, ""]
    """How many numbers are lit: the first `lit` of the sequence."""

    paid: Int[Array, ""]
    """How many numbers have paid in this pass."""

    def lights(self) -> Float[Array, " P"]:
        """1 for each pad that is lit."""
        return ((self.order >= 0) & (self.order < self.lit)).astype(jnp.float32)


@dataclasses.dataclass(frozen=True)
class Sequence:
    """Which hidden sequences there are: paths of `length` king's moves over `size` x `size` pads that visit no pad twice."""

    size: int
    length: int

    def __post_init__(self):
        in_range("size", self.size, least=2, most=4, hint="the paper has 2, 3 and 4 pads on a side")
        in_range(
            "sequence",
            self.length,
            least=1,
            most=self.size**2,
            hint="each pad is in it once at most; leave it out for all of them",
        )

    def draw(self, key: PRNGKeyArray) -> Pads:
        """One of them, each as likely as the others, with nothing lit."""
        table = jnp.asarray(orders(self.size, self.length))
        which = jax.random.randint(key, (), 0, len(table))
        return Pads(order=table[which], lit=jnp.int32(0), paid=jnp.int32(0))

    def press(self, pads: Pads, pad: Int[Array, ""], pressed: Bool[Array, ""]) -> tuple[Pads, Float[Array, ""]]:
        """Pad number `pad` is pressed, if `pressed`: the next number lights and pays once in a pass, another clears all.

        When the last number lights, the pass is complete: all lights go out and every number pays again.
        """
        right = pressed & (pads.order[pad] == pads.lit)
        reward = (right & (pads.lit >= pads.paid)).astype(jnp.float32)
        lit = jnp.where(right, pads.lit + 1, jnp.where(pressed, 0, pads.lit))
        paid = jnp.maximum(pads.paid, lit)
        complete = lit == self.length
        zero = jnp.int32(0)
        return Pads(order=pads.order, lit=jnp.where(complete, zero, lit), paid=jnp.where(complete, zero, paid)), reward


def draw_number(
    canvas: Canvas, pads: Pads, pad: int, centre: c.Point, *, size: c.Number, secret: bool, anchor: str = "mm"
) -> None:
    """The number of a pad, once it is lit or if secrets are shown."""
    number = int(pads.order[pad])
    if 0 <= number < int(pads.lit):
        canvas.text(centre, str(number + 1), size=size, fill="#7a4b00", anchor=anchor)
    elif secret and number >= 0:
        canvas.text(centre, str(number + 1), size=size, fill=c.FAINT, anchor=anchor)
