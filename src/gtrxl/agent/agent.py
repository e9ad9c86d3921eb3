"""The agent that is trained: observation -> torso -> core -> policy and values.

B streams, T steps, D width, N values (one for each task). Observations are arrays, or dicts of them, with B or [B, T] in front.
"""

import equinox as eqx
import gymnasium
import jax
from jaxtyping import Array, Bool, Float, PRNGKeyArray, PyTree

from gtrxl.agent.encoder import Encoder, Torso
from gtrxl.agent.errors import AgentError
from gtrxl.agent.heads import MLP
from gtrxl.agent.measuring import Measuring
from gtrxl.agent.policies import Head, Policy
from gtrxl.agent.scaling import RELU, scaled
from gtrxl.cores import Core, State, Streams


class Agent(eqx.Module):
    """All that is learned: what sees, what remembers, what acts and what judges. Calls take B streams at once.

    Layers begin with weights that keep the size of what passes through them; the last ones begin small, so that the first
    policy is nearly uniform and the first values nearly zero.
    """

    torso: Torso | Encoder | Measuring
    core: Core
    policy: MLP
    value: MLP
    head: Head = eqx.field(static=True)

    def __init__(
        self, *, torso: Torso | Encoder | Measuring, core: Core, head: Head, hidden: int = 64, values: int = 1, key: PRNGKeyArray
    ):
        policy_key, value_key = jax.random.split(key)
        self.torso = torso
        self.core = core
        self.head = head
        self.policy = _answering(MLP(core.output_size, head.width, hidden=hidden, key=policy_key))
        self.value = _answering(MLP(core.output_size, values, hidden=hidden, key=value_key))

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
        policy, value = self._answer(y)
        return policy, value, state

    def unroll(
        self, observations: PyTree, state: State, *, resets: Bool[Array, "B T"]
    ) -> tuple[Policy, Float[Array, "B T N"], State]:
        """Learning: T steps of every stream, from the memory as it was before them."""
        ys, state = Streams(self.core, len(resets)).unroll(self.torso(observations), state, resets=resets)
        policy, value = self._answer(ys)
        return policy, value, state

    def seen(self, observation: PyTree, *, axis: str | None = None) -> "Agent":
        """The same agent after it has seen these: the statistics of its inputs, if it keeps any, follow them."""
        if not isinstance(self.torso, Measuring):
            return self
        return eqx.tree_at(lambda of: of.torso, self, self.torso.follow(observation, axis=axis))

    def _answer(self, y: Float[Array, "*n D"]) -> tuple[Policy, Float[Array, "*n N"]]:
        return self.head(self.policy(y)), self.value(y)

    def _streams(self, state: State) -> Streams:
        leaves = jax.tree.leaves(state)
        return Streams(self.core, leaves[0].shape[0] if leaves else 1)


def vector_size(space: gymnasium.spaces.Space) -> int:
    """How many numbers a vector observation has."""
    if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
        raise AgentError(f"observations must be a Box with one axis, got {space}; flatten them first")
    return space.shape[0]


def _answering(mlp: MLP) -> MLP:
    return eqx.tree_at(lambda of: (of.hidden, of.output), mlp, (scaled(mlp.hidden, RELU), scaled(mlp.output, 0.1)))
