"""One learner step inside the compiled program: unrolls in, new weights out. B streams, T steps, N tasks."""

from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from gtrxl.algorithms import Inputs, Learner, masked, pixel_control, popart
from gtrxl.algorithms.popart import PopArt
from gtrxl.cores import State
from gtrxl.networks.agent import Agent
from gtrxl.training.rollout import Unroll, own_value

Metrics = dict[str, Float[Array, ""]]
T = TypeVar("T")


class Batch(eqx.Module):
    """Unrolls, the memory as it was before their first step, and the observation after their last."""

    unroll: Unroll
    memory: State
    next_observation: PyTree
    next_reset: Bool[Array, " B"]
    task: Int[Array, " B"] | None = None
    """Which task each stream plays; None if there is only one."""


class Trained(eqx.Module):
    """What learning changes."""

    agent: Agent
    multipliers: dict[str, Float[Array, ""]]
    agent_optimiser: optax.OptState
    multiplier_optimiser: optax.OptState
    popart: PopArt

    def acting(self) -> Agent:
        """The agent that acts. Its values are in reward units: when they are learned from, PopArt's statistics may be others."""
        last = self.agent.value.output
        return _with_last_layer(self.agent, popart.in_reward_units(last.weight, last.bias, self.popart))


class Update(eqx.Module):
    """How a batch changes the weights: a learner with its optimisers, and PopArt."""

    learner: Learner = eqx.field(static=True)
    discount: float = eqx.field(static=True)
    popart_step: float = eqx.field(static=True)
    """0 switches PopArt off."""

    axis: str | None = eqx.field(static=True, default=None)
    """The device axis that the streams are spread over, inside `shard_map`; None for one device."""

    pixel_control: float = eqx.field(static=True, default=0.0)
    """Weight of the pixel-control loss; 0 leaves it out."""

    prediction_weight: float = eqx.field(static=True, default=1.0)
    """Weight of what the core itself predicts, if it predicts anything; 0 leaves it out."""

    final_rate: float = eqx.field(static=True, default=1.0)
    """The share of the learning rate that is left after `last` updates; it falls to it linearly."""

    last: float | Float[Array, ""] | None = None
    """Not built into the program either, so that a run that is made longer finds it compiled; None keeps the rate."""

    dials: Mapping[str, float | Float[Array, ""]] | None = None
    """The learner's dials where they are not to be built into the program."""

    def start(self, agent: Agent) -> Trained:
        """Before the first step."""
        multipliers = self.learner.multipliers(agent.head.parts)
        return Trained(
            agent=agent,
            multipliers=multipliers,
            agent_optimiser=self.learner.optimiser().init(eqx.filter(agent, eqx.is_inexact_array)),
            multiplier_optimiser=self.learner.multiplier_optimiser().init(multipliers),
            popart=popart.init(agent.values),
        )

    def __call__(
        self, trained: Trained, batch: Batch, key: PRNGKeyArray, *, updates: Int[Array, ""] | int = 0
    ) -> tuple[Trained, Metrics]:
        """All epochs and minibatches of one batch, then the statistics of its returns. `updates` were made before it."""
        share = self._share(updates)
        epochs, parts = self.learner.epochs, self.learner.minibatches
        streams = len(batch.next_reset)
        if epochs == parts == 1:
            trained, metrics, targets = self._step(trained, batch, share)
        else:

            def part(trained: Trained, chosen: Array) -> tuple[Trained, Metrics]:
                trained, metrics, _ = self._step(trained, jax.tree.map(lambda leaf: leaf[chosen], batch), share)
                return trained, metrics

            chosen = jax.vmap(lambda key: self.minibatches(key, streams))(jax.random.split(key, epochs))
            trained, rows = jax.lax.scan(part, trained, chosen.reshape(epochs * parts, streams // parts))
            metrics = jax.tree.map(jnp.mean, rows)
            targets = self._learner.targets(self._inputs(trained.agent, trained.popart, batch)[0])
        agent = trained.agent.seen(batch.unroll.observation, axis=self.axis)
        trained = eqx.tree_at(lambda of: of.agent, trained, agent)
        if self.popart_step:
            # After the step, not before: one pass through the network serves both. The step was small, and it is
            # the values in reward units that are kept.
            valid, task = self._gather((batch.unroll.valid, batch.task))
            new = popart.update(trained.popart, targets, valid, task, step=self.popart_step)
            last = trained.agent.value.output
            agent = _with_last_layer(trained.agent, popart.preserve(last.weight, last.bias, old=trained.popart, new=new))
            trained = eqx.tree_at(lambda of: (of.agent, of.popart), trained, (agent, new))
            metrics |= {"value_mean": jnp.mean(new.mean), "value_scale": jnp.mean(new.scale)}
        return trained, metrics

    @property
    def _learner(self) -> Learner:
        """What is asked for losses and targets: its dials as they stand now."""
        return self.learner.turned(self.dials or {})

    def minibatches(self, key: PRNGKeyArray, streams: int) -> Int[Array, "parts B_part"]:
        """Which of this device's streams each minibatch has. Of every `minibatches` neighbours each goes to another one, drawn by
        their place among all streams: what is learned from together does not depend on the number of devices."""
        parts = self.learner.minibatches
        groups = jnp.arange(streams // parts)
        first = 0 if self.axis is None else jax.lax.axis_index(self.axis) * len(groups)
        keys = jax.vmap(lambda group: jax.random.fold_in(key, group))(first + groups)
        order = jax.vmap(lambda key: jax.random.permutation(key, parts))(keys)
        return (groups[:, None] * parts + order).T

    def _share(self, updates: Int[Array, ""] | int) -> Float[Array, ""] | None:
        """Of the learning rate, for this update; None for all of it."""
        if self.final_rate == 1.0 or self.last is None:
            return None
        return 1 - (1 - self.final_rate) * jnp.minimum(jnp.float32(updates) / self.last, 1.0)

    def _step(
        self, trained: Trained, batch: Batch, share: Float[Array, ""] | None
    ) -> tuple[Trained, Metrics, Float[Array, "B T"]]:
        weights, rest = eqx.partition(trained.agent, eqx.is_inexact_array)

        def loss(learned: tuple[Agent, dict[str, Array]]):
            weights, multipliers = learned
            agent: Agent = eqx.combine(weights, rest)
            inputs, ys, said = self._inputs(agent, trained.popart, batch)
            loss, metrics = self._learner.loss(multipliers, inputs)
            if self.pixel_control:
                pixels = self.pixel_control * self._pixel_loss(agent, batch, ys)
                loss, metrics = loss + pixels, metrics | {"loss": loss + pixels, "loss_pixel_control": pixels}
            targets = self._learner.targets(inputs)
            if said is not None:
                parts = self._predictions(agent, batch, said, inputs.normalised(targets))
                predicted = self.prediction_weight * sum(parts.values(), jnp.zeros(()))
                loss = loss + predicted
                metrics |= {"loss": loss, "loss_prediction": predicted}
                metrics |= {f"prediction_{name}": part for name, part in parts.items()}
            return loss, (metrics, targets)

        gradients, (metrics, targets) = jax.grad(loss, has_aux=True)((weights, trained.multipliers))
        if self.axis:
            # Every device takes the loss of the whole batch. The gradient of a gather adds up what all devices ask of one
            # device's streams: n times too much on each, so that the mean over devices is the gradient of the whole.
            gradients = _mean_over(gradients, self.axis)
        gradient, gradient_of_multipliers = gradients
        change, agent_optimiser = self.learner.optimiser().update(gradient, trained.agent_optimiser, weights)
        if share is not None:  # of what any optimiser would do, so that none needs to know how long a run is
            change = jax.tree.map(lambda leaf: share * leaf, change)
        moved, multiplier_optimiser = self.learner.multiplier_optimiser().update(
            gradient_of_multipliers, trained.multiplier_optimiser, trained.multipliers
        )
        multipliers = self.learner.project(optax.apply_updates(trained.multipliers, moved))  # pyright: ignore[reportArgumentType]
        metrics |= {"gradient_norm": optax.tree.norm(gradient), "weight_change": optax.tree.norm(change)}
        trained = Trained(
            agent=eqx.apply_updates(trained.agent, change),
            multipliers=multipliers,
            agent_optimiser=agent_optimiser,
            multiplier_optimiser=multiplier_optimiser,
            popart=trained.popart,
        )
        return trained, metrics, targets

    def _inputs(self, agent: Agent, stats: PopArt, batch: Batch) -> tuple[Inputs, Float[Array, "B T_1 D"], Any]:
        """What the network says of a batch, of all devices; the core's outputs, of this one, and what it predicts besides."""
        unroll = batch.unroll
        observations = jax.tree.map(_followed, unroll.observation, batch.next_observation)
        resets = _followed(unroll.reset, batch.next_reset)
        if self.prediction_weight:
            ys, _, said = agent.predict(observations, batch.memory, resets=resets)
        else:
            (ys, _), said = agent.recall(observations, batch.memory, resets=resets), None
        policy, values = agent.answer(ys)
        policy = jax.tree.map(lambda leaf: leaf[:, :-1], policy)
        value, streams = own_value(values, batch.task), len(resets)
        shift, scale = (of if batch.task is None else of[batch.task] for of in (stats.mean, stats.scale))
        shift, scale = (jnp.broadcast_to(of, (streams,)) for of in (shift, scale))
        acted = (unroll.value - shift[:, None]) / scale[:, None]
        inputs = Inputs(
            reward=unroll.reward,
            discount=jnp.where(unroll.terminated, 0.0, self.discount),
            valid=unroll.valid,
            log_prob=policy.log_prob(unroll.action),
            behaviour_log_prob=unroll.behaviour.log_prob(unroll.action),
            entropy=policy.entropy(),
            kl=policy.kl_from(unroll.behaviour),
            value=value,
            # The value after the last step was not asked for when acting; the online one is the newest there is.
            behaviour_value=jnp.concatenate([acted, jax.lax.stop_gradient(value[:, -1:])], axis=1),
            shift=shift,
            scale=scale,
        )
        return self._gather(inputs), ys, said

    def _predictions(self, agent: Agent, batch: Batch, said: Any, returns: Float[Array, "B_all T"]) -> Metrics:
        """What the core's predictions lose, by name: means over the steps that count, of all devices."""
        unroll = batch.unroll
        streams = len(unroll.valid)
        first = 0 if self.axis is None else jax.lax.axis_index(self.axis) * streams
        errors = agent.prediction_losses(
            jax.tree.map(lambda leaf: leaf[:, :-1], said),  # what comes after the last step is nobody's to learn from yet
            observation=unroll.observation,
            action=unroll.action,
            reward=unroll.reward,
            returns=jax.lax.dynamic_slice_in_dim(returns, first, streams),
            reset=unroll.reset,
            valid=unroll.valid,
        )
        errors, valid = self._gather((errors, unroll.valid))
        return {name: masked.mean(error, valid) for name, error in errors.items()}

    def _pixel_loss(self, agent: Agent, batch: Batch, ys: Float[Array, "B T_1 D"]) -> Float[Array, ""]:
        """The mean over the steps that count, of all devices."""
        unroll = batch.unroll
        assert agent.picture is not None
        images = _followed(unroll.observation[agent.picture], batch.next_observation[agent.picture])
        errors = pixel_control.errors(
            action=unroll.action,
            q=agent.pixel_values(ys),
            images=images,
            terminated=unroll.terminated,
            valid=unroll.valid,
        )
        return masked.mean(*self._gather((errors, unroll.valid)))

    def _gather(self, local: T) -> T:
        """One device's streams -> those of all devices, on every device."""
        return local if self.axis is None else _gathered(local, self.axis)


def _mean_over(tree: T, axis: str) -> T:
    """The mean over devices, of all arrays in one exchange: each takes longer than small arrays are worth."""
    flat, whole = jax.flatten_util.ravel_pytree(tree)
    return whole(jax.lax.pmean(flat, axis))


def _gathered(local: T, axis: str) -> T:
    """Each device's streams -> those of all, on every device, in one exchange. Flags and whole numbers travel as floats, which
    hold them exactly up to 2^24."""
    leaves, structure = jax.tree.flatten(local)
    rows = [leaf.astype(jnp.float32).reshape(len(leaf), -1) for leaf in leaves]
    everyones = jax.lax.all_gather(jnp.concatenate(rows, axis=1), axis, tiled=True)
    ends = np.cumsum([row.shape[1] for row in rows])[:-1]
    parts = jnp.split(everyones, ends, axis=1)
    whole = [part.reshape(-1, *leaf.shape[1:]).astype(leaf.dtype) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, whole)


def is_fine(trained: Trained, metrics: Metrics) -> Bool[Array, ""]:
    """Whether all is finite after an update: its loss and gradient, and the weights, multipliers and statistics that it leaves. A
    step from a finite gradient can be too large for a float, and a checkpoint must not hold that."""
    left = eqx.filter((trained.agent, trained.multipliers, trained.popart), eqx.is_inexact_array)
    leaves = [leaf for leaf in jax.tree.leaves(left) if leaf.size]
    largest = [jnp.max(jnp.abs(leaf)) for leaf in (metrics["loss"], metrics["gradient_norm"], *leaves)]
    return jnp.all(jnp.isfinite(jnp.stack(largest)))


def _with_last_layer(agent: Agent, layer: tuple[Float[Array, "D N"], Float[Array, " N"]]) -> Agent:
    """The agent with another last layer of its values: weight and bias."""
    return eqx.tree_at(lambda of: (of.value.output.weight, of.value.output.bias), agent, layer)


def _followed(seen: Array, after: Array) -> Array:
    """T steps, and what came after them."""
    return jnp.concatenate([seen, after[:, None]], axis=1)
