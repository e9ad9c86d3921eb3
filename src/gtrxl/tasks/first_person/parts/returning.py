"""Things that are taken and come back after a while, each after a time of its own.

N things.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

NEVER = 1 << 24
"""Steps of what does not come back: longer than any episode."""


class Returning(eqx.Module):
    """When things come back."""

    period: Int[Array, "*s N"]
    """Steps that each is gone for when it is taken; `NEVER` of what does not come back."""
    left: Int[Array, "*s N"]
    """Steps until it is back; 0 of what is there."""

    @classmethod
    def all_there(cls, period: Int[Array, " N"]) -> "Returning":
        """None has been taken yet."""
        return cls(period=period.astype(jnp.int32), left=jnp.zeros(period.shape, jnp.int32))

    @property
    def there(self) -> Bool[Array, "*s N"]:
        """What can be taken."""
        return self.left == 0

    def step(self, taken: Bool[Array, " N"]) -> "Returning":
        """One step later: these have been taken in it."""
        return Returning(period=self.period, left=jnp.where(taken & self.there, self.period, jnp.maximum(self.left - 1, 0)))
