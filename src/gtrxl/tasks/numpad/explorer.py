"""How a player with a perfect memory finds a hidden sequence: what it writes down, and which pad it wants next.

It knows the rules and the kinds of sequence that can be hidden, not which one is. Every path is as likely as every other, so
a pad's chance of being next is the share of those paths still possible that go on with it.

P pads, L numbers in the hidden sequence.
"""

import dataclasses
import functools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from gtrxl.tasks.numpad.pads import Pads, Sequence
from gtrxl.tasks.numpad.paths import neighbours


class SequenceNotes(eqx.Module):
    """All that was learnt about the sequence."""

    known: Int[Array, " P"]
    """The pads of the sequence in their order, as far as they are known; 0 beyond that."""

    count: Int[Array, ""]
    """How many are known."""

    wrong: Bool[Array, " P"]
    """Pads that were tried as the next one after those, and were not."""


@dataclasses.dataclass(frozen=True)
class Explorer:
    """Finds the sequence by trying the most promising pad after those it knows, and repeats it for as long as it may."""

    hidden: Sequence

    def begin(self) -> SequenceNotes:
        """Nothing is known."""
        pads = self.hidden.size**2
        return SequenceNotes(known=jnp.zeros(pads, jnp.int32), count=jnp.int32(0), wrong=jnp.zeros(pads, bool))

    def told(self, pads: Pads) -> SequenceNotes:
        """Everything is known."""
        order = jnp.where(pads.order < 0, self.hidden.size**2, pads.order.astype(jnp.int32))
        known = jnp.argsort(order)  # pads that are not in the sequence come last, where nobody looks
        return SequenceNotes(known=known, count=jnp.int32(self.hidden.length), wrong=jnp.zeros(self.hidden.size**2, bool))

    def learn(
        self,
        notes: SequenceNotes,
        *,
        lit: Int[Array, ""],
        pad: Int[Array, ""],
        pressed: Bool[Array, ""],
        reward: Float[Array, ""],
    ) -> SequenceNotes:
        """`pad` was pressed, if `pressed`, while `lit` numbers were lit, and that paid `reward`."""
        tried = pressed & (lit == notes.count) & (notes.count < self.hidden.length)
        right = tried & (reward > 0)
        places = jnp.arange(self.hidden.size**2)
        return SequenceNotes(
            known=jnp.where(right & (places == notes.count), pad, notes.known),
            count=notes.count + right,
            wrong=jnp.where(right, False, notes.wrong | (tried & (places == pad))),
        )

    def next_pad(
        self, notes: SequenceNotes, *, lit: Int[Array, ""], costs: Float[Array, "P P"], here: Int[Array, ""]
    ) -> Int[Array, ""]:
        """The pad to press next: the one known to follow, or else the one worth trying first.

        `costs` is the way from each pad to each pad. With nothing known a wrong pad costs only its way: the nearest is tried, and
        of those the likeliest. Later a failure costs the way back to the first pad and along all that is known: pads are tried
        by their chance for each step that they may cost, the order with the shortest search on average.
        """
        length, pads = self.hidden.length, self.hidden.size**2
        places = jnp.arange(pads)
        in_sequence = places < notes.count
        visited = jnp.sum(jnp.where(in_sequence, 1 << notes.known, 0))
        last = notes.known[jnp.maximum(notes.count - 1, 0)]
        possible = jnp.where(notes.count == 0, True, jnp.asarray(neighbours(self.hidden.size))[last])
        possible &= ((visited >> places) & 1 == 0) & ~notes.wrong
        ways = jnp.where(possible, jnp.asarray(continuations(self.hidden.size, length))[visited | (1 << places), places], 0.0)
        chance = ways / jnp.sum(ways)
        again = jnp.sum(jnp.where(in_sequence & (places > 0), costs[notes.known[places - 1], notes.known], 0.0))
        failure = costs[last] + costs[:, notes.known[0]] + again
        nearest = chance - pads * costs[here]  # the chance decides between pads that are equally near
        worth = jnp.where(notes.count == 0, nearest, chance / failure)
        trial = jnp.argmax(jnp.where(ways > 0, worth, -jnp.inf))
        return jnp.where(lit < notes.count, notes.known[jnp.minimum(lit, length - 1)], trial).astype(jnp.int32)


@functools.cache
def continuations(size: int, length: int) -> Float[np.ndarray, "visited P"]:
    """For each set of visited pads (a bit each) and each pad to end on: how many ways there are to go on to `length` pads."""
    pads = size * size
    near = neighbours(size)
    visited = np.arange(1 << pads)
    ways = np.zeros((1 << pads, pads), np.float32)  # at most 1.5 million: exact
    counts = np.bitwise_count(visited)
    ways[counts == length] = 1
    for count in range(length - 1, 0, -1):
        sets = visited[counts == count]
        for pad in range(pads):
            onward = np.where((sets >> pad) & 1 == 0, ways[sets | (1 << pad), pad], 0)
            ways[sets] += onward[:, None] * near[pad]
    ways.setflags(write=False)
    return ways
