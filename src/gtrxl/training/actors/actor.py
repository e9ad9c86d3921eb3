"""An actor: K streams of a task stepped side by side, one batched call of the network for each step, the memory kept at its side.

K streams, T steps.

It runs in any process and knows nothing of who asks it. The weights it acts with are handed to it; an unroll leaves with the
memory as it was at its start, so that a learner with other weights can go through the same steps again.
"""

import dataclasses
import functools
import time
import traceback
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from gtrxl.gym.spaces import ObservationSpec
from gtrxl.gym.stream import EnvStream, Pulse, TaskFault, no_pulse, timed
from gtrxl.gym.task import GymTask
from gtrxl.networks.agent import Agent
from gtrxl.runs.errors import RunError
from gtrxl.tasks.errors import in_range
from gtrxl.training.actors.packets import Failure, Packet, Seconds
from gtrxl.training.rollout import Unroll, own_value


def settle() -> None:
    """Makes this process a good home for an actor; to be called before JAX first computes."""
    # Run where it is called: at these sizes handing a step to another thread takes longer than the step. No variable sets this.
    jax.config.update("jax_cpu_enable_async_dispatch", False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Assignment:
    """What every actor of a run is told."""

    task: GymTask
    """Or a set of them: the streams of all actors together, in their order, play its members in turn."""
    streams: int
    """K, of each actor."""
    steps: int
    """T, of an unroll."""
    seed: int
    time_limit: float = 120.0
    """Seconds that one call of a task may take."""
    noise_steps: int = 1
    """Steps that the noise of continuous actions lasts."""
    since: int = 0
    """Updates made before these actors began: a run that goes on does not see its first episodes again."""

    def __post_init__(self):
        in_range("streams", self.streams, least=1, hint="an actor steps at least one task")
        in_range("steps", self.steps, least=1, hint="the paper uses 95")
        if self.task.alone and self.streams > 1:
            raise RunError(
                f"tasks-per-actor must be 1 for {self.task.name}, a process holds one of it, got {self.streams}; leave it out"
            )

    def played(self, actor: int) -> tuple[int, ...]:
        """Which of the tasks each of an actor's streams plays: stream i of all plays task i modulo their number."""
        return tuple((actor * self.streams + k) % len(self.task.tasks) for k in range(self.streams))

    def name(self, actor: int, stream: int) -> str:
        """Of the task that one of an actor's streams plays."""
        return self.task.tasks[self.played(actor)[stream]].name

    def seeds(self, actor: int, attempt: int) -> list[int]:
        """A seed for each of an actor's streams, then one for its policy; `attempt` counts how often it was started anew."""
        sequence = np.random.SeedSequence([self.seed, self.since, actor, attempt])
        return [int(seed) for seed in sequence.generate_state(self.streams + 1)]


class Actor:
    """Steps its tasks when asked for an unroll.

    actor = Actor(assignment, 0)
    packet = actor.unroll(weights, 0)   # weights: an agent, its arrays NumPy's; None keeps those it has
    actor.close()
    """

    def __init__(self, assignment: Assignment, index: int, *, attempt: int = 0, pulse: Pulse = no_pulse):
        self.assignment = assignment
        self.index = index
        *self._seeds, policy_seed = assignment.seeds(index, attempt)
        self._key = jax.random.key(policy_seed)
        self._played = np.array(assignment.played(index), np.int32)
        self._several = self._played if len(assignment.task.tasks) > 1 else None
        self._pulse = pulse
        self._streams: list[EnvStream] = []
        self._acting: _Acting | None = None
        self._steps = 0

    def answer(self, weights: Agent | None, version: int) -> Packet | Failure:
        """As `unroll`, but what goes wrong is returned; after that the actor is of no more use."""
        try:
            return self.unroll(weights, version)
        except TaskFault as fault:
            failure = Failure(self.index, fault.kind, str(fault), fault.detail, fault.when_made)
        except Exception as error:
            said = " ".join(str(error).split())[:500]
            message = f"{self.assignment.task.name}, actor {self.index}: raised {type(error).__name__}: {said}"
            failure = Failure(self.index, "raised", message, traceback.format_exc())
        self.close()
        return failure

    def unroll(self, weights: Agent | None, version: int) -> Packet:
        """T steps of every stream. New weights, of `version` updates, begin to act here; tasks are made at the first call."""
        with timed():
            return self._unrolled(weights, version)

    def _unrolled(self, weights: Agent | None, version: int) -> Packet:
        begun = time.perf_counter()
        self._open()
        if weights is not None:
            self._take(weights, version)
        acting = self._acting
        if acting is None:
            raise RunError("an actor's first unroll needs weights, got None; give it the agent")
        memory = acting.memory()
        noise = acting.programs.noise(acting.weights, self._key, self._steps)
        now, reset = self._observation(), np.array([stream.reset for stream in self._streams])
        unroll = acting.programs.buffers()
        seen, said = jax.tree.leaves(unroll.observation), jax.tree.leaves((unroll.action, unroll.behaviour, unroll.value))
        rewards, terminated, valid = unroll.reward, unroll.terminated, unroll.valid
        in_task, ended = 0.0, []
        for t in range(self.assignment.steps):
            unroll.reset[:, t] = reset
            _write(seen, t, jax.tree.leaves(now))
            answer, acting.fast = acting.programs.step(acting.weights, acting.fast, noise, t, now, reset, self._several)
            answer = [np.asarray(leaf) for leaf in answer]
            _write(said, t, answer)
            before = time.perf_counter()
            for k, action in enumerate(acting.programs.actions(answer)):
                stream = self._streams[k]
                moved = stream.move(action)
                rewards[k, t], terminated[k, t], valid[k, t] = moved.reward, moved.terminated, moved.valid
                reset[k] = stream.reset
                if moved.ended is not None:
                    ended.append(moved.ended._replace(task=int(self._played[k])))
            in_task += time.perf_counter() - before
            now = self._observation()
        self._steps += self.assignment.steps
        whole = time.perf_counter() - begun
        return Packet(
            unroll=unroll,
            memory=memory,
            next_observation=now,
            next_reset=reset,
            ended=tuple(ended),
            version=acting.version,
            seconds=Seconds(task=in_task, inference=whole - in_task, whole=whole),
            task=self._several,
        )

    def close(self) -> None:
        """Lets the tasks go."""
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.close()

    def _open(self) -> None:
        if self._streams:
            return
        for k, seed in enumerate(self._seeds):
            told = {"actor": self.index, "index": k, "time_limit": self.assignment.time_limit, "pulse": self._pulse}
            self._streams.append(EnvStream(self.assignment.task.tasks[self._played[k]], seed=seed, **told))

    def _take(self, agent: Agent, version: int) -> None:
        """These weights act from here on, with the memory that earlier ones left."""
        spec = self._streams[0].spaces.lens.spec
        sizes = {"streams": self.assignment.streams, "steps": self.assignment.steps}
        programs, weights = programs_for(agent, spec, **sizes, noise_steps=self.assignment.noise_steps)
        before = self._acting
        memory = programs.start(weights) if before is None else before.programs.plain(before.weights, before.fast)
        self._acting = _Acting(programs=programs, weights=weights, version=version, fast=programs.prepare(weights, memory))

    def _observation(self) -> Any:
        """What all streams show now."""
        return stacked([stream.observation for stream in self._streams])


def stacked(observations: list[Any]) -> Any:
    """Observations of single streams as one, with K in front."""
    if isinstance(observations[0], dict):
        return {name: np.stack([each[name] for each in observations]) for name in observations[0]}
    if observations[0].ndim == 1:  # as `stack`, at half of its price
        return np.concatenate(observations).reshape(len(observations), -1)
    return np.stack(observations)


def _write(buffers: list[np.ndarray], t: int, leaves: list[np.ndarray]) -> None:
    for buffer, leaf in zip(buffers, leaves, strict=True):
        buffer[:, t] = leaf


@dataclasses.dataclass
class _Acting:
    """The weights that act, and the memory they act on."""

    programs: "Programs"
    weights: list[Array]
    version: int
    fast: list[Array]
    """The memory, prepared for these weights. Each step uses it up and leaves the next."""

    def memory(self) -> Any:
        """The memory as it is now: a copy, right under any weights."""
        # A core with nothing to prepare has the same arrays in both, and the next step takes them away.
        return jax.tree.map(np.array, self.programs.plain(self.weights, self.fast))


class Programs:
    """An agent's calls, compiled for K streams and T steps.

    Weights and prepared memory are flat lists of arrays: their structure never changes, and going through it at every step would
    take longer than a small network does.
    """

    def __init__(
        self,
        structure: Any,
        weights: tuple[jax.ShapeDtypeStruct, ...],
        observation: Any,
        *,
        streams: int,
        steps: int,
        noise_steps: int = 1,
    ):
        self._structure = structure
        self._streams = streams
        self._steps = steps
        self._noise_steps = noise_steps
        self._memory = jax.eval_shape(self._start, weights)
        self._fast = jax.tree.structure(jax.eval_shape(self._prepared, weights, self._memory))
        fast = jax.eval_shape(self._prepare, weights, self._memory)
        noise = jax.eval_shape(self._noise, weights, jax.random.key(0), 0)
        self._record = jax.eval_shape(self._recorded, weights, fast, noise, observation)
        self._action = jax.tree.structure(self._record.action)
        self.start = jax.jit(self._start)
        self.prepare = jax.jit(self._prepare)
        self.plain = jax.jit(self._plain)
        self.noise = jax.jit(self._noise)
        self.step = jax.jit(self._step, donate_argnums=1)

    def actions(self, answer: list[np.ndarray]) -> list[Any]:
        """What a step's answer tells each stream to do."""
        leaves = answer[: self._action.num_leaves]
        if self._action.num_nodes == 1:
            return list(leaves[0])
        return [jax.tree.unflatten(self._action, [leaf[k] for leaf in leaves]) for k in range(self._streams)]

    def buffers(self) -> Unroll:
        """Room for T steps of K streams."""
        return jax.tree.map(lambda leaf: np.empty((self._streams, self._steps, *leaf.shape[1:]), leaf.dtype), self._record)

    def _agent(self, weights: Sequence[Any]) -> Agent:
        return jax.tree.unflatten(self._structure, weights)

    def _start(self, weights: Sequence[Any]) -> Any:
        return self._agent(weights).initial_state(self._streams)

    def _prepared(self, weights: Sequence[Any], memory: Any) -> Any:
        return self._agent(weights).prepare(memory)

    def _prepare(self, weights: Sequence[Any], memory: Any) -> list[Any]:
        return jax.tree.leaves(self._prepared(weights, memory))

    def _plain(self, weights: Sequence[Any], fast: list[Any]) -> Any:
        return self._agent(weights).plain(jax.tree.unflatten(self._fast, fast), streams=self._streams)

    def _noise(self, weights: Sequence[Any], key: PRNGKeyArray, first: Any) -> Any:
        """Of T steps, counted from the actor's first one: how they are cut into unrolls changes nothing."""
        head, lasts = self._agent(weights).head, self._noise_steps
        times = jnp.arange(self._steps + lasts - 1)
        drawn = jax.vmap(lambda t: head.noise(jax.random.fold_in(key, first + t), (self._streams,)))(times)
        return head.lasting(drawn, lasts)

    def _step(
        self, weights: Sequence[Any], fast: list[Any], noise: Any, t: Any, observation: Any, reset: Any, played: Any
    ) -> tuple[list[Any], list[Any]]:
        """An action, the policy it was drawn from and the value, of every stream; and the memory after it. `played` says which
        task each stream plays; None if there is only one."""
        said, after = self._answer(weights, fast, noise, t, observation, reset, played)
        return jax.tree.leaves(said), jax.tree.leaves(after)

    def _answer(
        self, weights: Sequence[Any], fast: list[Any], noise: Any, t: Any, observation: Any, reset: Any, played: Any
    ) -> Any:
        policy, value, after = self._agent(weights).step(observation, jax.tree.unflatten(self._fast, fast), reset=reset)
        drawn = jax.tree.map(lambda leaf: jax.lax.dynamic_index_in_dim(leaf, t, keepdims=False), noise)
        return (policy.sample(drawn), policy, own_value(value, played)), after

    def _recorded(self, weights: Sequence[Any], fast: list[Any], noise: Any, observation: Any) -> Unroll:
        """One step of what is recorded, for its shapes."""
        flag = jnp.zeros(self._streams, bool)
        (action, policy, value), _ = self._answer(weights, fast, noise, 0, observation, flag, None)
        return Unroll(
            observation=observation,
            reset=flag,
            action=action,
            behaviour=policy,
            value=value,
            reward=value,
            terminated=flag,
            valid=flag,
        )


def programs_for(
    agent: Agent, spec: ObservationSpec, *, streams: int, steps: int, noise_steps: int = 1
) -> tuple[Programs, list[Array]]:
    """An agent's compiled calls, made once for agents of one kind, and its weights as these take them."""
    leaves, structure = jax.tree.flatten(agent)
    shapes = tuple(jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in leaves)
    return _programs(structure, shapes, spec, streams, steps, noise_steps), jax.device_put(leaves)


@functools.lru_cache(maxsize=8)
def _programs(
    structure: Any, shapes: tuple[Any, ...], spec: ObservationSpec, streams: int, steps: int, noise_steps: int
) -> Programs:
    return Programs(structure, shapes, spec.zeros(streams), streams=streams, steps=steps, noise_steps=noise_steps)
