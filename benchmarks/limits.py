"""What this machine can do at the most: multiply matrices, read memory. Measured in the run they are compared with."""

import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from gtrxl.cores import kernels
from race import Contender, Progress, Rules, race

MATRICES = (1024, 2048, 4096)
READ_BYTES = 2**30
"""Read in one go to measure bandwidth: well beyond any cache."""
ROW = 2048


def pin(threads: int) -> int:
    """Keeps this process to so many processors, so that XLA and torch get as many threads, and lets JAX have a device for each;
    returns how many there are."""
    available = sorted(os.sched_getaffinity(0))[:threads]
    os.sched_setaffinity(0, available)
    jax.config.update("jax_num_cpu_devices", len(available))
    return len(available)


def matmul(n: int) -> Contender:
    """A float32 product of two n x n matrices in JAX."""
    a = jax.random.normal(jax.random.key(0), (n, n))
    multiply = jax.jit(lambda a, b: a @ b)
    return Contender(f"jnp {n} x {n}", lambda: multiply(a, a).block_until_ready(), work=2.0 * n**3)


def read() -> list[Contender]:
    """A sum over a large array in JAX, in several forms, a product with a vector among them: whichever compiles best counts."""
    x = jnp.ones((READ_BYTES // 4,), jnp.float32)
    forms: dict[str, Callable[[Any], Any]] = {
        "jnp matrix by vector": lambda x: x.reshape(-1, ROW) @ jnp.ones((ROW,)),
        "jnp sum": jnp.sum,
        "jnp sums of 2 halves": lambda x: x.reshape(2, -1).sum(axis=1),
        "jnp row sums": lambda x: x.reshape(-1, 65536).sum(axis=1),
    }

    def contender(name: str, form: Callable[[Any], Any]) -> Contender:
        compiled = jax.jit(form)
        return Contender(name, lambda: compiled(x).block_until_ready(), work=float(READ_BYTES))

    return [contender(name, form) for name, form in forms.items()]


def torch_limits(torch: Any) -> tuple[list[Contender], list[Contender]]:
    """The same in torch: products, and a sum. For comparison; shares are of what JAX reached."""

    def product(n: int) -> Contender:
        a = torch.randn(n, n)
        return Contender(f"torch {n} x {n}", lambda: a @ a, work=2.0 * n**3)

    x = torch.ones(READ_BYTES // 4)
    return [product(n) for n in MATRICES], [Contender("torch sum", lambda: x.sum(), work=float(READ_BYTES))]


class Limits:
    """The best medians of several forms, and the form that reached each, to be raced again beside what it bounds."""

    def __init__(self, *, rules: Rules, torch: Any | None, progress: Progress) -> None:
        products, reads = [matmul(n) for n in MATRICES], read()
        torch_products, torch_reads = torch_limits(torch) if torch else ([], [])
        results = race([*products, *reads, *torch_products, *torch_reads], rules=rules, label="limits", progress=progress)
        self.rates = {result.contender.name: result.rates for result in results}
        medians = {result.contender.name: result.rate for result in results}
        self.matmul = max(products, key=lambda contender: medians[contender.name])
        self.read = max(reads, key=lambda contender: medians[contender.name])
        self.matmul_peak = medians[self.matmul.name]
        self.bandwidth = medians[self.read.name]
        self.torch_matmul_peak = max((medians[contender.name] for contender in torch_products), default=None)


def machine(threads: int, *, torch: Any | None) -> dict[str, Any]:
    """What a number must carry: processor, threads, versions, the commit."""
    names = ("gtrxl", "jax", "jaxlib", "equinox", "numpy", "torch", "ray", "memorax", "flax", "di-engine")
    return {
        "processor": _processor(),
        "processors": os.cpu_count(),
        "threads": threads,
        "torch_threads": torch.get_num_threads() if torch else None,
        "omp_wait_policy": os.environ.get("OMP_WAIT_POLICY"),
        "glibc_tunables": os.environ.get("GLIBC_TUNABLES"),
        "native_library": kernels.available(),
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: version for name in names if (version := _version(name))},
        "commit": _commit(),
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=here, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "HEAD") + (", with changes" if git("status", "--porcelain") else "")
    except (OSError, subprocess.CalledProcessError):
        return None
