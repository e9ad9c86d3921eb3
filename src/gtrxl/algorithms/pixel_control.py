"""Pixel control (Jaderberg et al. 2017): to learn how much every action changes each part of the picture, along with the task.

B streams, T steps, H height and W width of the picture in pixels, C colours, h x w cells, A actions. Steps are as in `returns`:
an episode's last observation is a step that is not valid, and the step after it begins a new one.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, UInt8

from gtrxl.algorithms.errors import LearnerError
from gtrxl.algorithms.returns import returns

CELL = 4
"""Pixels along one side of a cell."""
DISCOUNT = 0.9


def rewards(
    image_t: UInt8[Array, "*n H W C"], image_tp1: UInt8[Array, "*n H W C"], *, cell: int = CELL
) -> Float[Array, "*n h w"]:
    """The mean absolute change of a cell's pixels and colours from one picture to the next, where black to white is 1."""
    *leading, height, width, colours = image_t.shape
    if height % cell or width % cell:
        raise LearnerError(f"a picture must be whole cells of {cell} x {cell} pixels, got {height} x {width}; change its size")
    # Whole numbers: exact, and a quarter of the memory.
    change = jnp.maximum(image_t, image_tp1) - jnp.minimum(image_t, image_tp1)
    cells = change.reshape(*leading, height // cell, cell, width // cell, cell, colours)
    return jnp.sum(cells, axis=(-4, -2, -1), dtype=jnp.int32).astype(jnp.float32) / (255 * cell * cell * colours)


def targets(
    *,
    reward: Float[Array, "B T h w"],
    best: Float[Array, "B T+1 h w"],
    terminated: Bool[Array, "B T"],
    valid: Bool[Array, "B T"],
    discount: float = DISCOUNT,
) -> Float[Array, "B T h w"]:
    """n-step returns of every cell to the end of the unroll or of the episode; `best` is the value of the best action, which the
    last observation goes on with. Nothing crosses from one episode to the next. No gradient."""
    like = (*reward.shape[:2], 1, 1)
    going = jnp.broadcast_to(jnp.where(terminated, 0.0, discount).reshape(like), reward.shape)
    counts = jnp.broadcast_to(valid.reshape(like), reward.shape)
    last = lambda x: jnp.moveaxis(x, 1, -1)  # noqa: E731  (time last, as in `returns`)
    found = returns(reward=last(reward), discount=last(going), value=last(best), valid=last(counts))
    return jax.lax.stop_gradient(jnp.moveaxis(found, -1, 1))


def errors(
    *,
    action: Int[Array, "B T"],
    q: Float[Array, "B T+1 h w A"],
    images: UInt8[Array, "B T+1 H W C"],
    terminated: Bool[Array, "B T"],
    valid: Bool[Array, "B T"],
    cell: int = CELL,
    discount: float = DISCOUNT,
) -> Float[Array, "B T"]:
    """Half the squared error of the action taken, summed over the cells: the loss of every step, whose mean over the steps that
    count is what the paper's cost multiplies. Zero at steps that do not count."""
    reward = rewards(images[:, :-1], images[:, 1:], cell=cell)
    target = targets(reward=reward, best=jnp.max(q, axis=-1), terminated=terminated, valid=valid, discount=discount)
    taken = jnp.take_along_axis(q[:, :-1], action[:, :, None, None, None], axis=-1)[..., 0]
    return jnp.where(valid, 0.5 * jnp.sum(jnp.square(taken - target), axis=(-2, -1)), 0.0)
