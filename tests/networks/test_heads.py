"""The heads: shapes, the deconvolution against a slow one, and the dueling identity."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gtrxl.networks import MLP, AgentError, PixelControl, dueling
from gtrxl.networks.heads import Deconv


@settings(max_examples=12, deadline=None)
@given(height=st.integers(1, 4), width=st.integers(1, 4), shape=st.sampled_from([(3, 1), (4, 2), (2, 2), (1, 1)]))
def test_deconv_spreads_every_input_over_its_window(height: int, width: int, shape: tuple[int, int]):
    size, stride = shape
    deconv = Deconv(2, 3, size=size, stride=stride, key=jax.random.key(0))
    x = np.random.default_rng(0).normal(size=(height, width, 2)).astype(np.float32)
    slow = np.zeros(((height - 1) * stride + size, (width - 1) * stride + size, 3))
    # lax.conv_transpose correlates rather than convolves: the kernel stands mirrored against the window it writes.
    kernel = np.asarray(deconv.kernel)[::-1, ::-1]
    for row in range(height):
        for column in range(width):
            for i in range(size):
                for j in range(size):
                    slow[row * stride + i, column * stride + j] += x[row, column] @ kernel[i, j]
    np.testing.assert_allclose(deconv(jnp.asarray(x)), slow, atol=1e-5)
    np.testing.assert_allclose(deconv(jnp.asarray(x)[None, None])[0, 0], slow, atol=1e-5)


def test_pixel_control_covers_the_papers_image():
    head = PixelControl(16, 15, key=jax.random.key(0))
    assert head.linear.weight.shape == (16, 1728)
    q = head(jax.random.normal(jax.random.key(1), (16,)))
    assert q.shape == (18, 24, 15)


def test_dueling_leaves_the_value_as_the_mean():
    advantages_key, value_key = jax.random.split(jax.random.key(0))
    advantages, value = jax.random.normal(advantages_key, (4, 5, 3)), jax.random.normal(value_key, (4, 5, 1))
    q = dueling(advantages=advantages, value=value)
    np.testing.assert_allclose(jnp.mean(q, axis=-1), value[..., 0], atol=1e-6)
    np.testing.assert_allclose(jnp.mean(q - value, axis=-1), np.zeros((4, 5)), atol=1e-6)
    np.testing.assert_allclose(q[..., 1] - q[..., 0], advantages[..., 1] - advantages[..., 0], atol=1e-6)


@pytest.mark.parametrize("cells", [(6, 24), (18, 25), (7, 7)])
def test_cells_that_no_deconvolution_reaches_are_named(cells: tuple[int, int]):
    with pytest.raises(AgentError, match="cells must be even and at least 8"):
        PixelControl(16, 4, cells=cells, key=jax.random.key(0))


def test_the_mlp_is_linear_relu_linear():
    head = MLP(5, 3, key=jax.random.key(0))
    x = np.random.default_rng(0).normal(size=5).astype(np.float32)
    hidden = np.maximum(x @ np.asarray(head.hidden.weight) + np.asarray(head.hidden.bias), 0)
    assert hidden.shape == (256,)
    np.testing.assert_allclose(head(jnp.asarray(x)), hidden @ np.asarray(head.output.weight), atol=1e-5)
