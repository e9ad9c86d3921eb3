"""Makes a Python on Linux look like one on Windows or macOS to gtrxl. In a folder of its own that a test puts on PYTHONPATH, so
that processes which the package starts are pretended too.

What the system lacks is gone from `os`, `signal` and `sys` as gtrxl's modules import them; modules of Unix cannot be imported by
anybody. Python's own modules and other packages keep what they need to run here.
"""

import builtins
import fcntl
import os
import pathlib
import signal
import struct
import sys
import types
import warnings
from typing import Any

NOT_ON_MACOS = {"os": ("sched_getaffinity", "sched_setaffinity", "posix_fallocate", "memfd_create"), "signal": ()}
NOT_ON_WINDOWS = {
    "os": (
        *NOT_ON_MACOS["os"], "fork", "forkpty", "register_at_fork", "sysconf", "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC",
        "O_NONBLOCK", "getuid", "geteuid", "getgid", "getpgid", "killpg", "setsid", "nice", "uname", "statvfs", "fstatvfs",
        "pread", "pwrite", "preadv", "pwritev", "chown", "mkfifo", "getloadavg", "wait", "wait3", "wait4", "WNOHANG",
        "posix_spawn", "openpty", "ttyname", "sync", "fdatasync", "fchmod", "fchown", "getpriority", "setpriority", "pipe2",
    ),
    "signal": (
        "SIGKILL", "SIGALRM", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGSTOP", "SIGCONT", "SIGCHLD", "SIGPIPE", "SIGQUIT", "SIGTSTP",
        "setitimer", "getitimer", "ITIMER_REAL", "alarm", "pause", "pthread_sigmask", "pthread_kill", "SIG_BLOCK", "SIG_UNBLOCK",
        "SIG_SETMASK", "sigwait", "sigpending", "siginterrupt",
    ),
}  # fmt: skip
UNIX_MODULES = ("fcntl", "resource", "termios", "tty", "pty", "pwd", "grp", "syslog", "readline", "curses")
BREAK = signal.SIGUSR1
"""Stands for what Ctrl-Break sends on Windows."""


class Without(types.ModuleType):
    """A module without some of its names, and with others changed."""

    def __init__(self, module: types.ModuleType, lacks: tuple[str, ...], **others: Any):
        super().__init__(module.__name__)
        object.__setattr__(self, "_of", (module, lacks, others))

    def __getattribute__(self, name: str) -> Any:
        module, lacks, others = object.__getattribute__(self, "_of")
        if name in lacks:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r} on the system that is pretended")
        return others[name] if name in others else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_of")[0], name, value)


def pretend(modules: dict[str, types.ModuleType]) -> None:
    """gtrxl's modules get these for theirs."""
    usual = builtins.__import__

    def changed(name: str, given: Any = None, *rest: Any, **options: Any) -> Any:
        ours = given is not None and str(given.get("__name__", "")).partition(".")[0] == "gtrxl"
        return modules[name] if ours and name in modules else usual(name, given, *rest, **options)

    builtins.__import__ = changed


def windows_locks() -> types.ModuleType:
    """`msvcrt` with the locks of Windows: of bytes, held by an open file and not by a process, refused with a PermissionError."""
    locks: Any = types.ModuleType("msvcrt")
    locks.LK_UNLCK, locks.LK_LOCK, locks.LK_NBLCK = 0, 1, 2

    def locking(descriptor: int, mode: int, number: int) -> None:
        writable = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
        kind = fcntl.F_UNLCK if mode == locks.LK_UNLCK else fcntl.F_WRLCK if writable else fcntl.F_RDLCK
        begin = os.lseek(descriptor, 0, os.SEEK_CUR)
        try:
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, begin, number, 0))
        except BlockingIOError:
            raise PermissionError(13, "Permission denied") from None

    locks.locking = locking
    return locks


def open_files_stay() -> None:
    """Windows replaces, renames and removes no file that this process has open, nor a folder with one in it."""

    def checked(usual: Any, both: bool) -> Any:
        def call(path: pathlib.Path, *given: Any, **options: Any) -> Any:
            for touched in (path, *(map(pathlib.Path, given[:1]) if both else ())):
                whole = os.path.abspath(touched)
                for number in os.listdir("/proc/self/fd"):
                    try:
                        held = os.readlink(f"/proc/self/fd/{number}")
                    except OSError:
                        continue
                    if held == whole or held.startswith(whole + os.sep):
                        raise PermissionError(13, "The process cannot access the file because it is being used", str(touched))
            return usual(path, *given, **options)

        return call

    for name in ("replace", "rename", "unlink"):
        setattr(pathlib.Path, name, checked(getattr(pathlib.Path, name), both=name != "unlink"))


system = os.environ.get("GTRXL_TESTS_PRETEND", "")
if system == "windows":
    pretend(
        {
            "os": Without(os, NOT_ON_WINDOWS["os"], name="nt", O_BINARY=0),
            "signal": Without(signal, NOT_ON_WINDOWS["signal"], SIGBREAK=BREAK, CTRL_BREAK_EVENT=BREAK),
            "sys": Without(sys, (), platform="win32"),
            "msvcrt": windows_locks(),
        }
    )
    for name in UNIX_MODULES:
        sys.modules[name] = None  # type: ignore[assignment]
    open_files_stay()
    # Its default encoding is not UTF-8: whoever does not name one is told (with PYTHONWARNDEFAULTENCODING).
    warnings.filterwarnings("error", category=EncodingWarning, module=r"gtrxl(\.|$)")
elif system == "macos":
    pretend({"os": Without(os, NOT_ON_MACOS["os"]), "sys": Without(sys, (), platform="darwin")})
elif system:
    raise ValueError(f"GTRXL_TESTS_PRETEND must be windows or macos, got {system!r}")
