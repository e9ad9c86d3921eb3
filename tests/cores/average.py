"""A core from outside the project: an exponential moving average, with the flaws that a first attempt might have."""

import equinox as eqx
import jax
import jax.numpy as jnp


class AverageState(eqx.Module):
    mean: jax.Array


class Average(eqx.Module):
    """y = tanh of the running mean of x; nothing of `gtrxl` in it."""

    decay: jax.Array
    input_size: int = eqx.field(static=True)
    flaw: str = eqx.field(static=True, default="")

    @property
    def output_size(self):
        return self.input_size

    def initial_state(self):
        return AverageState(jnp.zeros(self.input_size))

    def prepare(self, state):
        return AverageState(state.mean + 0.1) if self.flaw == "prepare changes the state" else state

    def plain(self, state):
        return state

    def step(self, x, state, *, reset):
        mean = jax.lax.stop_gradient(state.mean)
        if self.flaw == "reset adds nothing but does not clear":
            mean = jnp.where(reset, 1e-3 * mean, mean)
        else:
            mean = jnp.where(reset, 0.0, mean)
        return self._next(x, mean)

    def _next(self, x, mean):
        if self.flaw == "it never writes":
            return jnp.tanh(x), AverageState(mean)
        mean = self.decay * mean + (1 - self.decay) * x
        if self.flaw == "the state grows":
            return jnp.tanh(mean[: self.input_size]), AverageState(jnp.concatenate([mean, mean]))
        if self.flaw == "it divides by zero":
            return mean / jnp.sqrt(jnp.sum(mean**2)), AverageState(mean)
        return jnp.tanh(mean), AverageState(mean)

    def unroll(self, xs, state, *, resets):
        def step(mean, of_step):
            x, reset = of_step
            y, state = self._next(x, jnp.where(reset, 0.0, mean))
            return state.mean, y

        if self.flaw == "it raises":
            raise RuntimeError("this core cannot unroll\nfor reasons of its own")
        if self.flaw == "reset adds nothing but does not clear":
            resets = resets & False
        mean, ys = jax.lax.scan(step, jax.lax.stop_gradient(state.mean), (xs, resets))
        if self.flaw == "it looks ahead":
            ys = ys + 0.1 * jnp.roll(ys, -1, axis=0)
        return ys, AverageState(mean)


class Plain:
    """The same without a pytree: an ordinary Python object with fixed weights."""

    input_size = output_size = 3

    def __init__(self):
        self._core = Average(jnp.asarray(0.8), 3)
        self.initial_state, self.step, self.unroll = self._core.initial_state, self._core.step, self._core.unroll
        self.prepare, self.plain = self._core.prepare, self._core.plain


class Bare(eqx.Module):
    """The least that is a core: three calls."""

    decay: jax.Array

    def initial_state(self):
        return AverageState(jnp.zeros(3))

    def step(self, x, state, *, reset):
        return Average(self.decay, 3).step(x, state, reset=reset)

    def unroll(self, xs, state, *, resets):
        return Average(self.decay, 3).unroll(xs, state, resets=resets)
