"""MERLIN: what predicts decides what is remembered, what acts reads it. D_in input, Z latent, R rows, K keys, W LSTM width.

One step, with h and m the output of the predictor's LSTM and what it read, of the step before:

    prior       (mu_p, log s_p) = f([h, m])
    posterior   (mu_q, log s_q) = (mu_p, log s_p) + g([x, h, m, mu_p, log s_p]);      z = mu_q + s_q * noise
    policy      h' = LSTM'([z, m']);  m' = what one key of h' finds;                  y = [z, h', m']
    predictor   h  = LSTM([z, m]);    m  = what three keys of h find, side by side
    write       z into a row, after both have read (`rows`)

Its loss: KL(posterior || prior), and how well z tells what was seen, the action and the reward before it, and the return
(`decoding`). y has no gradient by z or by the rows: what the policy and the value learn stays on their side. So what comes
before the core (the torso) and what is remembered are learned from predictions alone.

What is known (from DeepMind's later code of a deterministic version and from two re-implementations): all of the above but for
what follows, prior and posterior with two hidden layers of tanh, strengths through softplus, and the sizes of the paper's preset:
z 200, 1,350 rows, LSTMs of 2 x 256 with the outputs of both layers side by side, 400 hidden. What is chosen here:

- x is the agent's torso's output. MERLIN's also has the previous action and reward in it; here where the task shows them.
- The predictor's LSTM does not see the action that was just chosen: a core is not told. It comes with the next x, if at all.
- log s is kept within +-5 by tanh. gamma of the retroactive half is 0.96, MERLIN's discount.
- Rows that hold nothing are zeros, and read like any other. Which row counts as least read, and what becomes of it: `rows`.
- The value that the learner uses is the agent's, over y; MERLIN's own, over z, is one of its predictions.
- Noise. A core has no key, acting and learning must agree, and nothing may pass a reset. So the noise of a step follows from how
  far it is in its episode and from the bits of two of the core's weights: the same in `step` and in `unroll`, fresh after every
  update. Streams that are as far in their episodes share it. `noise=0` takes the mean.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt32

from gtrxl.cores.contract import DTYPES, Happened, Observed, State, check_dtype
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.layers import Linear, with_variance
from gtrxl.cores.merlin import rows
from gtrxl.cores.merlin.decoding import Decoders
from gtrxl.cores.merlin.parts import MLP, SMALL, Keys, Layers, MemoryCore
from gtrxl.cores.merlin.rows import Rows
from gtrxl.cores.recurrent import LSTMState

MOST_LOG = 5.0
"""log s is between minus and plus this."""
GAMMA = 0.96


class MerlinState(eqx.Module):
    """Memory, the two LSTMs, and what each read last. Zeros are a fresh state."""

    rows: Rows
    predictor: LSTMState
    predictor_read: Float[Array, "*B KW"]
    policy: LSTMState
    policy_read: Float[Array, "*B W"]
    age: Int[Array, "*B"]
    """Steps of this episode so far."""


class Said(eqx.Module):
    """Of every step: what was expected before it was seen (prior), and after (posterior)."""

    prior_mean: Float[Array, "*n Z"]
    prior_log: Float[Array, "*n Z"]
    mean: Float[Array, "*n Z"]
    log: Float[Array, "*n Z"]
    z: Float[Array, "*n Z"]

    def kl(self) -> Float[Array, "*n"]:
        """KL(posterior || prior), summed over the latents."""
        ratio = jnp.exp(2 * (self.log - self.prior_log))
        apart = jnp.square((self.mean - self.prior_mean) * jnp.exp(-self.prior_log))
        return 0.5 * jnp.sum(ratio + apart - 1, axis=-1) + jnp.sum(self.prior_log - self.log, axis=-1)


class Merlin(MemoryCore):
    """A predictor that writes the memory, a policy that reads it (Wayne et al. 2018)."""

    embed: Linear
    """x's share of the posterior's first layer."""
    prior: MLP
    posterior: MLP
    predictor: Layers
    predictor_keys: Keys
    policy: Layers
    policy_keys: Keys
    decoders: Decoders | None
    """None until the core is told what there is to predict: then its loss is the KL alone."""
    input_size: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)
    latent: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    hidden: int = eqx.field(static=True)
    noise: float = eqx.field(static=True)
    gamma: float = eqx.field(static=True)
    spread: float = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    def __init__(
        self,
        input_size: int,
        *,
        d_model: int = 64,
        layers: int = 2,
        mlp: int = 64,
        memory: int = 64,
        latent: int = 32,
        reads: int = 3,
        noise: float = 1.0,
        gamma: float = GAMMA,
        spread: float = 0.1,
        dtype: str = "float32",
        key: PRNGKeyArray,
    ):
        """`memory` is R, `mlp` the hidden width of prior, posterior and decoders, `spread` the standard deviation that an
        observation's numbers are told with: the smaller, the more of them z keeps."""
        check_sizes(input_size=input_size, d_model=d_model, layers=layers, memory=memory, latent=latent, reads=reads, gamma=gamma)
        at_least("mlp", mlp, least=1, hint="it is the hidden width of prior and posterior; MERLIN's have 400")
        if not spread > 0 or not noise >= 0:
            raise CoreError(f"spread must be above 0 and noise at least 0, got {spread} and {noise}; the defaults are 0.1 and 1")
        wide, read = 2 * latent, 2 * latent * reads
        keys = jax.random.split(key, 7)
        self.embed = with_variance(Linear(input_size, mlp, key=keys[0]), 1.0)
        self.predictor = Layers(latent + read, d_model, layers, key=keys[1])
        self.policy = Layers(latent + wide, d_model, layers, key=keys[2])
        h = self.predictor.output_size
        self.prior = MLP(h + read, wide, hidden=(mlp, mlp), key=keys[3], last=SMALL)
        self.posterior = MLP(h + read + wide, wide, hidden=(mlp, mlp), key=keys[4], last=SMALL)
        self.predictor_keys = Keys(h, wide, reads, key=keys[5])
        self.policy_keys = Keys(self.policy.output_size, wide, 1, key=keys[6])
        self.decoders = None
        self.input_size, self.output_size = input_size, latent + self.policy.output_size + wide
        self.latent, self.size, self.hidden = latent, memory, mlp
        self.noise, self.gamma, self.spread = noise, gamma, spread
        self.dtype = check_dtype(dtype)

    def initial_state(self) -> MerlinState:
        """Zeros."""
        dtype = DTYPES[self.dtype]
        return MerlinState(
            rows=rows.empty(self.size, self.latent, dtype),
            predictor=self.predictor.zeros(dtype),
            predictor_read=jnp.zeros(self.predictor_keys.number * 2 * self.latent, dtype),
            policy=self.policy.zeros(dtype),
            policy_read=jnp.zeros(2 * self.latent, dtype),
            age=jnp.int32(0),
        )

    def observing(self, observed: Observed, *, key: PRNGKeyArray) -> "Merlin":
        """With decoders for these."""
        decoders = Decoders(self.latent, observed, hidden=self.hidden, spread=self.spread, key=key)
        return eqx.tree_at(lambda of: of.decoders, self, decoders, is_leaf=lambda leaf: leaf is None)

    def predict(
        self, xs: Float[Array, "B T D_in"], states: State, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D_out"], State, Said]:
        """The steps, with priors and posteriors."""
        return jax.vmap(self._run)(xs, jax.lax.stop_gradient(states), resets)

    def prediction_losses(self, said: Said, happened: Happened) -> dict[str, Float[Array, "B T"]]:
        """The KL, and what the decoders lose."""
        parts = {"kl": said.kl()}
        return parts if self.decoders is None else parts | self.decoders.losses(said.z, happened)

    def _before(self, xs: Float[Array, "T D_in"], state: MerlinState, resets: Bool[Array, " T"]):
        steps = jnp.arange(len(xs), dtype=jnp.int32)
        began = jax.lax.cummax(jnp.where(resets, steps, -1))
        ages = jnp.where(began < 0, state.age + steps, steps - began)
        return self.embed(xs), self._noise(ages).astype(xs.dtype), ages

    def _advance(self, state: MerlinState, known) -> tuple[MerlinState, tuple[Float[Array, " D_out"], Said]]:
        seen, noise, age = known
        before = jnp.concatenate([state.predictor.hidden.reshape(-1), state.predictor_read])
        expected = self.prior(before)
        prior_mean, prior_log = _gaussian(expected)
        found = expected + self._posterior(seen, jnp.concatenate([before, prior_mean, prior_log]))
        mean, log = _gaussian(found)
        z = mean + jnp.exp(log) * noise

        outside, content = jax.lax.stop_gradient((z, state.rows.content))
        acts, policy = self.policy(jnp.concatenate([outside, state.policy_read]), state.policy)
        by_policy = rows.weights(content, *self.policy_keys(acts))
        policy_read = rows.read(content, by_policy)

        h, predictor = self.predictor(jnp.concatenate([z, state.predictor_read]), state.predictor)
        by_predictor = rows.weights(state.rows.content, *self.predictor_keys(h))
        predictor_read = rows.read(state.rows.content, by_predictor)

        kept = rows.written(rows.used(rows.used(state.rows, by_policy), by_predictor), z, gamma=self.gamma)
        after = MerlinState(
            rows=kept,
            predictor=predictor,
            predictor_read=predictor_read,
            policy=policy,
            policy_read=policy_read,
            age=age + 1,
        )
        said = Said(prior_mean=prior_mean, prior_log=prior_log, mean=mean, log=log, z=z)
        return after, (jnp.concatenate([outside, acts, policy_read]), said)

    def _posterior(self, seen: Float[Array, " M"], others: Float[Array, " I"]) -> Float[Array, " ZZ"]:
        first, *above = self.posterior.hidden
        x = jnp.tanh(seen + first(others))
        for layer in above:
            x = jnp.tanh(layer(x))
        return self.posterior.output(x)

    def _noise(self, ages: Int[Array, " T"]) -> Float[Array, "T Z"]:
        """Of every step, by its place in the episode and by the weights; no gradient."""
        if not self.noise:
            return jnp.zeros((len(ages), self.latent))
        key = jax.random.fold_in(jax.random.key(0, impl="threefry2x32"), self._fingerprint())
        draw = lambda age: jax.random.normal(jax.random.fold_in(key, age), (self.latent,))  # noqa: E731
        return self.noise * jax.vmap(draw)(ages)

    def _fingerprint(self) -> UInt32[Array, ""]:
        """Other after every update: of the bits of the last biases, which the loss always moves."""
        bias = jax.lax.stop_gradient(jnp.concatenate([self.prior.output.bias, self.posterior.output.bias]))
        bits = jax.lax.bitcast_convert_type(bias, jnp.uint32)
        odd = 2 * jnp.arange(bits.size, dtype=jnp.uint32) + 1
        return jnp.sum(bits * (odd * jnp.uint32(0x9E3779B1)), dtype=jnp.uint32)


def _gaussian(made: Float[Array, " ZZ"]) -> tuple[Float[Array, " Z"], Float[Array, " Z"]]:
    """Mean, and log of the standard deviation within bounds."""
    mean, log = jnp.split(made, 2)
    return mean, MOST_LOG * jnp.tanh(log / MOST_LOG)


def check_sizes(*, input_size: int, d_model: int, layers: int, memory: int, latent: int, reads: int, gamma: float) -> None:
    """Raise unless a memory of these sizes can be made."""
    at_least("input_size", input_size, least=1, hint="it is the width of one step's input")
    at_least("d_model", d_model, least=1, hint="it is the width of an LSTM layer; MERLIN's have 256")
    at_least("layers", layers, least=1, hint="they are those of each LSTM; MERLIN's have 2")
    at_least("memory", memory, least=1, hint="it is the number of rows; MERLIN has 1,350")
    at_least("latent", latent, least=1, hint="it is how many numbers a step is remembered as; MERLIN has 200")
    at_least("reads", reads, least=1, hint="it is how many keys the memory is read with; MERLIN's predictor has 3")
    if not 0 <= gamma < 1:
        raise CoreError(f"gamma must be at least 0 and less than 1, got {gamma}; 0.96 lets a row see about 25 steps ahead")
