"""Words to buckets to features."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gtrxl.networks import AgentError, Language, word_buckets
from gtrxl.networks.language import BUCKETS, MAX_WORDS, NO_WORD


def slow_crc32(data: bytes) -> int:
    """CRC-32 bit by bit, from its definition (ISO 3309, reflected polynomial 0xEDB88320)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_buckets_are_the_published_crc():
    # The check value of CRC-32 in every catalogue of CRC algorithms: "123456789" -> 0xCBF43926.
    assert slow_crc32(b"123456789") == 0xCBF43926
    assert word_buckets("123456789", 1).tolist() == [0xCBF43926 % 1000] == [262]


def test_every_word_has_its_bucket_whatever_its_case():
    text = "Pick the  RED  balloon\tplease Straße"
    expected = [slow_crc32(word.encode()) % BUCKETS for word in text.lower().split()]
    buckets = word_buckets(text)
    assert buckets.dtype == np.int32
    assert buckets.tolist() == expected + [NO_WORD] * (MAX_WORDS - len(expected))
    assert word_buckets(text.upper().replace("STRASSE", "STRAßE"))[:5].tolist() == expected[:5]


def test_buckets_do_not_depend_on_the_process():
    code = "from gtrxl.networks.language import word_buckets; print(word_buckets('red balloon').tolist())"
    environment = {**os.environ, "PYTHONHASHSEED": "12345", "JAX_PLATFORMS": "cpu"}
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert said.stdout.strip() == str(word_buckets("red balloon").tolist())


def test_a_long_instruction_keeps_its_first_words():
    words = [f"word{i}" for i in range(20)]
    assert word_buckets(" ".join(words), 4).tolist() == word_buckets(" ".join(words[:4]), 4).tolist()


def test_padding_has_no_influence():
    language = Language(key=jax.random.key(0))
    short, long = (language(jnp.asarray(word_buckets("go to the red balloon", n))) for n in (5, 16))
    np.testing.assert_allclose(short, long, atol=1e-6)
    assert short.shape == (64,)
    # What an id below zero is, and what embedding it would pick, makes no difference either.
    other = np.where(word_buckets("go to the red balloon") == NO_WORD, -7, word_buckets("go to the red balloon"))
    np.testing.assert_array_equal(language(jnp.asarray(other)), long)
    gradient = jax.grad(lambda language: jnp.sum(language(jnp.asarray(word_buckets("red")))), allow_int=True)(language)
    touched = np.flatnonzero(np.any(np.asarray(gradient.embedding) != 0, axis=1))
    assert touched.tolist() == [word_buckets("red", 1)[0]]


def test_word_order_matters_and_nothing_said_is_zero():
    language = Language(key=jax.random.key(0))
    one, other = (language(jnp.asarray(word_buckets(text))) for text in ("red then blue", "blue then red"))
    assert np.max(np.abs(one - other)) > 1e-3
    np.testing.assert_array_equal(language(jnp.asarray(word_buckets("  "))), np.zeros(64))


def test_bad_instructions_are_named():
    with pytest.raises(AgentError, match="max_words must be at least 1, got 0"):
        word_buckets("red", 0)
    with pytest.raises(AgentError, match=r"buckets must have shape \[W\].*got \[0\]"):
        Language(key=jax.random.key(0))(jnp.zeros((0,), jnp.int32))
