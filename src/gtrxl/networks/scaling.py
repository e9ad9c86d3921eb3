"""How large first weights are: what passes through a layer keeps its size, whatever the depth."""

import math

import equinox as eqx

from gtrxl.cores.layers import Linear

PLAIN, TANH, RELU = math.sqrt(3), 5 / 3 * math.sqrt(3), math.sqrt(6)
"""What first weights, of variance 1 / (3 fan_in), are multiplied by: for unit inputs, before a tanh, and after a ReLU."""


def scaled(linear: Linear, by: float) -> Linear:
    """The layer with its weights multiplied."""
    return eqx.tree_at(lambda of: of.weight, linear, by * linear.weight)
