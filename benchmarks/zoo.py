"""The agents of the zoo: trained, exported into the package, played, and their cards written.

    python benchmarks/zoo.py                          # every entry whose run has ended and that is not there yet
    python benchmarks/zoo.py --train                  # trains what is missing first, one after the other
    python benchmarks/zoo.py --train --only t-maze --again
    python benchmarks/zoo.py --only numpad-2x2 --run FOLDER      # of a run that is elsewhere, also of one that has not ended
    python benchmarks/zoo.py --table                  # only prints the table of docs/zoo.md, which the others put there

A run that was killed goes on. One that is given by `--run` must have the settings of the entry's command; it is read, and nothing
is written into it. Where it has not come to its end, the card says how far it was, under `unfinished_at`. An entry is the best
checkpoint of its run; its score is that of the exported file over new episodes, by the command on its card. Files are float32, as
they were trained; one that would be too large has its matrices in float16, and its card also has the score that the float32 file
gets in the same episodes.
"""

import dataclasses
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np
import tyro
from safetensors.numpy import load_file, save_file

import gtrxl
from gtrxl.cli.runs import Train
from gtrxl.evaluation.sharing.model_card import score_of
from gtrxl.runs import folder as folders
from gtrxl.runs import metrics, settings
from gtrxl.zoo import shelf

MOST_BYTES = 1_000_000
PAGE = pathlib.Path(__file__).parents[1] / "docs" / "zoo.md"
HEADER = "| agent | task | return | random | best | frames | made by |"
ROOMS = (
    "rooms_select_nonmatching_object:room=3,objects=2,fresh=1,mixed=0,penalty=0,trial_steps=60,episode_steps=240,"
    "height=24,width=32"
)


@dataclasses.dataclass(frozen=True)
class Entry:
    """An agent, and how it is made."""

    name: str
    about: str
    words: tuple[str, ...]
    """What `gtrxl train` is told."""
    episodes: int = 512
    """New episodes that its score is taken over."""
    greedy: bool = False
    half: bool = False
    """Whether its matrices are written as float16."""

    @property
    def command(self) -> str:
        """Without the run's folder."""
        return " ".join(("gtrxl", "train", *self.words))

    @property
    def eval_command(self) -> str:
        """What plays the new episodes."""
        return f"gtrxl eval zoo:{self.name} --episodes {self.episodes}" + " --greedy" * self.greedy


ENTRIES = (
    Entry("grid-numpad", "Grid Numpad 2x2, the first command", ("grid-numpad", "--seed", "0", "--devices", "1")),
    Entry(
        "grid-numpad-3x3",
        "Grid Numpad 3x3",
        ("grid-numpad-3x3", "--seed", "0", "--steps", "20000000", "--devices", "1"),
    ),
    Entry("t-maze", "T-maze, a corridor of 40", ("t-maze", "--seed", "0", "--devices", "1")),
    Entry(
        "two-rooms",
        "two rooms in pictures of 24 x 32",
        (
            *(ROOMS, "--net.channels", "tiny", "--net.memory", "64", "--discount", "0.97"),
            *("--steps", "1500000", "--seed", "0", "--devices", "1"),
        ),
        episodes=64,
        half=True,
    ),
    Entry(
        "cartpole-no-velocity",
        "CartPole-v1 without velocities",
        ("gym:CartPole-v1", "--mask-velocity", "--core", "gtrxl-gru", "--seed", "0", "--steps", "100000"),
        episodes=256,
        greedy=True,
    ),
    Entry(
        "repeat-previous-medium",
        "POPGym's RepeatPreviousMedium",
        ("repeat-previous:decks=2,k=32", "--core", "gtrxl-gru", "--seed", "0", "--steps", "2000000", "--devices", "1"),
    ),
    Entry(  # draw 1 of `gtrxl reproduce sphere --scale laptop`
        "numpad-2x2",
        "Numpad 2x2, the sphere: continuous actions",
        (
            *("numpad-2x2", "--seed", "832453169", "--steps", "150000000", "--devices", "1"),
            *("--learner.eps-mean", "0.005822182740599955", "--learner.eps-covariance", "0.00012629187035466635"),
        ),
        episodes=128,
    ),
)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which agents to make, and where their runs are."""

    only: tuple[str, ...] = ()
    """Names; all if left out."""
    train: bool = False
    """Start the runs that are missing, and go on with those that were killed."""
    again: bool = False
    """Also make the entries that are there already."""
    run: pathlib.Path | None = None
    """The run to take the one entry of `--only` from, wherever it is, whether it has ended or not."""
    table: bool = False
    runs: pathlib.Path = pathlib.Path("runs/zoo")


def make(entry: Entry, chosen: Settings) -> str:
    """One entry; says how it went."""
    run = chosen.runs / entry.name if chosen.run is None else chosen.run
    if (shelf.FOLDER / f"{entry.name}.safetensors").exists() and not chosen.again:
        return "is there"
    if chosen.run is not None:
        if others := differs(entry, run):
            return f"must have a run with the settings of its command, got others in {run}: {others}"
    elif chosen.train and _status(run) not in ("finished", "diverged"):
        words = (
            ["resume", str(run)] if (run / "config.json").exists() else ["train", *entry.words, "--run", str(run), "--no-board"]
        )
        if code := subprocess.run([sys.executable, "-m", "gtrxl", *words], check=False).returncode:
            return f"was not trained: exit code {code}"
    if chosen.run is None and _status(run) != "finished":
        return f"has no finished run in {run}; --train makes it"
    with tempfile.TemporaryDirectory() as folder:
        return _made(entry, run, pathlib.Path(folder))


def _made(entry: Entry, run: pathlib.Path, folder: pathlib.Path) -> str:
    """Exports, plays, writes the card, and puts both on the shelf."""
    how_far = metrics.read(run / "metrics.jsonl")[-1]  # before the export: a run that is under way goes on
    file, card = gtrxl.export(run, folder / f"{entry.name}.safetensors")
    how = {"episodes": entry.episodes, "greedy": entry.greedy}
    whole = _halved(file, card, how) if entry.half else {}
    if file.stat().st_size > MOST_BYTES:
        return f"is larger than {MOST_BYTES:,} bytes; left out"
    # The score is the file's, not the run's: what was written is read back and played.
    played = gtrxl.evaluate(file, **how)
    part = {} if _status(run) == "finished" else {"unfinished_at": how_far["frames"]}
    _write(card, json.loads(card.read_text()), about=entry.about, command=entry.command, **part,
           minutes=round(how_far["seconds"] / 60, 1), score=score_of(played, command=entry.eval_command), **whole)  # fmt: skip
    for each in (file, card):
        shutil.copyfile(each, shelf.FOLDER / each.name)
    return f"scores {played.mean_return:.2f} +/- {played.std:.2f} over {played.episodes} episodes, {file.stat().st_size:,} bytes"


def differs(entry: Entry, run: pathlib.Path) -> str:
    """Settings of a run that are not those of the entry's command: what they are there and here."""
    found, wanted = _flat(settings.as_dict(folders.read_config(run))), _flat(vars(Train.parse(entry.words)))
    return ", ".join(f"{name} {found[name]} for {wanted.get(name)}" for name in found if found[name] != wanted.get(name))


