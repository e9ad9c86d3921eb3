"""Arrays by name as one file, in the form of safetensors: a header of JSON, then the bytes of one array after the other.

Any safetensors library reads it. It is written here because an array then goes to disk without a copy of it, and because nothing
may stay in memory of it: Orbax, which wrote checkpoints before, left 54 kB behind with each (TensorStore's JSON does). What it
wrote is still read.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from gtrxl.runs.sealed import parse

KINDS = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16",
    "uint32": "U32", "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64",
}  # fmt: skip
"""What the format calls the types; others are written as their bytes."""
FILE, OLDER = "state.safetensors", "state"


class Form(NamedTuple):
    """What numbers an array has."""

    shape: tuple[int, ...]
    dtype: str


def write(home: Path, arrays: Mapping[str, Any]) -> dict[str, str]:
    """Writes them into a folder; they are on the disk on return. Gives the hash of each."""
    hashes: dict[str, str] = {}
    header: dict[str, Any] = {}
    begin = 0
    for name, array in arrays.items():
        size = math.prod(array.shape) * array.dtype.itemsize
        kind = KINDS.get(str(array.dtype))
        shape = [size] if kind is None else list(array.shape)
        header[name] = {"dtype": kind or "U8", "shape": shape, "data_offsets": [begin, begin + size]}
        begin += size
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    with (home / FILE).open("wb") as file:
        file.write(len(told).to_bytes(8, "little") + told)
        for name, array in arrays.items():
            numbers = np.asarray(array)
            file.write(_bytes(numbers))
            hashes[name] = hash_of(numbers)
        file.flush()
        os.fsync(file.fileno())
    return hashes


def read(home: Path, forms: Mapping[str, Form]) -> dict[str, np.ndarray]:
    """Those arrays of a folder; raises whatever is found wrong on the way."""
    if not (home / FILE).exists() and (home / OLDER).is_dir():
        return _read_older(home / OLDER, forms)
    with (home / FILE).open("rb") as file:
        there = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= there - 8:
            raise ValueError(f"the header of {FILE} is damaged")
        header = parse(file.read(length))
        found = {}
        for name, form in forms.items():
            begin, end = header[name]["data_offsets"]
            dtype = np.dtype(form.dtype)
            if not 0 <= begin <= end <= there - 8 - length or end - begin != math.prod(form.shape) * dtype.itemsize:
                raise ValueError(f"{FILE} is not whole: {name} is not in it")
            file.seek(8 + length + begin)
            found[name] = np.frombuffer(bytearray(file.read(end - begin)), dtype).reshape(form.shape)
        return found


def hash_of(numbers: np.ndarray) -> str:
    """Of the type, the shape and every byte."""
    made = hashlib.blake2b(f"{numbers.dtype}{list(numbers.shape)}".encode(), digest_size=16)
    made.update(_bytes(numbers))
    return made.hexdigest()


def _bytes(numbers: np.ndarray) -> memoryview:
    """Without a copy, where the array lies in one piece."""
    return np.ascontiguousarray(numbers).reshape(-1).view(np.uint8).data


def _read_older(home: Path, forms: Mapping[str, Form]) -> dict[str, np.ndarray]:
    """What Orbax wrote. It is imported only for this, and without its log: what matters of it is raised."""
    logger = logging.getLogger("absl")
    level = logger.level
    with warnings.catch_warnings(), contextlib.ExitStack() as after:
        warnings.simplefilter("ignore")
        import orbax.checkpoint as ocp

        logger.setLevel(logging.CRITICAL)
        after.callback(logger.setLevel, level)
        reader: Any = after.enter_context(_alone(ocp))
        numbers = ocp.RestoreArgs(restore_type=np.ndarray)
        return reader.restore(home, item=dict.fromkeys(forms, 0), restore_args=dict.fromkeys(forms, numbers))


def _alone(ocp: Any) -> Any:
    """If JAX has several processes, one of them reads; Orbax would wait for the others."""
    if jax.process_count() == 1:
        return ocp.PyTreeCheckpointer()
    mine = {"primary_host": jax.process_index(), "active_processes": {jax.process_index()}}
    options = ocp.options.MultiprocessingOptions(**mine, barrier_sync_key_prefix="alone")
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options)
