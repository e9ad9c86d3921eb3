"""Cores of JAX and their twins, and what is needed to compare them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.utils import _pytree as pytree

import gtrxl
import gtrxl.torch
from tests.cores.building import random_core, small_sizes

torch.set_num_threads(1)

AGREEMENT = 2e-5
"""Float32: how far apart the two may lie, relative to the largest number. Measured: below 3e-6."""


def pair(name, **changes):
    """A core whose every weight is random, and its twin."""
    core = random_core(name, **{**small_sizes(name), **changes})
    return core, gtrxl.torch.from_jax(core)


def tensors(*arrays):
    return [torch.from_numpy(np.array(array)) for array in arrays]


def assert_close(ours, theirs, tolerance=AGREEMENT):
    """A tensor and an array, equal up to `tolerance` times the largest number."""
    ours, theirs = ours.detach().double().numpy(), np.asarray(theirs, np.float64)
    assert ours.shape == theirs.shape
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=tolerance * max(np.abs(theirs).max(initial=0), 1e-6))


def assert_states_close(ours, theirs, tolerance=AGREEMENT):
    for part, other in zip(pytree.tree_leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert_close(part, other, tolerance)


def named(core):
    """A core's arrays by the names under which `gtrxl export` writes them, without the agent around it."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(core)
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves if hasattr(leaf, "shape")}


@eqx.filter_jit
def jax_unroll(core, xs, state, resets):
    return gtrxl.Streams(core, xs.shape[0]).unroll(xs, state, resets=resets)


@eqx.filter_jit
def jax_gradients(core, xs, state, resets, wish):
    """Outputs, the state after them, and the gradients of a weighted sum of outputs by the weights and by the inputs."""

    def loss(learned):
        core, xs = learned
        ys, after = gtrxl.Streams(core, xs.shape[0]).unroll(xs, state, resets=resets)
        return jnp.sum(ys * wish), (ys, after)

    (by_core, by_xs), (ys, after) = eqx.filter_grad(loss, has_aux=True)((core, xs))
    return ys, after, named(by_core), by_xs


def torch_gradients(twin, xs, state, resets, wish):
    """The same of the twin."""
    twin.zero_grad()
    xs = xs.clone().requires_grad_()
    ys, after = twin.unroll(xs, state, resets=resets)
    (ys * wish).sum().backward()
    grad = lambda tensor: torch.zeros_like(tensor) if tensor.grad is None else tensor.grad  # noqa: E731
    return ys, after, {name: grad(parameter) for name, parameter in twin.named_parameters()}, grad(xs)


def steps(twin, xs, state, resets):
    """One by one; takes plain and prepared states."""
    ys = []
    for x, reset in zip(xs.unbind(1), resets.unbind(1), strict=True):
        y, state = twin.step(x, state, reset=reset)
        ys.append(y)
    return torch.stack(ys, dim=1), state
