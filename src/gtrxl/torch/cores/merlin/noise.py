"""The noise that JAX draws, in PyTorch: `jax.random.normal` of Threefry-2x32 keys, from whole numbers and a polynomial.

Words of 32 bits are kept in int64, and shifted by multiplying and dividing: ONNX has no shift of signed numbers. The sequence of
rounds is that of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011, to which JAX keeps; the inverse of the error
function is the polynomial of Giles, "Approximating the erfinv function", 2010, which XLA has too. N numbers of each draw.
"""

import math
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

WORD = 2**32
PARITY = 0x1BD11BDA
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
CENTRE = (
    1.50140941, 0.246640727, -0.00417768164, -0.00125372503, 0.00021858087, -4.39150654e-06, -3.5233877e-06, 3.43273939e-07,
    2.81022636e-08,
)  # fmt: skip
TAIL = (
    2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773, -0.00367342844, 0.00134934322, 0.000100950558,
    -0.000200214257,
)  # fmt: skip
"""Coefficients of Giles, the constant first."""
LOWEST = float(np.nextafter(np.float32(-1), np.float32(0)))

Key = tuple[Any, Any]
"""Two words: whole numbers or tensors of them."""


def threefry(key: Key, high: Any, low: Any) -> Key:
    """Two words, enciphered."""
    words = (*key, key[0] ^ key[1] ^ PARITY)
    a, b = (high + words[0]) % WORD, (low + words[1]) % WORD
    for number in range(5):
        for rotation in ROTATIONS[number % 2]:
            a = (a + b) % WORD
            b = (b * 2**rotation) % WORD + b // 2 ** (32 - rotation)
            b = a ^ b
        a = (a + words[(number + 1) % 3]) % WORD
        b = (b + words[(number + 2) % 3] + number + 1) % WORD
    return a, b


def fold_in(key: Key, number: Any) -> Key:
    """`jax.random.fold_in`."""
    return threefry(key, number * 0, number)


def normal(key: Key, size: int) -> Float[Tensor, "*n N"]:
    """`jax.random.normal` of each of many keys."""
    first, second = (word[..., None] for word in key)
    places = torch.arange(size, device=first.device)
    high, low = threefry((first, second), torch.zeros_like(places), places)
    share = ((high ^ low) // 2**9).float() * 2.0**-23  # the upper bits, as a number in [0, 1)
    return math.sqrt(2) * _erfinv((share * (1 - LOWEST) + LOWEST).clamp(min=LOWEST))


def fingerprint(bias: Float[Tensor, " N"]) -> Int[Tensor, ""]:
    """A word that follows from the bits of some weights."""
    bits = bias.detach().float().view(torch.int32).long() % WORD
    odd = 2 * torch.arange(len(bits), device=bits.device) + 1
    return (bits * ((odd * 0x9E3779B1) % WORD)).sum() % WORD  # beyond 64 bits it goes round, which leaves the lower 32 right


def _erfinv(x: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    w = -torch.log1p(-x * x)
    return torch.where(w < 5, _polynomial(CENTRE, w - 2.5), _polynomial(TAIL, w.sqrt() - 3)) * x


def _polynomial(coefficients: tuple[float, ...], w: Float[Tensor, "*n"]) -> Float[Tensor, "*n"]:
    found = torch.full_like(w, coefficients[-1])
    for each in reversed(coefficients[:-1]):
        found = found * w + each
    return found
