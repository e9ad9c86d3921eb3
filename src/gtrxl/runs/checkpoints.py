"""Checkpoints of one pytree of arrays: atomic, exact to the bit, the last few and the best one kept.

A folder holds one sub-folder for each finished checkpoint, named by its step:

    checkpoints/1200/card.json    the step, the score, and the shape and dtype of every array by name
    checkpoints/1200/state/       the arrays, as Orbax writes them

A checkpoint gets that name by a rename, after all of it is on disk. Whatever has another name is unfinished.
"""

import contextlib
import json
import logging
import math
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple, SupportsFloat

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from gtrxl.runs.errors import RunError, first_line

SAVING, GOING = "saving-", "going-"
GENERATORS = ("threefry2x32", "rbg", "unsafe_rbg")


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

    def save(self, step: int, tree: Any, score: SupportsFloat | None = None) -> None:
        """Write the arrays of `tree` as the checkpoint of `step`, then drop those no longer kept. It is on disk on return.

        The highest `score` is the best; no score, or one that is not finite, is never the best. Saving the latest step again
        replaces it.
        """
        if self.read_only:
            raise RunError(f"the checkpoints in {self.folder} were opened to read only; open them without read_only to save")
        if step < 0 or (self.latest is not None and step < self.latest):
            raise RunError(
                f"a checkpoint's step must not go back, got {step} after {self.latest}; call forget_after({step}) to go back"
            )
        score = None if score is None else float(score)
        arrays = _named_arrays(tree)
        card = {
            "step": step,
            "score": score if score is not None and math.isfinite(score) else None,
            "arrays": {name: _describe(array)._asdict() for name, array in arrays.items()},
        }
        saving = self.folder / f"{SAVING}{step}"
        try:
            shutil.rmtree(saving, ignore_errors=True)
            saving.mkdir(parents=True)
            # Orbax refuses arrays without elements; the card knows all there is to know about them.
            _write_arrays(saving / "state", {name: _plain(array) for name, array in arrays.items() if array.size})
            (saving / "card.json").write_text(json.dumps(card))
            self._remove(step)
            saving.rename(self.folder / str(step))
        except (OSError, ValueError, RuntimeError) as error:
            shutil.rmtree(saving, ignore_errors=True)
            raise RunError(
                f"the checkpoint of step {step} could not be written to {self.folder}: {first_line(error)}; "
                f"{_free(self.folder)} are free there, and it needs {_megabytes(size_of(tree))}"
            ) from error
        kept = {*self.steps()[-self.keep_last :], self.best}
        for old in self.steps():
            if old not in kept:
                self._remove(old)

    def restore(self, like: Any, which: Literal["last", "best"] | int = "last") -> Any:
        """`like` with its arrays replaced by those on disk, bit for bit, placed as those of `like` are.

        `like` may hold arrays or `jax.ShapeDtypeStruct`; everything else in it is kept as it is.
        """
        step = self._find(which)
        home = self.folder / str(step)
        wanted = _named_arrays(like)
        arrays = {name: _Array(**fields) for name, fields in self._card(step)["arrays"].items()}
        self._compare(step, saved=arrays, wanted={name: _describe(array) for name, array in wanted.items()})
        try:
            plain = _read_arrays(home / "state", {name: array for name, array in wanted.items() if arrays[name].size})
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise RunError(
                f"checkpoint {step} in {self.folder} cannot be read: {first_line(error)}; another one may be: {self.steps()}"
            ) from error
        leaves, structure = jax.tree_util.tree_flatten_with_path(like)
        restored = []
        for path, leaf in leaves:
            name = jax.tree_util.keystr(path)
            if name not in wanted:
                restored.append(leaf)
            elif arrays[name].size:
                restored.append(_dress(plain[name], leaf, arrays[name].key))
            else:
                restored.append(_empty(leaf, arrays[name].key))
        return jax.tree_util.tree_unflatten(structure, restored)

    def steps(self) -> list[int]:
        """The steps of all finished checkpoints, in order."""
        try:
            return sorted(int(entry.name) for entry in self.folder.iterdir() if entry.name.isdecimal())
        except (FileNotFoundError, NotADirectoryError):
            return []

    @property
    def latest(self) -> int | None:
        """The last step saved, or None."""
        return max(self.steps(), default=None)

    @property
    def best(self) -> int | None:
        """The step with the highest score, the earliest of equals, or None if none has a score."""
        scored = []
        for step in self.steps():
            try:
                score = self.score(step)
            except RunError:
                # The process that saves may have removed it since it was listed.
                if (self.folder / str(step)).exists():
                    raise
                continue
            if score is not None:
                scored.append((score, -step))
        return -max(scored)[1] if scored else None

    def score(self, step: int) -> float | None:
        """The score that the checkpoint of `step` was saved with."""
        return self._card(step)["score"]

    def shapes(self, which: Literal["last", "best"] | int = "last") -> dict[str, tuple[int, ...]]:
        """The shape of every array of a checkpoint, by its name in the tree."""
        arrays = self._card(self._find(which))["arrays"]
        return {name: tuple(fields["shape"]) for name, fields in arrays.items()}

    def forget_after(self, step: int) -> None:
        """Remove the checkpoints later than `step`: the run goes on from there."""
        for later in self.steps():
            if later > step:
                self._remove(later)

    def _find(self, which: Literal["last", "best"] | int) -> int:
        steps = self.steps()
        if not steps:
            raise RunError(f"there is no finished checkpoint in {self.folder}; the run was stopped before its first one")
        step = {"last": self.latest, "best": self.best}[which] if isinstance(which, str) else which
        if step is None:
            raise RunError(f"no checkpoint in {self.folder} has a score, so none is the best; ask for 'last' or one of {steps}")
        if step not in steps:
            raise RunError(f"there is no checkpoint of step {step} in {self.folder}; there are {steps}")
        return step

    def _card(self, step: int) -> dict[str, Any]:
        file = self.folder / str(step) / "card.json"
        try:
            return json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise RunError(f"checkpoint {step} cannot be read: {file}: {first_line(error)}; remove the folder {step}") from error

    def _compare(self, step: int, *, saved: dict[str, "_Array"], wanted: dict[str, "_Array"]) -> None:
        """Raise with the first difference in names, shapes or dtypes."""
        names = [*wanted, *(name for name in saved if name not in wanted)]
        differ = [name for name in names if saved.get(name) != wanted.get(name)]
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
            probe.write_bytes(b"can this be written?" * 512)
            probe.unlink()
        except OSError as error:
            raise RunError(
                f"checkpoints cannot be written to {self.folder}: {first_line(error)}; choose another folder"
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


def size_of(tree: Any) -> int:
    """Bytes of all arrays in a pytree: about what one checkpoint of it takes on disk."""
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in _named_arrays(tree).values())


