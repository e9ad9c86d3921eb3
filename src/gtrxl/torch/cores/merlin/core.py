"""MERLIN. The equations are in `gtrxl.cores.merlin.core`. B streams, T steps, Z latents, M hidden width."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from gtrxl.cores.contract import Observed
from gtrxl.cores.errors import CoreError, at_least
from gtrxl.cores.merlin.core import GAMMA, MOST_LOG, check_sizes
from gtrxl.cores.merlin.parts import SMALL
from gtrxl.torch.cores.contract import check_dtype
from gtrxl.torch.cores.layers import Linear
from gtrxl.torch.cores.linear.stack import nothing
from gtrxl.torch.cores.merlin import noise as drawing
from gtrxl.torch.cores.merlin import rows
from gtrxl.torch.cores.merlin.decoding import Decoders
from gtrxl.torch.cores.merlin.parts import MLP, Keys, Layers, MemoryCore
from gtrxl.torch.cores.merlin.rows import Rows
from gtrxl.torch.cores.recurrent import LSTMState


class MerlinState(NamedTuple):
    """Memory, the two LSTMs, what each read last, and the steps of this episode so far. Zeros are a fresh state."""

    rows: Rows
    predictor: LSTMState
    predictor_read: Float[Tensor, "B KW"]
    policy: LSTMState
    policy_read: Float[Tensor, "B W"]
    age: Int[Tensor, " B"]


class Merlin(MemoryCore):
    """A predictor that writes the memory, a policy that reads it; the arguments are those of `gtrxl.cores.Merlin`.

    Steps and unrolls alone: priors and posteriors are learned from a loss that is computed in JAX.
    """

    decoders: Decoders | None

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
        device: Any = None,
    ):
        super().__init__()
        check_sizes(input_size=input_size, d_model=d_model, layers=layers, memory=memory, latent=latent, reads=reads, gamma=gamma)
        at_least("mlp", mlp, least=1, hint="it is the hidden width of prior and posterior; MERLIN's have 400")
        if not spread > 0 or not noise >= 0:
            raise CoreError(f"spread must be above 0 and noise at least 0, got {spread} and {noise}; the defaults are 0.1 and 1")
        wide, read = 2 * latent, 2 * latent * reads
        self.embed = Linear(input_size, mlp, variance=1.0, device=device)
        self.predictor = Layers(latent + read, d_model, layers, device=device)
        self.policy = Layers(latent + wide, d_model, layers, device=device)
        h = self.predictor.output_size
        self.prior = MLP(h + read, wide, hidden=(mlp, mlp), last=SMALL, device=device)
        self.posterior = MLP(h + read + wide, wide, hidden=(mlp, mlp), last=SMALL, device=device)
        self.predictor_keys = Keys(h, wide, reads, device=device)
        self.policy_keys = Keys(self.policy.output_size, wide, 1, device=device)
        self.decoders = None
        self.input_size, self.output_size = input_size, latent + self.policy.output_size + wide
        self.latent, self.size, self.hidden = latent, memory, mlp
        self.noise, self.gamma, self.spread = noise, gamma, spread
        self.dtype = check_dtype(dtype)
        self._word: int | None = None

    @classmethod
    def sizes(cls, core: Any) -> dict[str, Any]:
        """The arguments of a core like this one, in PyTorch or in JAX."""
        own = {name: getattr(core, name) for name in ("latent", "noise", "gamma", "spread", "dtype")}
        shape = {"d_model": core.policy.width, "layers": len(core.policy.cells), "mlp": core.hidden}
        return own | shape | {"memory": core.size, "reads": core.predictor_keys.number}

    def observing(self, observed: Observed) -> "Merlin":
        """With decoders for these, as parameters."""
        self.decoders = Decoders(self.latent, observed, hidden=self.hidden, device=self.embed.weight.device)
        return self

    def settle(self) -> None:
        """Weights will not change any more: the noise no longer follows from their bits, but from what these are now."""
        self._word = int(self._fingerprint())

    def _zeros(self) -> MerlinState:
        wide = 2 * self.latent
        return MerlinState(
            rows=self._empty(),
            predictor=self.predictor.zeros(),
            predictor_read=nothing(self.predictor_keys.number * wide),
            policy=self.policy.zeros(),
            policy_read=nothing(wide),
            age=nothing().long(),
        )

    def _before(
        self, xs: Float[Tensor, "B T D_in"], state: MerlinState, resets: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T M"], Float[Tensor, "B T Z"]]:
        steps = torch.arange(resets.shape[1], device=xs.device)
        began = torch.where(resets, steps, -1).cummax(dim=1).values
        ages = torch.where(began < 0, state.age[:, None] + steps, steps - began)
        return self.embed(xs.flatten(0, 1)).view(*resets.shape, -1), self._noise(ages).to(xs.dtype)

    def _advance(self, state: MerlinState, *known: Tensor) -> tuple[MerlinState, Float[Tensor, "B D_out"]]:
        seen, noise = known
        before = torch.cat([state.predictor.hidden.flatten(1), state.predictor_read], dim=1)
        expected = self.prior(before)
        found = expected + self._posterior(seen, torch.cat([before, *_gaussian(expected)], dim=1))
        mean, log = _gaussian(found)
        z = mean + log.exp() * noise

        outside, content = z.detach(), state.rows.content.detach()
        acts, policy = self.policy(torch.cat([outside, state.policy_read], dim=1), state.policy)
        by_policy = rows.weights(content, *self.policy_keys(acts))
        policy_read = rows.read(content, by_policy)

        h, predictor = self.predictor(torch.cat([z, state.predictor_read], dim=1), state.predictor)
        by_predictor = rows.weights(state.rows.content, *self.predictor_keys(h))
        predictor_read = rows.read(state.rows.content, by_predictor)

        kept = rows.written(rows.used(rows.used(state.rows, by_policy), by_predictor), z, gamma=self.gamma)
        after = MerlinState(
            rows=kept,
            predictor=predictor,
            predictor_read=predictor_read,
            policy=policy,
            policy_read=policy_read,
            age=state.age + 1,
        )
        return after, torch.cat([outside, acts, policy_read], dim=1)

    def _posterior(self, seen: Float[Tensor, "B M"], others: Float[Tensor, "B I"]) -> Float[Tensor, "B ZZ"]:
        first, *above = self.posterior.hidden
        x = torch.tanh(seen + first(others))
        for layer in above:
            x = torch.tanh(layer(x))
        return self.posterior.output(x)

    def _noise(self, ages: Int[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """Of every step, by its place in the episode and by the weights; no gradient."""
        if not self.noise:
            return torch.zeros(*ages.shape, self.latent, device=ages.device)
        word = self._fingerprint() if self._word is None else self._word
        return self.noise * drawing.normal(drawing.fold_in(drawing.fold_in((0, 0), word), ages), self.latent)

    def _fingerprint(self) -> Int[Tensor, ""]:
        """Other after every update: of the bits of the last biases, which the loss always moves."""
        return drawing.fingerprint(torch.cat([self.prior.output.bias, self.posterior.output.bias]))


def _gaussian(made: Float[Tensor, "B ZZ"]) -> tuple[Float[Tensor, "B Z"], Float[Tensor, "B Z"]]:
    """Mean, and log of the standard deviation within bounds."""
    mean, log = made.chunk(2, dim=1)
    return mean, MOST_LOG * torch.tanh(log / MOST_LOG)
