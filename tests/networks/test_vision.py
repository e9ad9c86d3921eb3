"""The ResNet against a slow NumPy version written loop by loop. H, W image, C channels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.networks import PAPER_CHANNELS, SMALL_CHANNELS, AgentError, ResNet
from gtrxl.networks.convolution import convolve
from gtrxl.networks.vision import max_pool


def slow_conv(x: np.ndarray, kernel: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Every output from its own nine neighbours; outside the image is zero."""
    height, width, _ = x.shape
    y = np.zeros((height, width, kernel.shape[3]))
    for row in range(height):
        for column in range(width):
            y[row, column] = bias
            for i in range(3):
                for j in range(3):
                    r, c = row + i - 1, column + j - 1
                    if 0 <= r < height and 0 <= c < width:
                        y[row, column] += x[r, c] @ kernel[i, j]
    return y


def slow_max_pool(x: np.ndarray) -> np.ndarray:
    """TensorFlow's SAME: the total padding is what the last window lacks, the smaller half of it before."""
    height, width, channels = x.shape
    y = np.zeros((-(-height // 2), -(-width // 2), channels))
    before = [max((out - 1) * 2 + 3 - size, 0) // 2 for out, size in zip(y.shape, x.shape, strict=False)][:2]
    for row in range(y.shape[0]):
        for column in range(y.shape[1]):
            top, left = 2 * row - before[0], 2 * column - before[1]
            window = x[max(top, 0) : top + 3, max(left, 0) : left + 3]
            y[row, column] = window.max(axis=(0, 1))
    return y


def slow_resnet(net: ResNet, image: np.ndarray) -> np.ndarray:
    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    x = image
    for section in net.sections:
        x = slow_max_pool(slow_conv(x, np.asarray(section.conv.kernel), np.asarray(section.conv.bias)))
        for block in section.residuals:
            y = slow_conv(relu(x), np.asarray(block.first.kernel), np.asarray(block.first.bias))
            x = x + slow_conv(relu(y), np.asarray(block.second.kernel), np.asarray(block.second.bias))
    return relu(relu(x).reshape(-1) @ np.asarray(net.linear.weight) + np.asarray(net.linear.bias))


def with_biases(net: ResNet) -> ResNet:
    """Biases start at zero, where a forgotten one would not show."""
    leaves, tree = jax.tree.flatten(net)
    keys = jax.random.split(jax.random.key(9), len(leaves))
    drawn = (0.1 * jax.random.normal(key, leaf.shape) if leaf.ndim == 1 else leaf for key, leaf in zip(keys, leaves, strict=True))
    return jax.tree.unflatten(tree, drawn)


@pytest.mark.parametrize("size", [(5, 6), (4, 7), (1, 1)])
def test_the_resnet_equals_the_slow_one(size: tuple[int, int]):
    net = with_biases(ResNet(size, channels=(2, 3), features=4, key=jax.random.key(0)))
    image = np.random.default_rng(0).normal(size=(*size, 3)).astype(np.float32)
    np.testing.assert_allclose(net(jnp.asarray(image)), slow_resnet(net, image), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("size", [(4, 4), (5, 7), (3, 2), (1, 1)])
def test_max_pool_halves_rounding_up_and_padding_never_wins(size: tuple[int, int]):
    x = -1 - np.random.default_rng(1).random((*size, 2)).astype(np.float32)  # all negative: zero padding would win
    np.testing.assert_array_equal(max_pool(jnp.asarray(x)), slow_max_pool(x))


def test_bytes_are_scaled_to_one():
    net = ResNet((6, 8), channels=(2,), features=4, key=jax.random.key(0))
    image = np.random.default_rng(2).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    np.testing.assert_allclose(net(jnp.asarray(image)), net(jnp.asarray(image / 255, jnp.float32)), atol=1e-6)


@pytest.mark.parametrize(("channels", "flat"), [(PAPER_CHANNELS, 9 * 12 * 128), (SMALL_CHANNELS, 9 * 12 * 32)])
def test_the_papers_image_leaves_nine_by_twelve(channels: tuple[int, ...], flat: int):
    net = jax.eval_shape(lambda: ResNet((72, 96), channels=channels, key=jax.random.key(0)))
    assert net.linear.weight.shape == (flat, 256)


def test_many_images_at_once_or_by_vmap():
    net = ResNet((6, 8), channels=(2,), features=4, key=jax.random.key(0))
    images = jax.random.uniform(jax.random.key(1), (3, 6, 8, 3))
    alone = np.stack([net(image) for image in images])
    np.testing.assert_allclose(jax.vmap(net)(images), alone, atol=1e-6)
    np.testing.assert_allclose(net(images), alone, atol=1e-6)
    np.testing.assert_allclose(net(images[None]), alone[None], atol=1e-6)


@pytest.mark.parametrize(
    ("size", "side", "padding"), [((5, 6), 3, 1), ((1, 1), 3, 1), ((2, 9), 3, 2), ((4, 3), 2, 1), ((3, 2), 1, 0)]
)
def test_our_gradient_of_a_convolution_is_the_one_that_jax_derives(size: tuple[int, int], side: int, padding: int):
    x_key, kernel_key, output_key = jax.random.split(jax.random.key(0), 3)
    x, kernel = jax.random.normal(x_key, (4, *size, 3)), jax.random.normal(kernel_key, (side, side, 3, 2))
    by_output = jax.random.normal(output_key, (4, *(each + 2 * padding - side + 1 for each in size), 2))

    def learned(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return convolve(x, kernel, padding)

    def plain(x: jax.Array, kernel: jax.Array) -> jax.Array:
        around = ((padding, padding), (padding, padding))
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), around, dimension_numbers=("NHWC", "HWIO", "NHWC"))

    ours, theirs = (jax.vjp(function, x, kernel)[1](by_output) for function in (learned, plain))
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shape", [(8, 6, 3), (6, 8, 4), (2, 6, 8), (6, 8, 1)])
def test_a_wrong_image_is_named(shape: tuple[int, ...]):
    net = ResNet((6, 8), channels=(2,), features=4, key=jax.random.key(0))
    with pytest.raises(AgentError, match=r"image must have shape \[6, 8, 3\].*got"):
        net(jnp.zeros(shape))


@pytest.mark.parametrize(("arguments", "words"), [
    ({"image_size": (0, 8)}, "image_size must be"),
    ({"image_size": (6, 8), "channels": ()}, "channels must name"),
    ({"image_size": (6, 8), "channels": (4, 0)}, "channels must name"),
])  # fmt: skip
def test_bad_sizes_are_named(arguments: dict, words: str):
    with pytest.raises(AgentError, match=words):
        ResNet(arguments.pop("image_size"), key=jax.random.key(0), **arguments)
