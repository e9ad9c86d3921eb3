"""The command `gtrxl`: parse, call, print.

A command is a frozen dataclass whose docstrings are its help and whose `run` does the work; `COMMANDS` lists them.
What a command needs is imported when it runs, so that `--help` does not wait for it.
"""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, Union

import tyro

import gtrxl
from gtrxl.cli.catalogues import Cores, Params, Tasks
from gtrxl.cli.compare import Compare
from gtrxl.cli.demo import Demo
from gtrxl.cli.experiments import ReportCommand, Reproduce
from gtrxl.cli.play import Play
from gtrxl.cli.runs import INTERRUPTED, Eval, Export, Resume, Train, Watch
from gtrxl.cli.sharing import Push, Zoo
from gtrxl.cli.sweep import Sweep

USER_ERROR, READER_GONE = 2, 141
DESCRIPTION = "Memory for reinforcement-learning agents. `gtrxl COMMAND --help` explains a command; --version prints the version."

COMMANDS: dict[str, type[Any]] = {
    "train": Train,
    "resume": Resume,
    "eval": Eval,
    "watch": Watch,
    "export": Export,
    "push": Push,
    "zoo": Zoo,
    "sweep": Sweep,
    "compare": Compare,
    "play": Play,
    "tasks": Tasks,
    "cores": Cores,
    "params": Params,
    "demo": Demo,
    "reproduce": Reproduce,
    "report": ReportCommand,
}
"""Name -> command. To add one, write its dataclass in this room and name it here."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line; 0 when all went well, 2 for what the user can put right, said in one line, 3 if a run diverged."""
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        return _run(argv)
    except BrokenPipeError:  # who reads has gone, as in `gtrxl --help | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to complain when Python ends
        return READER_GONE
    except KeyboardInterrupt:  # Ctrl-C, or the second signal to a run that is about to stop
        print("gtrxl: stopped at once; `gtrxl resume RUN` goes on with a run from its last checkpoint", file=sys.stderr)
        return INTERRUPTED


def _run(argv: list[str]) -> int:
    if argv in (["--version"], ["-V"]):
        print(f"gtrxl {gtrxl.__version__}")
        return 0
    choices = tuple(Annotated[command, tyro.conf.subcommand(name)] for name, command in COMMANDS.items())
    try:
        if argv and hasattr(COMMANDS.get(argv[0]), "parse"):  # its options depend on what the line says
            return COMMANDS[argv[0]].parse(argv[1:]).run()
    except (ValueError, OSError) as error:
        return _said(error)
    command: Any = tyro.cli(  # pyright: ignore[reportCallIssue]
        Union[choices],  # noqa: UP007 # pyright: ignore[reportArgumentType]
        prog="gtrxl",
        description=DESCRIPTION,
        args=argv or ["--help"],
        config=(tyro.conf.FlagCreatePairsOff,),
    )
    try:
        return command.run() or 0
    except (ValueError, OSError) as error:
        return _said(error)


def _said(error: ValueError | OSError) -> int:
    """One line for what the user can put right."""
    if isinstance(error, BrokenPipeError):
        raise error
    if isinstance(error, ValueError) and not type(error).__module__.startswith("gtrxl."):
        raise error  # a mistake of ours keeps its traceback
    print(f"gtrxl: {error}", file=sys.stderr)
    return USER_ERROR
