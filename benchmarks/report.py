"""How long `gtrxl report` takes on many long runs, in a process of its own:

python benchmarks/report.py --runs 1000 --points 1000

Makes up runs of the ablation (learning curves and parameters) and of the sensitivity figure (ranks, divergence, draws),
shared out evenly, with a point of the curve for each row of a run. Nothing of JAX may be imported while they are drawn.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from gtrxl.experiments.models import ABLATION, SENSITIVITY, Model

MOST_SECONDS, MOST_BYTES = 10.0, 10_000_000
"""Where the page is too slow to be asked for often, or too large to be sent around."""

PROGRAM = """
import json, resource, sys, time
began = time.perf_counter()
from gtrxl.cli.main import main
wrong = main(["report", sys.argv[1]])
took = time.perf_counter() - began
heavy = sorted({name.partition(".")[0] for name in sys.modules} & {"jax", "jaxlib", "equinox", "optax", "torch"})
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"seconds": took, "cpu": time.process_time(), "heavy": heavy, "peak": peak}))
sys.exit(wrong)
"""
"""`gtrxl report`, and what it took."""


def main() -> int:
    """Makes, times, prints; 1 if the report is too slow, too large, or needs JAX."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1000)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        size = sum(_write(Path(home), runs, wanted.runs // 2, wanted.points) for runs in ("gates", "sensitivity"))
        print(f"{2 * (wanted.runs // 2):,} runs of {wanted.points:,} points: {size / 1e6:.1f} MB of rows")
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", PROGRAM, home], capture_output=True, text=True, timeout=600, check=True)
        whole = time.perf_counter() - began
        seen = json.loads(done.stdout.splitlines()[-1])
        page = (Path(home) / "report.html").stat().st_size
        beside = sum(file.stat().st_size for file in (Path(home) / "report").glob("*.csv"))
    print(
        f"{seen['cpu']:.1f} s of one processor; {seen['seconds']:.1f} s by the clock, {whole:.1f} with starting Python; "
        f"{seen['peak'] / 1024:.0f} MB at most"
    )
    print(f"page {page / 1e6:.2f} MB, CSV {beside / 1e6:.1f} MB; of JAX and the like imported: {seen['heavy'] or 'nothing'}")
    return int(seen["cpu"] > MOST_SECONDS or page > MOST_BYTES or bool(seen["heavy"]))


def _write(home: Path, runs: str, count: int, points: int) -> int:
    models = {"gates": ABLATION, "sensitivity": SENSITIVITY}[runs]
    file = home / runs / "laptop" / "rows.jsonl"
    file.parent.mkdir(parents=True)
    generator = np.random.default_rng(0)
    with file.open("w") as stream:
        for number in range(count):
            draw, place = divmod(number, len(models))
            stream.write(json.dumps(_row(runs, models[place], draw, points, generator)) + "\n")
    return file.stat().st_size


def _row(runs: str, model: Model, draw: int, points: int, generator: np.random.Generator) -> dict[str, Any]:
    steps = 2000 * points
    frames = np.linspace(steps / points, steps, points).astype(int)
    level = generator.uniform(5, 45)
    returns = level / (1 + np.exp(-10 * (frames / steps - 0.4))) + generator.normal(0, 1.5, points)
    diverged = runs == "sensitivity" and generator.random() < 0.1
    kept = points // 3 if diverged else points
    return {
        "set": runs,
        "scale": "laptop",
        "run": f"{model.name}.grid-numpad.{draw:03d}",
        "model": model.label,
        "task": "grid-numpad",
        "goal": "grid-numpad",
        "dial": None,
        "draw": draw,
        "seed": draw,
        "bounds": {"eps_alpha": float(np.exp(generator.uniform(-7, -2)))},
        "status": "diverged" if diverged else "finished",
        "diverged_at_frames": int(frames[kept - 1]) if diverged else None,
        "planned_frames": steps,
        "frames": int(frames[kept - 1]),
        "seconds": 300.0,
        "frames_per_second": 9000.0,
        "curve": [[int(at), round(float(mean), 4), 40] for at, mean in zip(frames[:kept], returns, strict=False)],
        "scores": {"random": 2.3, "no memory": 18.0, "perfect memory": 45.0},
        "parameters": 100_000,
        "state_bytes": 4096,
        "commits": ["0123456789"],
    }


if __name__ == "__main__":
    sys.exit(main())
