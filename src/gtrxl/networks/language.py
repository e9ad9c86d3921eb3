"""What the agent is told: words -> stable buckets -> embedding -> LSTM. W words, E embedding width, F features.

Splitting text is done on the host, once per instruction. What the compiled agent sees is a fixed number of bucket ids.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from gtrxl.cores import LSTM
from gtrxl.networks.errors import AgentError
from gtrxl.tasks.words import BUCKETS, NO_WORD, buckets_of

__all__ = ["BUCKETS", "MAX_WORDS", "NO_WORD", "Language", "word_buckets"]

MAX_WORDS = 16


def word_buckets(text: str, max_words: int = MAX_WORDS) -> np.ndarray:
    """The instruction as `[max_words]` int32: a bucket for each lower-cased word, then `NO_WORD`. A word that levels are known to
    use has one of its own, another that of its CRC-32 modulo 1000.

    Words are what white space separates; those past `max_words` are dropped.

    >>> word_buckets("Red balloon", max_words=4).tolist()
    [455, 472, -1, -1]
    """
    if max_words < 1:
        raise AgentError(f"max_words must be at least 1, got {max_words}; {MAX_WORDS} holds DMLab-30's instructions")
    return buckets_of(text, words=max_words)


class Language(eqx.Module):
    """Bucket ids `[W]` -> `[F]`: the LSTM's output at the last word, and zeros when nothing was said."""

    embedding: Float[Array, "buckets E"]
    lstm: LSTM
    output_size: int = eqx.field(static=True)

    def __init__(self, *, features: int = 64, embedding: int = 20, key: PRNGKeyArray):
        embedding_key, lstm_key = jax.random.split(key)
        self.embedding = jax.random.normal(embedding_key, (BUCKETS, embedding), jnp.float32)
        self.lstm = LSTM(embedding, d_model=features, key=lstm_key)  # pyright: ignore[reportCallIssue]
        self.output_size = features

    def __call__(self, buckets: Int[Array, " W"]) -> Float[Array, " F"]:
        """One instruction -> its features. Ids below zero are no words and stand at the end."""
        if buckets.ndim != 1 or buckets.shape[0] == 0:
            raise AgentError(
                f"buckets must have shape [W], the ids of one instruction, got {list(buckets.shape)}; "
                "gtrxl.networks.word_buckets(text) makes them"
            )
        words = jnp.sum(buckets >= 0)
        embedded = self.embedding[jnp.maximum(buckets, 0)]
        # The LSTM runs over the padding too, which keeps shapes fixed; its output there is never read.
        outputs, _ = self.lstm.unroll(embedded, self.lstm.initial_state(), resets=jnp.zeros(buckets.shape, bool))
        return jnp.where(words > 0, outputs[jnp.maximum(words - 1, 0)], 0.0)
