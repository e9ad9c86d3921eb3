"""Tasks of other people that are written in JAX and compile together with the agent: gymnax, navix, craftax."""

from gtrxl.gym.jax_tasks.task import JaxTask, from_gymnax, is_jax

__all__ = ["JaxTask", "from_gymnax", "is_jax"]
