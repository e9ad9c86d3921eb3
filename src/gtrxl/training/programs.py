"""Compiled programs that outlive their process: JAX keeps what it compiles in a folder, and looks there first."""

from pathlib import Path

import jax

from gtrxl import machine

MOST_BYTES = 2 * 10**9
"""What the folder may take; the programs that were not used for longest go first."""
WORTH_KEEPING = 0.3
"""Seconds that compiling must have taken."""


def keep(folder: Path | None = None, *, worth: float = WORTH_KEEPING) -> None:
    """Keeps programs in this folder, or in the user's cache; where JAX was told of another one, that stays."""
    if jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    # Code that was compiled for one processor may not run on another, and folders are shared.
    home = (machine.cache_folder() / "programs" if folder is None else folder) / machine.kind()
    jax.config.update("jax_compilation_cache_dir", str(home))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", worth)
    if folder is None:
        jax.config.update("jax_compilation_cache_max_size", MOST_BYTES)
