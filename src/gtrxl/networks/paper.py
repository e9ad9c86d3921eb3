"""The paper's DMLab-30 agent: image, instruction, previous reward and action -> core -> policy, values, pixel control.

T steps, H height, W width, N words, A actions, V values, D_in core input width, D core output width.
Written for one stream, like the cores; `jax.vmap` makes many.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, UInt8

from gtrxl.algorithms.pixel_control import CELL
from gtrxl.cores import Core, Observed, State, paper_core
from gtrxl.cores.contract import offered
from gtrxl.networks.errors import AgentError
from gtrxl.networks.heads import MLP, PixelControl
from gtrxl.networks.language import Language
from gtrxl.networks.vision import PAPER_CHANNELS, ResNet

PAPER_IMAGE = (72, 96)
PAPER_ACTIONS = 15
PAPER_TASKS = 30


class Observation(eqx.Module):
    """What one step brings. `instruction` is what `word_buckets` gives; an unroll has T in front of every axis."""

    image: UInt8[Array, "*T H W 3"] | Float[Array, "*T H W 3"]
    instruction: Int[Array, "*T N"]
    reward_tm1: Float[Array, "*T"]
    action_tm1: Int[Array, "*T"]


class Answer(eqx.Module):
    """What one step is answered with; `pixel_q` only when asked for. An unroll has T in front of every axis."""

    logits: Float[Array, "*T A"]
    values: Float[Array, "*T V"]
    pixel_q: Float[Array, "*T cells_high cells_wide A"] | None


class PaperAgent(eqx.Module):
    """The agent of the paper's DMLab-30 experiments, with one of its nine cores (`PAPER_CORES`), or of its rivals.

        agent = PaperAgent("gtrxl-gru", key=jax.random.key(0))
        state = agent.initial_state()
        answer, state = agent.step(observation, state, reset=True)
        answers, state = agent.unroll(observations, state, resets=resets, pixel_control=True)

    Every size can be changed; `core_sizes` replace those of the paper's core.
    """

    vision: ResNet
    language: Language
    core: Core
    policy: MLP
    value: MLP
    pixel_control: PixelControl
    actions: int = eqx.field(static=True)

    def __init__(
        self,
        name: str,
        *,
        image_size: tuple[int, int] = PAPER_IMAGE,
        channels: tuple[int, ...] = PAPER_CHANNELS,
        actions: int = PAPER_ACTIONS,
        tasks: int = PAPER_TASKS,
        key: PRNGKeyArray,
        **core_sizes: Any,
    ):
        if actions < 1 or tasks < 1:
            raise AgentError(f"actions and tasks must be at least 1, got {actions} and {tasks}; the paper has 15 and 30")
        vision_key, language_key, core_key, policy_key, value_key, pixel_key = jax.random.split(key, 6)
        self.vision = ResNet(image_size, channels=channels, key=vision_key)
        self.language = Language(key=language_key)
        input_size = self.vision.output_size + self.language.output_size + 1 + actions
        core = paper_core(name, input_size=input_size, key=core_key, **core_sizes)
        observed = Observed(images=(("image", (*image_size, 3)),), choices=(actions,))
        self.core = offered(core, "observing")(observed, key=jax.random.fold_in(core_key, 1))
        self.policy = MLP(self.core.output_size, actions, key=policy_key)
        self.value = MLP(self.core.output_size, tasks, key=value_key)
        cells = (image_size[0] // CELL, image_size[1] // CELL)
        self.pixel_control = PixelControl(self.core.output_size, actions, cells=cells, key=pixel_key)
        self.actions = actions

    def initial_state(self) -> State:
        """The core's state before anything was seen."""
        return self.core.initial_state()

    def step(
        self, observation: Observation, state: State, *, reset: Array | bool, pixel_control: bool = False
    ) -> tuple[Answer, State]:
        """One step of one stream; `reset` is true when it starts an episode."""
        y, state = self.core.step(self.encode(observation, jnp.asarray(reset)), state, reset=reset)
        return self.answer(y, pixel_control=pixel_control), state

    def unroll(
        self, observations: Observation, state: State, *, resets: Array, pixel_control: bool = False
    ) -> tuple[Answer, State]:
        """T steps of one stream: the same numbers as T calls of `step`."""
        ys, state = self.core.unroll(jax.vmap(self.encode)(observations, resets), state, resets=resets)
        return jax.vmap(lambda y: self.answer(y, pixel_control=pixel_control))(ys), state

    def encode(self, observation: Observation, reset: Bool[Array, ""]) -> Float[Array, " D_in"]:
        """Image, instruction, previous reward, previous action side by side.

        The first step of an episode has no previous reward or action, whatever the caller passes: nothing crosses a reset.
        """
        action_tm1 = jax.nn.one_hot(observation.action_tm1, self.actions)
        before = jnp.concatenate([observation.reward_tm1[None], action_tm1])
        return jnp.concatenate(
            [self.vision(observation.image), self.language(observation.instruction), jnp.where(reset, 0.0, before)]
        )

    def answer(self, y: Float[Array, " D"], *, pixel_control: bool) -> Answer:
        """The heads on one step's core output."""
        pixel_q = self.pixel_control(y) if pixel_control else None
        return Answer(logits=self.policy(y), values=self.value(y), pixel_q=pixel_q)