class _Array(NamedTuple):
    """What the card says of one array; `key` is the random generator's name if it holds random keys."""

    shape: list[int]
    dtype: str
    key: str | None

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{self.shape}"


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array | np.ndarray | np.generic | jax.ShapeDtypeStruct)


def _named_arrays(tree: Any) -> dict[str, Any]:
    """Every array by its path in the tree. Functions, strings and Python numbers are the program's, not the run's."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, _is_array))
    return {jax.tree_util.keystr(path): leaf for path, leaf in leaves}


def _is_key(array: Any) -> bool:
    return jnp.issubdtype(array.dtype, jax.dtypes.prng_key)


def _describe(array: Any) -> _Array:
    return _Array(list(array.shape), str(array.dtype), _generator(array) if _is_key(array) else None)


def _generator(keys: Any) -> str:
    if isinstance(keys, jax.Array):
        return str(jax.random.key_impl(keys))
    # A ShapeDtypeStruct cannot be asked, only compared.
    return next(name for name in GENERATORS if jax.random.key(0, impl=name).dtype == keys.dtype)


def _plain(array: Any) -> Any:
    return jax.random.key_data(array) if _is_key(array) else array


def _dress(plain: Any, like: Any, generator: str | None) -> Any:
    """Make what Orbax read the same kind of thing as `like`: NumPy or JAX, keys or numbers, weakly typed or not."""
    if isinstance(like, np.ndarray | np.generic):
        return plain if isinstance(like, np.ndarray) else like.dtype.type(plain)
    array = plain if isinstance(plain, jax.Array) else jnp.asarray(plain)
    if generator is not None:
        return jax.random.wrap_key_data(array, impl=generator)
    if getattr(like, "weak_type", False):
        # A weak type changes what later sums are computed in; writing into a weak array is the way to make one.
        weak = jnp.full(array.shape, {"i": 0, "f": 0.0}.get(array.dtype.kind, 0j))
        return weak.at[...].set(array) if weak.dtype == array.dtype else array
    return array


def _empty(like: Any, generator: str | None) -> Any:
    if isinstance(like, jax.ShapeDtypeStruct):
        data = jax.eval_shape(jax.random.key_data, like) if generator is not None else like
        return _dress(jnp.zeros(data.shape, data.dtype, device=data.sharding), like, generator)
    return like


@contextlib.contextmanager
def _quiet_orbax() -> Iterator[Any]:
    """Orbax, imported only when it is used, and without its log: what matters of it is raised."""
    logger = logging.getLogger("absl")
    level = logger.level
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import orbax.checkpoint as ocp

        logger.setLevel(logging.CRITICAL)
        try:
            yield ocp
        finally:
            logger.setLevel(level)


def _alone(ocp: Any) -> Any:
    """What reads and writes. If JAX has several processes, one has all arrays and saves; Orbax would wait for the others."""
    if jax.process_count() == 1:
        return ocp.PyTreeCheckpointer()
    mine = {"primary_host": jax.process_index(), "active_processes": {jax.process_index()}}
    options = ocp.options.MultiprocessingOptions(**mine, barrier_sync_key_prefix="alone")
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options)


def _write_arrays(home: Path, arrays: dict[str, Any]) -> None:
    if jax.process_count() > 1:
        arrays = {name: np.asarray(array) for name, array in arrays.items()}  # Orbax takes a JAX array to have parts elsewhere
    with _quiet_orbax() as ocp, _alone(ocp) as writer:
        writer.save(home, arrays)


def _read_arrays(home: Path, like: dict[str, Any]) -> dict[str, Any]:
    with _quiet_orbax() as ocp, _alone(ocp) as reader:
        anywhere = ocp.RestoreArgs(restore_type=np.ndarray)
        placed = {}
        for name, array in like.items():
            sharding = _chosen_sharding(array)
            placed[name] = anywhere if sharding is None else ocp.ArrayRestoreArgs(sharding=sharding)
        return reader.restore(home, item=dict.fromkeys(like, 0), restore_args=placed)


def _chosen_sharding(array: Any) -> Any:
    """Where an array was put on purpose; None for NumPy's and for those that JAX is free to place."""
    if isinstance(array, jax.Array):
        return _plain(array).sharding if array.committed else None
    return getattr(array, "sharding", None)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _free(folder: Path) -> str:
    try:
        return _megabytes(shutil.disk_usage(folder).free)
    except OSError:
        return "unknown MB"
