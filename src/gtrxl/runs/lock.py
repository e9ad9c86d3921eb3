"""One process at a time works on a run: a lock on its folder, which goes with the process however that ends.

RUN/lock says whose it is. The file stays; what counts is the system's lock on it, and that no killed process keeps: not by a
child of it either, since none inherits it.
"""

import contextlib
import contextvars
import errno
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtrxl.runs.errors import RunError, TakenError, first_line, say

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None
try:
    import msvcrt as _msvcrt
except ImportError:  # not Windows
    _msvcrt = None
msvcrt: Any = _msvcrt
"""Its names are known to type checkers on Windows alone."""

FILE = "lock"
BYTE = 2**30
"""Which byte is locked on Windows, where others cannot read what is locked: far behind the name of whoever holds it."""
PATIENCE = 0.5
"""Seconds that a lock is tried for: who only looks whether it is free has it for a moment."""
UNKNOWN = "another process"
_NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL)
"""What file systems answer that have no locks."""

_lent: contextvars.ContextVar[Path | None] = contextvars.ContextVar("lent", default=None)
_held: "set[_Lock]" = set()


@contextlib.contextmanager
def hold(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Nobody else works on the run in this folder as long as this lasts. If somebody does, says who, or waits for them."""
    folder = folder.resolve()
    if _lent.get() == folder:
        token = _lent.set(None)  # to one borrower at a time
        try:
            yield
        finally:
            _lent.reset(token)
        return
    lock = _take(folder, wait=wait)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def lend(folder: Path) -> Iterator[None]:
    """What is called inside of this may hold the lock that its caller holds."""
    token = _lent.set(folder.resolve())
    try:
        yield
    finally:
        _lent.reset(token)


def check_free(folder: Path) -> None:
    """Raises if another process works on the run in this folder."""
    if _lent.get() != folder.resolve() and (who := holder(folder)) is not None:
        raise _taken(folder, who)


def holder(folder: Path) -> str | None:
    """Who works on the run in this folder now; None if nobody does, or locks cannot tell."""
    if fcntl is None and msvcrt is None:
        return None
    with contextlib.suppress(OSError), (folder / FILE).open("rb") as file:
        if not _system_lock(file.fileno(), shared=True):
            return _who(file.read())
    return None


class _Lock:
    """The lock of a folder, taken."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        _held.add(self)

    def release(self) -> None:
        """Lets it go, and takes the name off."""
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        self.forget()

    def forget(self) -> None:
        """Closes the file: the lock goes with the last process that has it open."""
        _held.discard(self)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _forget_all() -> None:
    for lock in list(_held):
        lock.forget()


if hasattr(os, "register_at_fork"):  # a child that outlives a killed run must not keep its lock
    os.register_at_fork(after_in_child=_forget_all)


def _take(folder: Path, *, wait: bool) -> _Lock:
    path = folder / FILE
    until = time.monotonic() + PATIENCE
    while True:
        try:
            # Not through a link: a stranger's folder could have one to a file of ours, and this one is written to.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            raise RunError(
                f"the lock {path} cannot be written: {error.strerror or error}; make the folder writable, or choose another"
            ) from error
        lock = _Lock(descriptor)
        try:
            if _locked(descriptor, folder, wait=wait):
                if _is_at(path, descriptor):
                    _write_name(descriptor)
                    return lock
            elif time.monotonic() > until:
                raise _taken(folder, _who(os.read(descriptor, 1000)))
            else:
                time.sleep(PATIENCE / 20)
        except OSError as error:
            lock.forget()
            raise RunError(f"{path} cannot be locked: {first_line(error)}; choose a folder on another disk") from error
        except BaseException:
            lock.forget()
            raise
        lock.forget()


def _write_name(descriptor: int) -> None:
    text = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}\n"
    with contextlib.suppress(OSError):  # a full disk: it is locked all the same
        os.ftruncate(descriptor, 0)
        os.write(descriptor, text.encode())


def _locked(descriptor: int, folder: Path, *, wait: bool) -> bool:
    """Whether it is ours now. True as well where there are no locks, with a line that says so."""
    if fcntl is None and msvcrt is None:
        say(f"this system has no file locks: see that no other process works on {folder}")
        return True
    try:
        return _system_lock(descriptor, wait=wait)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        say(f"the file system of {folder} has no locks ({error.strerror}): see that no other process works on this run")
    return True


def _system_lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> bool:
    """Whether the system gives us the lock, now or after a wait. A shared one is for looking, and is let go at once."""
    if fcntl is None:
        return _windows_lock(descriptor, wait=wait, shared=shared)
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _windows_lock(descriptor: int, *, wait: bool, shared: bool) -> bool:
    """Windows locks bytes from the place in the file on, says PermissionError if another process has them, and shares none."""

    def call(mode: int) -> None:
        os.lseek(descriptor, BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

    while True:
        try:
            call(msvcrt.LK_NBLCK)
            break
        except PermissionError:
            if not wait:
                return False
            time.sleep(PATIENCE / 20)
    if shared:
        call(msvcrt.LK_UNLCK)
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether the file that is locked is the one that others find; somebody may have removed it meanwhile."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), path.stat())
    return False


def _who(text: bytes) -> str:
    return " ".join(text.decode(errors="replace").split())[:200] or UNKNOWN


def _taken(folder: Path, who: str) -> TakenError:
    return TakenError(
        f"one process at a time works on a run, got {folder}, which {who} works on; wait for it, or stop that one first"
    )
