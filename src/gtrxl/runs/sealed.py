"""JSON files that tell when they were changed: an object with a digest of its own content. Needs no JAX.

    {"status": "finished", "updates": 100, "digest": "52b0..."}

A file is written whole or not at all. One without a digest is older, or written by hand: it is taken as it is. Who changes a
file on purpose removes its digest.
"""

import errno
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gtrxl.runs.errors import RunError, first_line

DIGEST = "digest"


def write(path: Path, data: Mapping[str, Any], *, indent: int | None = 2) -> None:
    """The object with its digest, in lines that can be read, or in one. A kill leaves the file as it was before, or this one."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        part.write_text(json.dumps({**data, DIGEST: digest(data)}, indent=indent) + "\n", "utf-8")
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {first_line(error)}; free some space or choose another folder") from error


def read(path: Path, *, remedy: str) -> dict[str, Any]:
    """The object of a file, without its digest. Whatever is wrong with it is one line that ends with the remedy."""
    try:
        content = content_of(path)
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror or error}; {remedy}") from error
    try:
        found = parse(content)
    except ValueError as error:
        raise RunError(f"{path} must be JSON, got {first_line(error)}; {remedy}") from error
    if not isinstance(found, dict):
        raise RunError(f"{path} must hold one JSON object, got {type(found).__name__}; {remedy}")
    written = found.pop(DIGEST, None)
    if written is not None and written != digest(found):
        raise RunError(
            f"{path} must be as it was written, got another content: its digest does not fit; {remedy}, "
            f'or remove the line "{DIGEST}" if it was changed on purpose'
        )
    return found


def content_of(path: Path) -> bytes:
    """The bytes of a file. A stranger's folder may have a pipe or a device in its place, which would be read without end."""
    kind = path.stat().st_mode
    if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
        raise OSError(errno.EINVAL, "it is a pipe or a device, no file")
    return path.read_bytes()


def parse(content: bytes) -> Any:
    """What some JSON says; a ValueError for all that is none: other bytes than UTF-8, and brackets without end."""
    try:
        return json.loads(content.decode())
    except RecursionError:
        raise ValueError("brackets inside of brackets without end") from None


def digest(data: Any) -> str:
    """The same for the same content, whatever the order of names and the spaces between."""
    return hashlib.blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
