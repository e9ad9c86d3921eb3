"""Whether the library still computes what vision.py says: both forms of a small ResNet, side by side, once."""

import sys
import threading
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.cores.kernels import comparison
from gtrxl.networks import convolution
from gtrxl.networks.kernels import torso
from gtrxl.networks.kernels.torso import TORSO

PICTURES, SIZE, CHANNELS = 3, (5, 6), (3, 4)

_forced = threading.local()
_found: list[bool] = []
_finding = threading.Lock()


def holds(make: Callable[..., Any]) -> bool:
    """Whether both forms agree. `make(size, channels=..., features=..., key=...)` is a ResNet."""
    forced = getattr(_forced, "native", None)
    if forced is not None:  # while they are being compared
        return forced
    with _finding:
        if not _found:
            note = comparison.note(TORSO, [convolution, torso, sys.modules[make.__module__]])
            _found.append(comparison.agree("a ResNet", lambda: _compare(make), note=note))
    return _found[0]


def _compare(make: Callable[..., Any]) -> float:
    """The largest deviation between both forms: features of pictures, and the gradient of every weight."""
    random = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(lambda key: make(SIZE, channels=CHANNELS, features=4, key=key), jax.random.key(0))
    net = jax.tree.map(lambda leaf: jnp.asarray(0.4 * random.standard_normal(leaf.shape), jnp.float32), shapes)
    pictures = jnp.asarray(random.integers(0, 256, (PICTURES, *SIZE, 3), np.uint8))

    def learn(net: Any, pictures: jax.Array) -> Any:
        def score(net: Any) -> Any:
            features = net(pictures)
            return jnp.sum(jnp.square(features)), features

        return jax.grad(score, has_aux=True)(net)

    forms = []
    for native in (True, False):
        _forced.native = native
        program = jax.jit(lambda net, pictures: learn(net, pictures), compiler_options=comparison.QUICKLY)
        forms.append(jax.device_get(program(net, pictures)))
    return comparison.deviation(*forms)
