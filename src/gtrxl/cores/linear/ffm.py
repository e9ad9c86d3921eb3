"""Fast and forgetful memory: FFM (Morad et al., "Reinforcement Learning with Fast and Forgetful Memory", 2023).

D width, M traces, C contexts for each, F = 2 M C numbers that remember.

    S = exp(-|a|) exp(i w) * S + (W_1 x * sigmoid(W_2 x)) 1^T         S: [M, C] complex; a for each trace, w for each context
    z = W_3 [Re S, Im S],   g = sigmoid(W_4 x),   y = norm(z) * g + W_5 x * (1 - g)

A trace fades at its own rate, seen at several frequencies, by which it can tell when something was. There is no norm before
it and no sum around it: W_5 x is its own way past the memory. The paper sums in closed form, with powers of the decay that
leave the range of a float after some hundreds of steps; here it is the recurrence, which is the same sum. Rates lie evenly
between 1e-6 and 0.5 at first (some versions: 0.1) and periods between 1 and 1024 steps; the norm has no weights, as the
paper's.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.errors import at_least
from gtrxl.cores.layers import Linear, standardise
from gtrxl.cores.linear import scan
from gtrxl.cores.linear.scan import Pair
from gtrxl.cores.linear.stack import Decaying, Stack, cuts

LONGEST_PERIOD = 1024.0


class Driven(eqx.Module):
    """What is written into each trace; the gate and the way past."""

    written: Float[Array, "*n M"]
    gate: Float[Array, "*n D"]
    past: Float[Array, "*n D"]


class FFMLayer(Decaying):
    """One layer."""

    inputs: Linear
    a: Float[Array, " M"]
    w: Float[Array, " C"]
    mix: Linear

    def __init__(self, d_model: int, traces: int, contexts: int, *, key: PRNGKeyArray):
        at_least("state_size", traces, least=1, hint="it is the number of traces; 32 is the default")
        at_least("contexts", contexts, least=1, hint="it is at how many frequencies each trace is seen; 4 is the default")
        in_key, mix_key = jax.random.split(key)
        self.inputs = Linear(d_model, 2 * traces + 2 * d_model, key=in_key)
        self.a = jnp.linspace(1e-6, 0.5, traces)
        self.w = 2 * math.pi / jnp.linspace(1.0, LONGEST_PERIOD, contexts)
        self.mix = Linear(2 * traces * contexts, d_model, key=mix_key)

    times = staticmethod(scan.turned)

    def initial_state(self) -> Pair:
        """Zeros."""
        zeros = jnp.zeros((self.a.shape[0], self.w.shape[0]), jnp.float32)
        return Pair(re=zeros, im=zeros)

    def ready(self) -> Pair:
        """exp(-|a| + i w), for every trace and context."""
        size = jnp.exp(-jnp.abs(self.a))[:, None]
        return Pair(re=size * jnp.cos(self.w)[None], im=size * jnp.sin(self.w)[None])

    def drive(self, x: Float[Array, "*n D"]) -> Driven:
        """All four maps of the input in one product."""
        traces = self.a.shape[0]
        new, opening, gate, past = cuts(self.inputs(x), [traces, traces, x.shape[-1], x.shape[-1]])
        return Driven(written=(new * jax.nn.sigmoid(opening)).astype(jnp.float32), gate=jax.nn.sigmoid(gate), past=past)

    def kept(self, driven: Driven, ready: Pair) -> Pair:
        """The same at every step."""
        del driven
        return ready

    def written(self, driven: Driven) -> Pair:
        """The same number into each context of a trace."""
        new = jnp.broadcast_to(driven.written[:, None], (self.a.shape[0], self.w.shape[0]))
        return Pair(re=new, im=jnp.zeros_like(new))

    def read(self, state: Pair, driven: Driven) -> Float[Array, " F"]:
        """Real and imaginary parts side by side."""
        del driven
        return jnp.concatenate([state.re.reshape(-1), state.im.reshape(-1)])

    def leave(self, x: Float[Array, "*n D"], read: Float[Array, "*n F"], driven: Driven) -> Float[Array, "*n D"]:
        """What was remembered where the gate is open, the way past where it is not."""
        found = standardise(self.mix(read.astype(x.dtype)))
        return found * driven.gate + driven.past * (1 - driven.gate)


class FFM(Stack):
    """Layers of fast and forgetful memory. `state_size` is the number of traces, each seen at `contexts` frequencies."""

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 256,
        layers: int = 1,
        state_size: int = 32,
        contexts: int = 4,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        self._build(input_size, d_model, layers, dtype, lambda key: FFMLayer(d_model, state_size, contexts, key=key), key)
