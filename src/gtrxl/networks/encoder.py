"""What an agent sees -> the core's input: pictures through a ResNet, texts through an LSTM, then two tanh layers.

O numbers in an observation, D width.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from gtrxl.cores.layers import Linear
from gtrxl.networks.errors import AgentError
from gtrxl.networks.language import Language
from gtrxl.networks.scaling import TANH, scaled
from gtrxl.networks.vision import SMALL_CHANNELS, ResNet
from gtrxl.tasks.specs import VECTOR, ObservationSpec

MOST_KEPT, GROUP = 2**28, 2**24
"""Bytes that learning may keep of what happens inside a ResNet, between its forward and its backward pass; those of a group of
pictures, where all of them would be more. On a CPU small groups stay in its caches: made twice, they are still faster than all
pictures at once (docs/log.md)."""
MOST_KEPT_ELSEWHERE, GROUP_ELSEWHERE = 2**32, 2**30
"""The same on other devices, which want many pictures at a time."""


class Torso(eqx.Module):
    """The paper's encoder for Numpad: two layers with tanh."""

    first: Linear
    second: Linear

    def __init__(self, input_size: int, width: int, *, key: PRNGKeyArray):
        first_key, second_key = jax.random.split(key)
        self.first = scaled(Linear(input_size, width, key=first_key), TANH)
        self.second = scaled(Linear(width, width, key=second_key), TANH)

    @property
    def output_size(self) -> int:
        """D."""
        return self.second.bias.shape[0]

    def __call__(self, x: Float[Array, "*n O"]) -> Float[Array, "*n D"]:
        return jnp.tanh(self.second(jnp.tanh(self.first(x))))


class Encoder(eqx.Module):
    """Observations with pictures or texts in them, `spec.zeros(*n)` with any axes in front -> `[*n, D]`."""

    images: dict[str, ResNet]
    texts: dict[str, Language]
    torso: Torso
    spec: ObservationSpec = eqx.field(static=True)

    def __init__(
        self,
        spec: ObservationSpec,
        width: int,
        *,
        channels: tuple[int, ...] = SMALL_CHANNELS,
        features: int = 256,
        key: PRNGKeyArray,
    ):
        if spec.only_vector:
            raise AgentError(
                f"an encoder is for pictures or texts, got {spec.vector} numbers alone; make_torso(...) gives a Torso"
            )
        torso_key, *keys = jax.random.split(key, 1 + len(spec.images) + len(spec.texts))
        self.images = {
            name: ResNet((height, wide), colours=colours, channels=channels, features=features, key=keys.pop())
            for name, (height, wide, colours) in spec.images
        }
        self.texts = {name: Language(key=keys.pop()) for name, _ in spec.texts}
        size = sum(part.output_size for part in (*self.images.values(), *self.texts.values()))
        self.torso = Torso(spec.vector + size, width, key=torso_key)
        self.spec = spec

    @property
    def output_size(self) -> int:
        """D."""
        return self.torso.output_size

    def __call__(self, observation: PyTree) -> Float[Array, "*n D"]:
        self._check(observation)
        parts = [observation[VECTOR]] if self.spec.vector else []
        for name, (*shape, _) in self.spec.images:
            parts.append(_each(self.images[name], observation[name], axes=1 + len(shape)))
        for name, _ in self.spec.texts:
            parts.append(_each(self.texts[name], observation[name], axes=1))
        return self.torso(jnp.concatenate(parts, axis=-1))

    def _check(self, observation: PyTree) -> None:
        names = {VECTOR} if self.spec.vector else set()
        names |= {name for name, _ in (*self.spec.images, *self.spec.texts)}
        if not isinstance(observation, dict) or set(observation) != names:
            got = sorted(observation) if isinstance(observation, dict) else type(observation).__name__
            raise AgentError(f"an observation must be a dict of {', '.join(sorted(names))}, got {got}; a task's Lens makes it so")


def make_torso(
    spec: ObservationSpec, width: int, *, channels: tuple[int, ...] = SMALL_CHANNELS, key: PRNGKeyArray
) -> Torso | Encoder:
    """What a task's observations need: a `Torso` for numbers alone, an `Encoder` for anything else."""
    return Torso(spec.vector, width, key=key) if spec.only_vector else Encoder(spec, width, channels=channels, key=key)


def _each(part: ResNet | Language, x: Array, *, axes: int) -> Float[Array, "*n F"]:
    """One network over all leading axes at once; of very many pictures in groups, made again for the gradient."""
    leading = x.shape[: x.ndim - axes]
    flat = x.reshape(math.prod(leading), *x.shape[x.ndim - axes :])
    most, room = (MOST_KEPT, GROUP) if jax.default_backend() == "cpu" else (MOST_KEPT_ELSEWHERE, GROUP_ELSEWHERE)
    if isinstance(part, Language):
        found = jax.vmap(part)(flat)
    elif part.native(flat.dtype) or len(flat) * (kept := _kept(part)) <= most:  # the library sees to it by itself
        found = part(flat)
    else:
        group = max(1, room // kept)
        lacking = -len(flat) % group
        grouped = jnp.pad(flat, [(0, lacking), *[(0, 0)] * axes]).reshape(-1, group, *flat.shape[1:])
        found = jax.lax.map(jax.checkpoint(lambda pictures: part(pictures)), grouped)
        found = found.reshape(-1, part.output_size)[: len(flat)]
    return found.reshape(*leading, part.output_size)


def _kept(part: ResNet) -> int:
    """About how many bytes of one picture a gradient needs, at least: eight times what the first convolution gives."""
    height, width = part.image_size
    return 8 * 4 * height * width * part.sections[0].conv.kernel.shape[-1]
