"""Before anything else is imported: the CPU, one thread for each worker, strict ranks, and shapes checked at every call."""

import importlib.metadata
import os
import signal
from collections.abc import Iterator
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
# xdist runs one worker for each core: XLA's own threads would only get in each other's way. Nearly all of the suite's time
# is XLA compiling tiny programs, and without the costly passes it takes half as long.
# The fusion emitters' flag is one of these versions': XLA does not start with a flag it does not know.
os.environ["XLA_FLAGS"] = " ".join(
    [
        os.environ.get("XLA_FLAGS", ""),
        "--xla_cpu_multi_thread_eigen=false",
        "--xla_backend_optimization_level=0",
        *["--xla_cpu_use_fusion_emitters=false"] * importlib.metadata.version("jaxlib").startswith(("0.8.", "0.9.", "0.10.")),
    ]
)

import hypothesis
import jax
import pytest
from jaxtyping import install_import_hook

# A shell has what it starts in the background ignore Ctrl-C, and processes hand that on. Some tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)
jax.config.update("jax_numpy_rank_promotion", "raise")
install_import_hook("gtrxl", "beartype.beartype")

hypothesis.settings.register_profile("gtrxl", deadline=None, derandomize=True, max_examples=25, print_blob=True)
hypothesis.settings.load_profile("gtrxl")

SLOW = (
    "test_examples", "test_ray", "test_check_core", "test_agreement", "test_hosts", "test_train", "test_sweeps", "test_conductor",
    "test_fleet", "test_contract", "test_jax_tasks",
)  # fmt: skip
"""The files that take longest. A file is one worker's, so these begin first and the short ones even out the end."""


MOST_MAPS = 20_000
"""Parts of memory that a worker may have mapped at the end of a file. Every compiled program takes several, Linux gives a process
65,530, and XLA's compiler ends the process when there are none left."""


@pytest.fixture(autouse=True, scope="module")
def _few_programs() -> Iterator[None]:
    """Forgets compiled programs when there are very many of them."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first; the order within a file stays."""
    rank = {name: place for place, name in enumerate(SLOW)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(SLOW)))
