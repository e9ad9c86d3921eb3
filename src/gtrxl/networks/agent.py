"""The agent that is trained: observation -> torso -> core -> policy and values.

B streams, T steps, D width, N values (one for each task), h x w cells of a picture, A actions. Observations are arrays, or dicts
of them, with B or [B, T] in front.
"""

from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gtrxl.algorithms.pixel_control import CELL
from gtrxl.cores import State, Streams
from gtrxl.cores.contract import offered
from gtrxl.cores.layers import standardise
from gtrxl.cores.streams import output_size
from gtrxl.networks.encoder import Encoder, Torso
from gtrxl.networks.errors import AgentError
from gtrxl.networks.happened import happened_of
from gtrxl.networks.heads import MLP, PixelControl
from gtrxl.networks.normaliser import Normaliser
from gtrxl.networks.policies import Head, Policy
from gtrxl.networks.scaling import RELU, scaled


class Agent(eqx.Module):
    """All that is learned: what sees, what remembers, what acts and what judges. Calls take B streams at once.

    Layers begin with weights that keep the size of what passes through them; the last ones begin small, so that the first
    policy is nearly uniform and the first values nearly zero.
    """

    torso: Torso | Encoder | Normaliser
    core: Any
    """Whatever keeps the core contract."""
    policy: MLP
    value: MLP
    pixel_control: PixelControl | None
    """The head that pixel control is learned with; None without it. Acting never asks it."""

    head: Head = eqx.field(static=True)
    output_norm: bool = eqx.field(static=True)
    """Whether the heads see the core's output at unit size: zero mean and unit variance along its width, nothing learned."""
    picture: str | None = eqx.field(static=True)
    """The part of an observation that pixel control is about."""

    def __init__(
        self,
        *,
        torso: Torso | Encoder | Normaliser,
        core: Any,
        head: Head,
        hidden: int = 64,
        values: int = 1,
        output_norm: bool = False,
        pixel_control: bool = False,
        key: PRNGKeyArray,
    ):
        policy_key, value_key = jax.random.split(key)
        width = output_size(core, torso.output_size)
        self.torso = torso
        self.core = core
        self.head = head
        self.output_norm = output_norm
        self.policy = _answering(MLP(width, head.width, hidden=hidden, key=policy_key))
        self.value = _answering(MLP(width, values, hidden=hidden, key=value_key))
        self.pixel_control, self.picture = None, None
        if pixel_control:
            self.picture, cells, actions = _controlled(torso, head)
            self.pixel_control = PixelControl(width, actions, cells=cells, key=jax.random.fold_in(key, 2))

    @property
    def values(self) -> int:
        """N: how many tasks it can tell the value of."""
        return self.value.output.bias.shape[0]

    def initial_state(self, streams: int) -> State:
        """The memory of streams that have seen nothing."""
        return Streams(self.core, streams).initial_state()

    def prepare(self, state: State) -> State:
        """A memory made ready for many steps under these weights."""
        return self._streams(state).prepare(state)

    def plain(self, state: State, *, streams: int) -> State:
        """A memory that is right under any weights."""
        return Streams(self.core, streams).plain(state)

    def step(self, observation: PyTree, state: State, *, reset: Bool[Array, " B"]) -> tuple[Policy, Float[Array, "B N"], State]:
        """Acting: one step of every stream."""
        y, state = Streams(self.core, len(reset)).step(self.torso(observation), state, reset=reset)
        policy, value = self.answer(self._sized(y))
        return policy, value, state

    def unroll(
        self, observations: PyTree, state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Policy, Float[Array, "B T N"], State]:
        """Learning: T steps of every stream, from the memory as it was before them."""
        ys, state = self.recall(observations, state, resets=resets)
        policy, value = self.answer(ys)
        return policy, value, state

    def recall(self, observations: PyTree, state: State, *, resets: Bool[Array, "B T"]) -> tuple[Float[Array, "B T D"], State]:
        """The first half of `unroll`: what the heads see of T steps."""
        ys, state = Streams(self.core, len(resets)).unroll(self.torso(observations), state, resets=resets)
        return self._sized(ys), state

    def predict(
        self, observations: PyTree, state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Float[Array, "B T D"], State, Any]:
        """`recall`, and what the core says of every step; None of a core that predicts nothing."""
        ys, state, said = Streams(self.core, len(resets)).predict(self.torso(observations), state, resets=resets)
        return self._sized(ys), state, said

    def prediction_losses(
        self,
        said: Any,
        *,
        observation: PyTree,
        action: PyTree,
        reward: Float[Array, "B T"],
        returns: Float[Array, "B T"],
        reset: Bool[Array, "B T"],
        valid: Bool[Array, "B T"],
    ) -> dict[str, Float[Array, "B T"]]:
        """How wrong the core was about every step, by what it predicted."""
        seen = self.torso.scaled(observation) if isinstance(self.torso, Normaliser) else observation
        told = {"reward": reward, "returns": returns, "reset": reset, "valid": valid}
        happened = jax.lax.stop_gradient(happened_of(self.head.spec, seen, action, **told))
        return offered(self.core, "prediction_losses")(said, happened)

    def answer(self, y: Float[Array, "*n D"]) -> tuple[Policy, Float[Array, "*n N"]]:
        """The second half: policy and values from what the heads see."""
        return self.head(self.policy(y)), self.value(y)

    def pixel_values(self, ys: Float[Array, "B T D"]) -> Float[Array, "B T h w A"]:
        """How much each action will change each cell of the picture."""
        if self.pixel_control is None:
            raise AgentError("this agent was made without pixel control; make it with pixel_control=True")
        return self.pixel_control(ys)

    def seen(self, observation: PyTree, *, axis: str | None = None) -> "Agent":
        """The same agent after it has seen these: the statistics of its inputs, if it keeps any, follow them."""
        if not isinstance(self.torso, Normaliser):
            return self
        return eqx.tree_at(lambda of: of.torso, self, self.torso.follow(observation, axis=axis))

    def _sized(self, y: Float[Array, "*n D"]) -> Float[Array, "*n D"]:
        return standardise(y) if self.output_norm else y

    def _streams(self, state: State) -> Streams:
        leaves = jax.tree.leaves(state)
        return Streams(self.core, leaves[0].shape[0] if leaves else 1)


def _controlled(torso: Torso | Encoder | Normaliser, head: Head) -> tuple[str, tuple[int, int], int]:
    """What pixel control is about: the picture's name, its cells each way, how many actions."""
    inner = torso.torso if isinstance(torso, Normaliser) else torso
    images = inner.spec.images if isinstance(inner, Encoder) else ()
    if head.spec.kind != "categorical" or len(images) != 1:
        raise AgentError(
            f"pixel control is for one picture and one choice of action, got {len(images)} pictures and a {head.spec.kind} "
            "policy; set it to 0"
        )
    name, (height, width, _) = images[0]
    if min(height, width) < 8 * CELL or height % (2 * CELL) or width % (2 * CELL):
        raise AgentError(
            f"pixel control needs pictures of at least {8 * CELL} x {8 * CELL} pixels, each way a multiple of {2 * CELL}, "
            f"got {height} x {width}; change the task's height and width, or set it to 0"
        )
    return name, (height // CELL, width // CELL), head.spec.discrete[0]


def _answering(mlp: MLP) -> MLP:
    return eqx.tree_at(lambda of: (of.hidden, of.output), mlp, (scaled(mlp.hidden, RELU), scaled(mlp.output, 0.1)))
