"""What the agent sees: the IMPALA ResNet, for one image. H height, W width, C channels, F features.

Each section is a 3x3 convolution, a 3x3 max-pool of stride 2 and two residual blocks (the paper's appendix A, after
Espeholt et al. 2018). Layout is [H, W, C], kernels are [H, W, C_in, C_out], padding is SAME throughout.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray, UInt8

from gtrxl.agent.errors import AgentError
from gtrxl.agent.scaling import PLAIN, RELU, scaled
from gtrxl.cores.layers import Linear, along_last, uniform_init

LAYOUT = ("NHWC", "HWIO", "NHWC")
PAPER_CHANNELS = (64, 128, 128)
SMALL_CHANNELS = (16, 32, 32)


class Conv(eqx.Module):
    """A 3x3 convolution of stride 1 that keeps height and width."""

    kernel: Float[Array, "3 3 C_in C_out"]
    bias: Float[Array, " C_out"]

    def __init__(self, input_channels: int, output_channels: int, *, gain: float, key: PRNGKeyArray):
        self.kernel = gain * uniform_init(key, (3, 3, input_channels, output_channels), fan_in=9 * input_channels)
        self.bias = jnp.zeros((output_channels,), jnp.float32)

    def __call__(self, x: Float[Array, "H W C_in"]) -> Float[Array, "H W C_out"]:
        """One image, same height and width."""
        y = jax.lax.conv_general_dilated(x[None], self.kernel, (1, 1), "SAME", dimension_numbers=LAYOUT)[0]
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

    def __call__(self, x: Float[Array, "H W C"]) -> Float[Array, "H W C"]:
        """One image, same shape."""
        return x + self.second(jax.nn.relu(self.first(jax.nn.relu(x))))


class Section(eqx.Module):
    """Convolution, max-pool to half the size, two residual blocks."""

    conv: Conv
    residuals: tuple[Residual, Residual]

    def __init__(self, input_channels: int, output_channels: int, *, key: PRNGKeyArray):
        conv_key, first_key, second_key = jax.random.split(key, 3)
        self.conv = Conv(input_channels, output_channels, gain=PLAIN, key=conv_key)
        self.residuals = (Residual(output_channels, key=first_key), Residual(output_channels, key=second_key))

    def __call__(self, x: Float[Array, "H W C_in"]) -> Float[Array, "H_half W_half C_out"]:
        """One image at half its height and width, rounded up."""
        x = max_pool(self.conv(x))
        for residual in self.residuals:
            x = residual(x)
        return x


class ResNet(eqx.Module):
    """An image `[H, W, C]` -> `[F]`: the sections, ReLU, one linear layer, ReLU.

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

    def __call__(self, image: UInt8[Array, "H W C"] | Float[Array, "H W C"]) -> Float[Array, " F"]:
        """One image -> its features."""
        expected = (*self.image_size, self.colours)
        if image.shape != expected:
            raise AgentError(
                f"image must have shape {list(expected)} (one image, height first), got {list(image.shape)}; "
                "for many images use jax.vmap"
            )
        x = image.astype(jnp.float32) / 255 if image.dtype == jnp.uint8 else image
        for section in self.sections:
            x = section(x)
        return jax.nn.relu(self.linear(jax.nn.relu(x).reshape(-1)))


def max_pool(x: Float[Array, "H W C"]) -> Float[Array, "H_half W_half C"]:
    """The largest of each 3x3 window, stride 2, SAME: H becomes ceil(H / 2); what lies outside the image never wins."""
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (3, 3, 1), (2, 2, 1), "SAME")
