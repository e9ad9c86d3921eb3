"""One convolution for all networks here, with a gradient that is fast inside of a compiled loop, on CPUs too.

N images, H height, W width, C channels, K side of the kernel. Layout is [N, H, W, C], kernels are [K, K, C_in, C_out].
"""

import functools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LAYOUT = ("NHWC", "HWIO", "NHWC")


def convolve(
    x: Float[Array, "N H W C_in"], kernel: Float[Array, "K K C_in C_out"], padding: int = 1
) -> Float[Array, "N H_out W_out C_out"]:
    """A convolution of stride 1, with so many zeros around each image: H becomes H + 2 padding - K + 1."""
    return _convolve(x, kernel, padding)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def _convolve(x: Array, kernel: Array, padding: int) -> Array:
    around = (padding, padding)
    return jax.lax.conv_general_dilated(x, kernel, (1, 1), (around, around), dimension_numbers=LAYOUT)


def _forward(x: Array, kernel: Array, padding: int) -> tuple[Array, tuple[Array, Array]]:
    return _convolve(x, kernel, padding), (x, kernel)


def _backward(padding: int, kept: tuple[Array, Array], by_output: Array) -> tuple[Array, Array]:
    x, kernel = kept
    mirrored = jnp.transpose(kernel[::-1, ::-1], (0, 1, 3, 2))
    by_kernel = jax.lax.platform_dependent(
        x,
        by_output,
        cpu=functools.partial(_by_kernel_products, padding=padding, size=len(kernel)),
        default=functools.partial(_by_kernel, padding=padding, size=len(kernel)),
    )
    return _convolve(by_output, mirrored, len(kernel) - 1 - padding), by_kernel


def _by_kernel_products(
    x: Float[Array, "N H W C_in"], by_output: Float[Array, "N H_out W_out C_out"], *, padding: int, size: int
) -> Float[Array, "K K C_in C_out"]:
    """One flat matrix product for each place of the kernel. The convolution that JAX derives is thirty times slower on a CPU
    wherever it stands inside of a loop (docs/log.md)."""
    (high, wide), channels = by_output.shape[1:3], x.shape[-1]
    padded = jnp.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    flat = by_output.reshape(-1, by_output.shape[-1])

    def at(i: int, j: int) -> Array:
        return padded[:, i : i + high, j : j + wide].reshape(-1, channels).T @ flat

    return jnp.stack([jnp.stack([at(i, j) for j in range(size)]) for i in range(size)])


def _by_kernel(
    x: Float[Array, "N H W C_in"], by_output: Float[Array, "N H_out W_out C_out"], *, padding: int, size: int
) -> Float[Array, "K K C_in C_out"]:
    """As JAX derives it."""
    around = (padding, padding)

    def plain(kernel: Array) -> Array:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), (around, around), dimension_numbers=LAYOUT)

    nothing = jnp.zeros((size, size, x.shape[-1], by_output.shape[-1]), x.dtype)
    return jax.vjp(plain, nothing)[1](by_output)[0]


_convolve.defvjp(_forward, _backward)