def _flat(told: dict[str, Any], before: str = "") -> dict[str, Any]:
    parts = {name: dataclasses.asdict(of) if dataclasses.is_dataclass(of) else of for name, of in told.items()}  # pyright: ignore[reportArgumentType]
    found = {}
    for name, of in parts.items():
        found |= _flat(of, f"{before}{name}.") if isinstance(of, dict) else {f"{before}{name}": of}
    return found


def _halved(file: pathlib.Path, card: pathlib.Path, how: dict[str, Any]) -> dict[str, Any]:
    """Writes the matrices of a file as float16, and gives what its card says of the file that it was."""
    before = gtrxl.evaluate(file, **how)
    arrays = {name: array.astype(np.float16) if array.ndim > 1 else array for name, array in load_file(file).items()}
    save_file(arrays, file, metadata={"format": "numpy", "gtrxl": gtrxl.__version__})
    told = json.loads(card.read_text())
    for name, array in arrays.items():
        told["arrays"][name]["dtype"] = str(array.dtype)
    _write(card, told)
    return {"in_float32": {"mean_return": before.mean_return, "std": before.std}}


def _write(card: pathlib.Path, told: dict[str, Any], **more: Any) -> None:
    config = told.pop("config")
    part = card.with_suffix(".part")
    part.write_text(json.dumps({**told, **more, "config": config}, indent=2) + "\n")
    os.replace(part, card)


def _status(run: pathlib.Path) -> str | None:
    result = run / "result.json"
    return json.loads(result.read_text())["status"] if result.exists() else None


def table() -> str:
    """What is there, as docs/zoo.md shows it."""
    lines = [HEADER, "|---|---|---:|---:|---:|---:|---|"]
    for entry in ENTRIES:
        if entry.name not in shelf.all_names():
            continue
        card = shelf.card_of(entry.name)
        score = card["score"]
        ends = ("" if score[end] is None else f"{score[end]:.2f}" for end in ("random", "best"))
        cells = (f"`zoo:{entry.name}`", card["about"], f"{score['mean_return']:.2f} ± {score['std']:.2f}", *ends,
                 _frames(card), f"`{card['command'].replace(ROOMS, 'ROOMS')}`")  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _frames(card: dict[str, Any]) -> str:
    frames = f"{card['frames'] / 1e6:.1f} M"
    return f"{frames} of {card['config']['steps'] / 1e6:.0f} M" if "unfinished_at" in card else frames


def main() -> None:
    """Makes them, and lists all."""
    chosen = tyro.cli(Settings, description=__doc__)
    if chosen.table:
        print(table())
        return
    known = {entry.name for entry in ENTRIES}
    for name in chosen.only:
        if name not in known:
            sys.exit(f"only must be among {', '.join(sorted(known))}, got {name!r}")
    if chosen.run is not None and len(chosen.only) != 1:
        sys.exit(f"--run is of one agent, which --only names, got {len(chosen.only)} names")
    for entry in ENTRIES:
        if not chosen.only or entry.name in chosen.only:
            print(entry.name, make(entry, chosen), flush=True)
    size = sum(path.stat().st_size for path in shelf.FOLDER.iterdir())
    print(f"{len(shelf.all_names())} of {len(ENTRIES)} agents, {size:,} bytes in all")
    if PAGE.exists():
        text = PAGE.read_text()
        begin = text.index(HEADER)
        PAGE.write_text(text[:begin] + table() + text[text.index("\n\n", begin) :])


if __name__ == "__main__":
    main()
