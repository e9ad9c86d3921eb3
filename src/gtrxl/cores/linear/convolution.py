"""A short convolution over the last steps of the episode, before a recurrence: Mamba-2's and DeltaNet's. T steps, B streams,
C channels, W steps that it sees (the present one is the last), V = W - 1 before it.

silu(sum_j kernel_j * x_{t - j} + bias), each channel by itself. What it remembers are the W - 1 inputs before, zeros at the
start of an episode, so that a reset clears it like any other state.
"""

import abc
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.linear.scan import State, fresh
from gtrxl.cores.linear.stack import Layer


class Convolution(eqx.Module):
    """Computed in float32, oldest step first."""

    kernel: Float[Array, "W C"]
    bias: Float[Array, " C"]

    def __init__(self, channels: int, width: int, *, key: PRNGKeyArray):
        at_least("convolution", width, least=1, hint="it is how many steps the short convolution sees; 4 is usual")
        limit = 1 / math.sqrt(width)
        self.kernel = jax.random.uniform(key, (width, channels), jnp.float32, -limit, limit)
        self.bias = jnp.zeros((channels,), jnp.float32)

    def initial_state(self) -> Float[Array, "V C"]:
        """Zeros."""
        return jnp.zeros((self.kernel.shape[0] - 1, self.kernel.shape[1]), jnp.float32)

    def step(self, x: Float[Array, " C"], before: Float[Array, "V C"]) -> tuple[Float[Array, " C"], Float[Array, "V C"]]:
        """One step of one stream."""
        seen = jnp.concatenate([before, x.astype(jnp.float32)[None]])
        return jax.nn.silu(jnp.sum(self.kernel * seen, axis=0) + self.bias), seen[1:]

    def unroll(
        self, xs: Float[Array, "T B C"], before: Float[Array, "B V C"], resets: Bool[Array, "T B"]
    ) -> tuple[Float[Array, "T B C"], Float[Array, "B V C"]]:
        """T steps of B streams: W shifted copies, each without what lies before the episode's start."""
        width, steps = self.kernel.shape[0], xs.shape[0]
        seen = jnp.concatenate([jnp.swapaxes(before, 0, 1), xs.astype(jnp.float32)])
        at = jnp.arange(steps)[:, None]
        began = jax.lax.cummax(jnp.where(resets, at, 1 - width))
        ys = jnp.zeros_like(seen[width - 1 :]) + self.bias[None, None]
        for back in range(width):
            shifted = seen[width - 1 - back : width - 1 - back + steps]
            own = fresh(shifted, at - back < began)
            ys = ys + self.kernel[width - 1 - back][None, None] * own
        last = [fresh(seen[steps + place], steps + place - (width - 1) < began[-1]) for place in range(width - 1)]
        after = jnp.stack(last, axis=1) if last else before
        return jax.nn.silu(ys), after


class ConvolvedState(eqx.Module):
    """The inputs before, and what the recurrence remembers."""

    window: Float[Array, "*B V C"]
    inner: Any


class Convolved(Layer):
    """A layer with a short convolution before its recurrence: `drive` gives what goes into it and what passes it by, `mixed`
    makes of both what drives the recurrence."""

    convolution: eqx.AbstractVar[Convolution]

    @abc.abstractmethod
    def inner_state(self) -> State:
        """The recurrence's own zeros."""

    @abc.abstractmethod
    def mixed(self, convolved: Float[Array, "*n C"], passing: Any) -> Any:
        """What drives the recurrence."""

    def initial_state(self) -> ConvolvedState:
        """Zeros."""
        return ConvolvedState(window=self.convolution.initial_state(), inner=self.inner_state())

    def step(self, x: Float[Array, " D"], state: ConvolvedState) -> tuple[Float[Array, " D"], ConvolvedState]:
        """One step of one stream, from a state that is already fresh where it must be."""
        lead, passing = self.drive(x)
        convolved, window = self.convolution.step(lead, state.window)
        driven = self.mixed(convolved, passing)
        inner = self.advance(state.inner, driven, self.ready())
        return self.leave(x, self.read(inner, driven), driven), ConvolvedState(window=window, inner=inner)

    def unroll(
        self, xs: Float[Array, "T B D"], state: ConvolvedState, resets: Bool[Array, "T B"]
    ) -> tuple[Float[Array, "T B D"], ConvolvedState]:
        """T steps of B streams."""
        lead, passing = self.drive(xs)
        convolved, window = self.convolution.unroll(lead, state.window, resets)
        driven = self.mixed(convolved, passing)
        reads, inner = self.run(driven, state.inner, resets)
        return self.leave(xs, reads, driven), ConvolvedState(window=window, inner=inner)
