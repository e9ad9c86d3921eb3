"""What the agent answers from the core's output: policy, values, pixel control. D core width, A actions, V values."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from gtrxl.cores.layers import Linear, along_last, uniform_init
from gtrxl.networks.convolution import convolve
from gtrxl.networks.errors import AgentError

HIDDEN = 256
"""The paper: "a 256-unit MLP with a linear output"."""


class MLP(eqx.Module):
    """Linear, ReLU, linear: the policy's logits, or one value per task for PopArt."""

    hidden: Linear
    output: Linear

    def __init__(self, input_size: int, output_size: int, *, hidden: int = HIDDEN, key: PRNGKeyArray):
        hidden_key, output_key = jax.random.split(key)
        self.hidden = Linear(input_size, hidden, key=hidden_key)
        self.output = Linear(hidden, output_size, key=output_key)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n O"]:
        """The core's output, of any number of steps -> logits or values."""
        return self.output(jax.nn.relu(self.hidden(x)))


class Deconv(eqx.Module):
    """A transposed convolution with no padding: N becomes (N - 1) * stride + size, where the stride divides the size."""

    kernel: Float[Array, "S S C_in C_out"]
    bias: Float[Array, " C_out"]
    stride: int = eqx.field(static=True)

    def __init__(self, input_channels: int, output_channels: int, *, size: int, stride: int, key: PRNGKeyArray):
        if size % stride:
            raise AgentError(f"stride must divide size, got {stride} and {size}; the paper's are 1 and 3, 2 and 4")
        # Each output is reached by (size / stride) ** 2 places of the kernel.
        fan_in = max(1, size // stride) ** 2 * input_channels
        self.kernel = uniform_init(key, (size, size, input_channels, output_channels), fan_in=fan_in)
        self.bias = jnp.zeros((output_channels,), jnp.float32)
        self.stride = stride

    def __call__(self, x: Float[Array, "*n H W C_in"]) -> Float[Array, "*n H_out W_out C_out"]:
        """Images, enlarged."""
        # Of the outputs every stride-th sees the same part of the kernel: each such part is an ordinary convolution of its own.
        # They are done together and their outputs woven; as one dilated convolution it takes many times as long on a CPU.
        step, (size, _, before, after) = self.stride, self.kernel.shape
        high, wide = (side + size // step - 1 for side in x.shape[-3:-1])
        places = self.kernel.reshape(size // step, step, size // step, step, before, after)[:, ::-1, :, ::-1]
        kernel = jnp.transpose(places, (0, 2, 4, 1, 3, 5)).reshape(size // step, size // step, before, step * step * after)
        y = convolve(x.reshape(-1, *x.shape[-3:]), kernel, size // step - 1)
        woven = jnp.transpose(y.reshape(-1, high, wide, step, step, after), (0, 1, 3, 2, 4, 5))
        y = woven.reshape(*x.shape[:-3], high * step, wide * step, after)
        return y + along_last(self.bias, y)


class PixelControl(eqx.Module):
    """Action values of how much each cell of the image changes (Jaderberg et al. 2017): `[*n, D]` -> `[*n, cells, A]`.

    For the paper's 72 x 96 image in cells of 4 x 4 pixels: linear to 6 x 9 x 32, deconvolution 3x3 to 8 x 11,
    deconvolution 4x4 of stride 2 to 18 x 24. The last one makes A advantages and one value, combined as a dueling
    network (Wang et al. 2016): Q = V + advantage - mean advantage.
    """

    linear: Linear
    first: Deconv
    second: Deconv
    cells: tuple[int, int] = eqx.field(static=True)
    channels: int = eqx.field(static=True)

    def __init__(
        self, input_size: int, actions: int, *, cells: tuple[int, int] = (18, 24), channels: int = 32, key: PRNGKeyArray
    ):
        if any(n < 8 or n % 2 for n in cells):
            raise AgentError(f"cells must be even and at least 8 each way, got {cells}; the paper's 72 x 96 image has 18 x 24")
        linear_key, first_key, second_key = jax.random.split(key, 3)
        self.cells = cells
        self.channels = channels
        height, width = self._start
        self.linear = Linear(input_size, height * width * channels, key=linear_key)
        self.first = Deconv(channels, channels, size=3, stride=1, key=first_key)
        self.second = Deconv(channels, actions + 1, size=4, stride=2, key=second_key)

    def __call__(self, x: Float[Array, "*n D"]) -> Float[Array, "*n cells_high cells_wide A"]:
        """The core's output, of any number of steps -> one action value per cell and action."""
        start = jax.nn.relu(self.linear(x)).reshape(*x.shape[:-1], *self._start, self.channels)
        streams = self.second(jax.nn.relu(self.first(start)))
        return dueling(advantages=streams[..., :-1], value=streams[..., -1:])

    @property
    def _start(self) -> tuple[int, int]:
        return (self.cells[0] - 6) // 2, (self.cells[1] - 6) // 2


def dueling(*, advantages: Float[Array, "*n A"], value: Float[Array, "*n 1"]) -> Float[Array, "*n A"]:
    """Q = V + advantage - mean advantage: the mean over actions is V."""
    return value + advantages - jnp.mean(advantages, axis=-1, keepdims=True)
