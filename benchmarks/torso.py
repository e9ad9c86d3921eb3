"""How fast do pictures go through the ResNet, beside the same ResNet in PyTorch, and beside what this machine can multiply?

    python benchmarks/pixels.py --part torso --out docs/data/torso.json

Forward, and forward with the gradient of the weights, from bytes to features. Contenders run in turn (`race.py`): ours through
the native library, ours through XLA, and PyTorch on one thread or all, whichever is faster. Operations are those of the
convolutions and the linear layer as they are defined, two for each multiplication, without what is computed twice.
"""

import dataclasses
import json
import math
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.networks.vision import ResNet
from gtrxl.runs.config import CHANNELS
from limits import MATRICES, machine, matmul, pin, torch_limits
from race import Contender, Progress, Rules, race
from torso_page import OURS, PARTS, TORCH, XLA, page

SIZES = ((24, 32), (36, 48), (72, 96))
FEATURES = 256


@dataclasses.dataclass(frozen=True)
class Case:
    """One ResNet: its preset of channels, its picture's size, and how many pictures go through at once."""

    channels: str
    size: tuple[int, int]
    pictures: int

    @property
    def operations(self) -> dict[str, float]:
        """Of one picture, by part. The picture's own gradient is not needed."""
        (height, width), before, forward, first = self.size, 3, 0, 0
        for channels in CHANNELS[self.channels]:
            forward += 18 * height * width * before * channels
            first = first or forward
            height, width = math.ceil(height / 2), math.ceil(width / 2)
            forward += 4 * 18 * height * width * channels * channels
            before = channels
        forward += 2 * height * width * before * FEATURES
        return {"forward": forward, "learning": 3 * forward - first}


def cases() -> list[Case]:
    """Batches of as many pixels as 512 of the smallest pictures have, fewer with the paper's channels."""
    pixels = 512 * math.prod(SIZES[0])
    return [Case(name, size, pixels // math.prod(size) // (8 if name == "paper" else 1)) for name in CHANNELS for size in SIZES]


def ours(case: Case, name: str) -> dict[str, Contender]:
    """Both parts, through the library or not."""
    net = ResNet(case.size, channels=CHANNELS[case.channels], features=FEATURES, key=jax.random.key(0))
    images = jnp.asarray(np.random.default_rng(0).integers(0, 256, (case.pictures, *case.size, 3), np.uint8))

    def score(net: ResNet) -> Any:
        return jnp.sum(jnp.square(net(images)))

    native = ResNet.native
    try:
        if name == XLA:
            ResNet.native = lambda self, dtype: False
        elif not net.native(jnp.uint8):
            return {}
        made = {
            "forward": jax.jit(lambda net: net(images)).lower(net).compile(),
            "learning": jax.jit(jax.grad(score)).lower(net).compile(),
        }
    finally:
        ResNet.native = native
    return {
        part: Contender(name, lambda program=program: jax.block_until_ready(program(net)), work=case.pictures)
        for part, program in made.items()
    }


def measured(*, threads: int, rules: Rules, torch: Any | None) -> dict[str, Any]:
    """All rows, and what they must be read with."""
    progress = Progress()
    about = machine(threads, torch=torch)
    products = [matmul(n) for n in MATRICES]
    if torch is not None:
        torch.set_num_threads(threads)
        products += torch_limits(torch)[0]
    rows = []
    peak = max(race(products, rules=rules, label="limits", progress=progress), key=lambda result: result.rate)
    for case in cases():
        entered = [ours(case, OURS), ours(case, XLA)]
        if torch is not None:
            from contenders import torch_resnet

            channels = CHANNELS[case.channels]
            entered.append(torch_resnet.contenders(TORCH, case.size, channels, features=FEATURES, pictures=case.pictures))
        for part in PARTS:
            field = [peak.contender, *(each[part] for each in entered if each)]
            # The limit again in the same rounds: the machine's speed drifts.
            limit, *results = race(field, rules=rules, label=f"{case.channels} {case.size} {part}", progress=progress)
            for result in results:
                useful = case.operations[part] * result.rate
                rows.append({
                    "part": part, "channels": case.channels, "size": list(case.size), "pictures": case.pictures,
                    "name": result.contender.name, "threads": result.contender.threads(),
                    "rate": result.rate, "rates": list(result.rates),
                    "useful_flops_per_second": useful, "share_of_matmul_peak": useful / max(peak.rate, limit.rate),
                    "peak_beside": limit.rate,
                })  # fmt: skip
    return {
        "command": "python benchmarks/pixels.py --part torso",
        "machine": about,
        "peak": {"name": peak.contender.name, "rate": peak.rate, "rates": list(peak.rates)},
        "rows": rows,
    }


def run(*, repeats: int, out: Path | None) -> None:
    """Measures on two processors, prints the tables, and writes the rows."""
    threads = pin(2)
    torch = _torch()
    if torch is None:
        print("PyTorch is missing and left out; pip install torch brings it", file=sys.stderr)
    rules = Rules(rounds=repeats, sample=0.1, budget=20.0)
    data = measured(threads=threads, rules=rules, torch=torch)
    print(page(data))
    if out is not None:
        out.write_text(json.dumps(data, indent=1) + "\n")


def _torch() -> Any | None:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # its threads would go on turning while others are measured
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch
    except ImportError:
        return None
    return torch
