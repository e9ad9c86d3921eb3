"""The folder of a run's checkpoints: the last few and the best one.

It holds one sub-folder for each finished checkpoint, named by its step:

    checkpoints/1200/card.json          the step, the score, the settings, and the shape, dtype and hash of every array by name
    checkpoints/1200/state.safetensors  the arrays
    checkpoints/damaged-1100/           one that could not be read when the run went on from another

A checkpoint gets its name by a rename, after all of it is on disk. Whatever begins with `saving-` or `going-` is unfinished.
"""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, SupportsFloat

import jax
import numpy as np

from gtrxl.runs.checkpoints import arrays as files
from gtrxl.runs.checkpoints.card import Array, Card
from gtrxl.runs.checkpoints.leaves import generator, named_arrays, plain, put_back, size_of
from gtrxl.runs.errors import DamagedError, RunError, first_line

SAVING, GOING, DAMAGED = "saving-", "going-", "damaged-"


class Checkpoints:
    """The checkpoints of one run.

    `read_only` looks without touching: safe while another process saves. `expected_bytes` is the size of one checkpoint
    (`size_of(tree)`), so that a disk without room for what will be kept is said now and not after hours.
    """

    def __init__(self, folder: str | Path, keep_last: int = 2, *, read_only: bool = False, expected_bytes: int = 0):
        if keep_last < 1:
            raise RunError(f"keep_last must be at least 1, got {keep_last}; without a last checkpoint a run cannot be resumed")
        self.folder = Path(folder).absolute()
        self.keep_last = keep_last
        self.read_only = read_only
        if not read_only:
            self._check_disk(expected_bytes)
            self._remove_unfinished()

    def save(
        self, step: int, tree: Any, score: SupportsFloat | None = None, *, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Write the arrays of `tree` as the checkpoint of `step`, then drop those no longer kept. It is on disk on return.

        The highest `score` is the best, of equal ones the latest; no score, or one that is not finite, is never the best. Saving
        the latest step again replaces it. A checkpoint whose card cannot be read is left alone: nobody knows what it is worth.
        """
        if self.read_only:
            raise RunError(f"the checkpoints in {self.folder} were opened to read only; open them without read_only to save")
        cards = self.cards()
        latest = max(cards, default=0)
        if step < latest or step < 0:
            raise RunError(
                f"a checkpoint's step must not go back, got {step} after {latest}; call forget_after({step}) to go back"
            )
        score = None if score is None else float(score)
        arrays = named_arrays(tree)
        saving = self.folder / f"{SAVING}{step}"
        try:
            shutil.rmtree(saving, ignore_errors=True)
            saving.mkdir(parents=True)
            # The card knows all there is to know about arrays without elements.
            hashes = files.write(saving, {name: plain(array) for name, array in arrays.items() if array.size})
            card = Card(
                step=step,
                score=score if score is not None and math.isfinite(score) else None,
                arrays={name: _describe(array)._replace(hash=hashes.get(name)) for name, array in arrays.items()},
                settings=None if settings is None else dict(settings),
            )
            card.write(saving)
            self._remove(step)
            saving.rename(self.folder / str(step))
        except (OSError, ValueError, RuntimeError) as error:
            shutil.rmtree(saving, ignore_errors=True)
            raise RunError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {first_line(error)}; "
                f"{_free(self.folder)} are free there, and it needs {_megabytes(size_of(tree))}"
            ) from error
        cards[step] = card
        kept = {*sorted(cards)[-self.keep_last :], _best(cards)}
        for old in cards:
            if old not in kept:
                self._remove(old)
        for other in self._set_aside():
            if other <= step:  # there is a whole one now that is as late
                shutil.rmtree(self.folder / f"{DAMAGED}{other}", ignore_errors=True)

    def restore(self, like: Any, which: Literal["last", "best"] | int = "last") -> Any:
        """`like` with its arrays replaced by those on disk, bit for bit, placed as those of `like` are.

        `like` may hold arrays or `jax.ShapeDtypeStruct`; everything else in it is kept as it is. An array that cannot be
        read, or is not the one that was saved, raises `DamagedError`.
        """
        step = self.find(which)
        saved = self.card(step).arrays
        wanted = {name: _describe(array) for name, array in named_arrays(like).items()}
        self._compare(step, saved=saved, wanted=wanted)
        try:
            found = files.read(self.folder / str(step), _forms(like, saved))
            other = [name for name, numbers in found.items() if saved[name].hash not in (None, files.hash_of(numbers))]
            if other:
                raise ValueError(f"the bytes of {', '.join(other[:3])} are not those that were saved")
        except Exception as error:  # whatever damaged files make of those who read them
            others = [each for each in self.steps() if each != step]
            remedy = f"there are also {others}: choose one with --checkpoint" if others else "there is no other one"
            raise DamagedError(f"checkpoint {step} in {self.folder} cannot be read: {first_line(error)}; {remedy}") from error
        return put_back(like, found, {name: array.key for name, array in wanted.items()})

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints, in order."""
        try:
            return sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdecimal())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def cards(self) -> dict[int, Card]:
        """The cards of those that have one that can be read, by step, in order."""
        found = {}
        for step in self.steps():
            try:
                found[step] = Card.read(self.folder / str(step))
            except DamagedError:  # or the process that saves has removed it since it was listed
                continue
        return found

    def damaged_cards(self) -> dict[int, str]:
        """Checkpoints that are passed over because their cards cannot be read, with the reason."""
        found = {}
        for step in self.steps():
            try:
                Card.read(self.folder / str(step))
            except DamagedError as error:
                if (self.folder / str(step)).exists():
                    found[step] = str(error)
        return found

    @property
    def latest(self) -> int | None:
        """The last step saved, or None. One whose card cannot be read does not count."""
        return max(self.cards(), default=None)

    @property
    def best(self) -> int | None:
        """The step with the highest score, the earliest of equals, or None if none has a score."""
        return _best(self.cards())

    def score(self, step: int) -> float | None:
        """The score that the checkpoint of `step` was saved with."""
        return self.card(step).score

    def shapes(self, which: Literal["last", "best"] | int = "last") -> dict[str, tuple[int, ...]]:
        """The shape of every array of a checkpoint, by its name in the tree."""
        arrays = self.card(self.find(which)).arrays
        return {name: tuple(array.shape) for name, array in arrays.items()}

    def settings(self) -> dict[str, Any] | None:
        """The settings of the run, as its latest checkpoint with settings has them; None if none does."""
        return next((card.settings for card in reversed(self.cards().values()) if card.settings is not None), None)

    def forget_after(self, step: int) -> None:
        """Remove the checkpoints later than `step`: the run goes on from there."""
        for later in self.steps():
            if later > step:
                self._remove(later)

    def set_aside(self, step: int) -> Path:
        """Give a damaged checkpoint a name under which it is not offered any more. It goes when a whole one is as late."""
        aside = self.folder / f"{DAMAGED}{step}"
        shutil.rmtree(aside, ignore_errors=True)
        (self.folder / str(step)).rename(aside)
        return aside

    def is_empty(self) -> bool:
        """Whether there is no finished checkpoint, not even a damaged one."""
        return not self.steps() and not self._set_aside()

    def find(self, which: Literal["last", "best"] | int) -> int:
        """The step that is meant."""
        steps = self.steps()
        if not steps:
            raise RunError(f"there is no finished checkpoint in {self.folder}; `gtrxl resume` begins a run that has none yet")
        step = {"last": self.latest, "best": self.best}[which] if isinstance(which, str) else which
        if step is None and not self.cards():
            raise DamagedError(f"no checkpoint of {steps} in {self.folder} can be read: {self.damaged_cards().get(steps[-1])}")
        if step is None:
            raise RunError(f"no checkpoint in {self.folder} has a score, so none is the best; ask for 'last' or one of {steps}")
        if step not in steps:
            raise RunError(f"there is no checkpoint of step {step} in {self.folder}; there are {steps}")
        return step

    def card(self, step: int) -> Card:
        """What the checkpoint of `step` says of itself."""
        return Card.read(self.folder / str(step))

    def _set_aside(self) -> list[int]:
        try:
            names = [entry.name.removeprefix(DAMAGED) for entry in self.folder.iterdir() if entry.name.startswith(DAMAGED)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(int(name) for name in names if name.isdecimal())

    def _compare(self, step: int, *, saved: dict[str, Array], wanted: dict[str, Array]) -> None:
        """Raise with the first difference in names, shapes or dtypes."""
        names = [*wanted, *(name for name in saved if name not in wanted)]
        differ = [name for name in names if name not in saved or not saved[name].is_like(wanted.get(name))]
        if differ:
            name, others = differ[0], f" (and {len(differ) - 1} more)" if len(differ) > 1 else ""
            raise RunError(
                f"checkpoint {step} in {self.folder} is of another structure: {name} is {saved.get(name, 'missing')} there and "
                f"{wanted.get(name, 'missing')} here{others}; use the configuration it was saved with"
            )

    def _check_disk(self, expected_bytes: int) -> None:
        probe = self.folder / f"{SAVING}probe"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            try:
                probe.write_bytes(b"can this be written?" * 512)
            finally:
                probe.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(
                f"checkpoints cannot be written to {self.folder}: {first_line(error)}; free some space or choose another folder"
            ) from error
        # The kept ones, the best one, and the one being written before an old one goes.
        needed = expected_bytes * (self.keep_last + 2)
        if needed > shutil.disk_usage(self.folder).free:
            raise RunError(
                f"checkpoints need {_megabytes(needed)} in {self.folder}, and {_free(self.folder)} are free; "
                "free some space or choose another folder"
            )

    def _remove_unfinished(self) -> None:
        for entry in self.folder.iterdir():
            if entry.name.startswith((SAVING, GOING)):
                shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)

    def _remove(self, step: int) -> None:
        """Take the name away first, so that a checkpoint half removed is not offered either."""
        home, going = self.folder / str(step), self.folder / f"{GOING}{step}"
        shutil.rmtree(going, ignore_errors=True)
        if home.exists():
            home.rename(going)
            shutil.rmtree(going, ignore_errors=True)


def _best(cards: Mapping[int, Card]) -> int | None:
    scored = [(card.score, step) for step, card in cards.items() if card.score is not None]
    return max(scored)[1] if scored else None


def _describe(array: Any) -> Array:
    return Array(list(array.shape), str(array.dtype), generator(array))


def _forms(like: Any, saved: Mapping[str, Array]) -> dict[str, files.Form]:
    """What numbers are to be read for the arrays of a tree: of random keys, what they are made of."""
    found = {}
    for name, array in named_arrays(like).items():
        if saved[name].size:
            numbers = array if saved[name].key is None else jax.eval_shape(jax.random.key_data, array)
            found[name] = files.Form(tuple(numbers.shape), str(np.dtype(numbers.dtype)))
    return found


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _free(folder: Path) -> str:
    try:
        return _megabytes(shutil.disk_usage(folder).free)
    except OSError:
        return "unknown MB"
