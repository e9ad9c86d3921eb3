"""Where a remembered step lies, as the attention sees it: sinusoids of its distance. M memory length, D width."""

import jax.numpy as jnp
from jaxtyping import Array, Float

LONGEST_WAVE = 10_000.0


def sinusoids(distances: Float[Array, " N"], *, size: int) -> Float[Array, "N D"]:
    """Phi, the position code of each distance: sines, then cosines, of D/2 wavelengths. Distance 0 is the step itself."""
    frequencies = LONGEST_WAVE ** (-jnp.arange(0, size, 2, dtype=jnp.float32) / size)
    angles = distances[:, None] * frequencies[None, :]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def window_code(memory: int, *, size: int) -> Float[Array, "P D"]:
    """Phi for every distance in the window, nearest first: 0 (the step itself) to `memory`. P = M + 1."""
    return sinusoids(jnp.arange(memory + 1, dtype=jnp.float32), size=size)
