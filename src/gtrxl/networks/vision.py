"""What the agent sees: the IMPALA ResNet, for one image or many. H height, W width, C channels, F features, N images.

Each section is a 3x3 convolution, a 3x3 max-pool of stride 2 and two residual blocks (the paper's appendix A, after
Espeholt et al. 2018). Layout is [H, W, C], kernels are [H, W, C_in, C_out], padding is SAME throughout.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from gtrxl.cores import kernels
from gtrxl.cores.layers import Linear, along_last, uniform_init
from gtrxl.networks.convolution import convolve
from gtrxl.networks.errors import AgentError
from gtrxl.networks.kernels import agreement, torso
from gtrxl.networks.scaling import PLAIN, RELU, scaled

PAPER_CHANNELS = (64, 128, 128)
SMALL_CHANNELS = (16, 32, 32)


class Conv(eqx.Module):
    """A 3x3 convolution of stride 1 that keeps height and width."""

    kernel: Float[Array, "3 3 C_in C_out"]
    bias: Float[Array, " C_out"]

    def __init__(self, input_channels: int, output_channels: int, *, gain: float, key: PRNGKeyArray):
        self.kernel = gain * uniform_init(key, (3, 3, input_channels, output_channels), fan_in=9 * input_channels)
        self.bias = jnp.zeros((output_channels,), jnp.float32)

    def __call__(self, x: Float[Array, "*n H W C_in"]) -> Float[Array, "*n H W C_out"]:
        """Images of the same height and width."""
        y = convolve(x.reshape(-1, *x.shape[-3:]), self.kernel).reshape(*x.shape[:-1], self.kernel.shape[-1])
        return y + along_last(self.bias, y)


class Residual(eqx.Module):
    """x + conv(relu(conv(relu(x))))."""

    first: Conv
    second: Conv

    def __init__(self, channels: int, *, key: PRNGKeyArray):
        first_key, second_key = jax.random.split(key)
        self.first = Conv(channels, channels, gain=RELU, key=first_key)
        # Small: a sum of branches as large as the stream would grow with every block.
        self.second = Conv(channels, channels, gain=RELU / 4, key=second_key)

    def __call__(self, x: Float[Array, "*n H W C"]) -> Float[Array, "*n H W C"]:
        """Images of the same shape."""
        return x + self.second(jax.nn.relu(self.first(jax.nn.relu(x))))


class Section(eqx.Module):
    """Convolution, max-pool to half the size, two residual blocks."""

    conv: Conv
    residuals: tuple[Residual, Residual]

    def __init__(self, input_channels: int, output_channels: int, *, key: PRNGKeyArray):
        conv_key, first_key, second_key = jax.random.split(key, 3)
        self.conv = Conv(input_channels, output_channels, gain=PLAIN, key=conv_key)
        self.residuals = (Residual(output_channels, key=first_key), Residual(output_channels, key=second_key))

    def __call__(self, x: Float[Array, "*n H W C_in"]) -> Float[Array, "*n H_half W_half C_out"]:
        """Images at half their height and width, rounded up."""
        x = max_pool(self.conv(x))
        for residual in self.residuals:
            x = residual(x)
        return x


class ResNet(eqx.Module):
    """Images `[*n, H, W, C]` -> `[*n, F]`: the sections, ReLU, one linear layer, ReLU.

    uint8 images are scaled to 0..1; float images are taken as they are. `image_size` is (height, width), at any size;
    `colours` is C, 3 for the paper's.
    """

    sections: tuple[Section, ...]
    linear: Linear
    image_size: tuple[int, int] = eqx.field(static=True)
    colours: int = eqx.field(static=True)
    output_size: int = eqx.field(static=True)

    def __init__(
        self,
        image_size: tuple[int, int],
        *,
        colours: int = 3,
        channels: tuple[int, ...] = PAPER_CHANNELS,
        features: int = 256,
        key: PRNGKeyArray,
    ):
        if len(image_size) != 2 or min(image_size) < 1:
            raise AgentError(f"image_size must be (height, width), each at least 1, got {image_size}; the paper's is (72, 96)")
        if colours < 1:
            raise AgentError(f"colours must be at least 1, got {colours}; a grey image has 1, an RGB image 3")
        if not channels or min(channels) < 1:
            raise AgentError(
                f"channels must name one width per section, each at least 1, got {channels}; the paper's are 64, 128, 128"
            )
        linear_key, *section_keys = jax.random.split(key, 1 + len(channels))
        widths = zip((colours, *channels), channels, section_keys, strict=False)
        self.sections = tuple(Section(before, after, key=key) for before, after, key in widths)
        height, width = (math.ceil(size / 2 ** len(channels)) for size in image_size)
        self.linear = scaled(Linear(height * width * channels[-1], features, key=linear_key), RELU)
        self.image_size = (image_size[0], image_size[1])
        self.colours = colours
        self.output_size = features

    def __call__(self, image: UInt8[Array, "*n H W C"] | Float[Array, "*n H W C"]) -> Float[Array, "*n F"]:
        """One image, or any number of them -> their features."""
        expected = (*self.image_size, self.colours)
        if image.shape[-3:] != expected:
            raise AgentError(
                f"image must have shape {list(expected)} (height first; any axes before it), got {list(image.shape)}; "
                "make the ResNet for this size"
            )
        pictures = image.reshape(-1, *expected)
        if self.native(image.dtype):
            x = torso.through_sections(through_sections, self.sections, pictures)
        else:
            x = through_sections(self.sections, pictures)
        return jax.nn.relu(self.linear(x.reshape(*image.shape[:-3], math.prod(x.shape[-3:]))))

    def native(self, dtype: jax.typing.DTypeLike) -> bool:
        """Whether the native library takes images of this type through the sections here."""
        if jnp.dtype(dtype) != jnp.uint8 or not _ours(self.sections) or jax.default_backend() != "cpu":
            return False
        return kernels.available(torso.TORSO) and agreement.holds(ResNet)


def through_sections(
    sections: tuple[Section, ...], images: UInt8[Array, "N H W C"] | Float[Array, "N H W C"]
) -> Float[Array, "N h w C_out"]:
    """What the last section gives above zero."""
    x = images.astype(jnp.float32) / 255 if images.dtype == jnp.uint8 else images
    for section in sections:
        x = section(x)
    return jax.nn.relu(x)


def _ours(sections: tuple[Section, ...]) -> bool:
    """Whether these are the classes that the library knows, in float32."""
    if not all(type(section) is Section and len(section.residuals) == 2 for section in sections):
        return False
    blocks = [block for section in sections for block in section.residuals]
    convs = [*(section.conv for section in sections), *(conv for block in blocks for conv in (block.first, block.second))]
    known = all(type(block) is Residual for block in blocks) and all(type(conv) is Conv for conv in convs)
    return known and all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(sections))


def max_pool(x: Float[Array, "*n H W C"]) -> Float[Array, "*n H_half W_half C"]:
    """The largest of each 3x3 window, stride 2, SAME: H becomes ceil(H / 2); what lies outside the image never wins. Equal ones
    share the gradient."""
    # First along one side, then along the other, each as three slices: on a CPU that learns a quarter faster than one window.
    return _halved(_halved(x, axis=-3), axis=-2)


def _halved(x: Float[Array, "*n H W C"], *, axis: int) -> Float[Array, "*n H_half W_half C"]:
    """The largest of three neighbours along one side (-3 or -2), at every second place."""
    size = x.shape[axis]
    half = math.ceil(size / 2)
    before = max(0, 2 * half + 1 - size) // 2
    room = [(0, 0)] * x.ndim
    room[axis] = (before, 2 * half + 2 - size - before)
    pairs = jnp.pad(x, room, constant_values=-jnp.inf)
    pairs = pairs.reshape(*x.shape[:axis], half + 1, 2, *x.shape[axis + 1 :])
    first, second = (jax.lax.index_in_dim(pairs, place, axis, keepdims=False) for place in (0, 1))
    here, beside, next_ = ((first, 0), (second, 0), (first, 1))
    parts = [jax.lax.slice_in_dim(of, start, start + half, axis=axis) for of, start in (here, beside, next_)]
    return jnp.maximum(jnp.maximum(parts[0], parts[1]), parts[2])
