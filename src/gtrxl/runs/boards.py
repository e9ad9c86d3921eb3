"""Rows of metrics where they are looked at: TensorBoard, and Weights & Biases."""

import contextlib
import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gtrxl.runs.errors import RunError, first_line, say
from gtrxl.runs.metrics import as_json, numbers


class Board:
    """TensorBoard: every number of a row under its name, against the frames; lists and dicts as `name/part`.

    `resume_at` is the number of frames at which a resumed run goes on; TensorBoard then hides what was drawn after it. What goes
    wrong later, on a full disk, is said once and ends the drawing, never the run. Records are written here and now: the writer
    that tensorboardX has for this does it in a thread, where an error is a traceback, or a queue that is never emptied.
    """

    def __init__(self, folder: str | Path, *, resume_at: int | None = None, say: Callable[[str], None] = say):
        from tensorboardX.proto import event_pb2
        from tensorboardX.record_writer import RecordWriter

        self._folder, self._say = folder, say
        self._event: Any = event_pb2.Event  # pyright: ignore[reportAttributeAccessIssue]
        name = f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}.{secrets.token_hex(2)}"
        try:
            Path(folder).mkdir(parents=True, exist_ok=True)
            self._records: Any = RecordWriter(str(Path(folder) / name))
            self._record(file_version="brain.Event:2")
            if resume_at is not None:
                # Frames beyond the last that counts are hidden, and the last itself is not drawn again.
                start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)  # pyright: ignore[reportAttributeAccessIssue]
                self._record(step=resume_at + 1, session_log=start)
            self._records.flush()
        except OSError as error:
            raise RunError(
                f"TensorBoard cannot write to {folder}: {first_line(error)}; free some space, or leave it out with --no-board"
            ) from error

    def write(self, row: Mapping[str, Any]) -> None:
        """Draw every finite number of a row at its `frames`."""
        from tensorboardX.summary import scalar

        if self._records is None:
            return
        try:
            for name, value in numbers(as_json(row)):
                if name not in ("frames", "updates"):
                    self._record(step=int(row["frames"]), summary=scalar(name, value))
            self._records.flush()
        except OSError as error:
            self._give_up(error)

    def close(self) -> None:
        """Finish writing."""
        records, self._records = self._records, None
        if records is not None:
            try:
                records.close()
            except OSError as error:
                self._give_up(error)

    def _record(self, **fields: Any) -> None:
        self._records.write(self._event(wall_time=time.time(), **fields).SerializeToString())

    def _give_up(self, error: OSError) -> None:
        records, self._records = self._records, None
        self._say(f"TensorBoard cannot write to {self._folder}: {first_line(error)}; the run goes on without it")
        with contextlib.suppress(OSError):  # what it still holds has no place; it must not be tried again when Python ends
            if records is not None:
                records.close()


class NoBoard:
    """Draws nothing."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Draw nothing."""

    def close(self) -> None:
        """Nothing to finish."""


class WandB:
    """Weights & Biases: every number of a row under its name, against the frames; parts as `name/part`.

    The id of its run is kept in `folder`, the run's own, so that a resumed run goes on in the same one. Without a network
    WANDB_MODE=offline keeps everything in that folder, for `wandb sync` later. `settings` are shown beside the curves.
    """

    def __init__(self, folder: str | Path, *, settings: Mapping[str, Any], project: str = "gtrxl"):
        try:
            import wandb
        except ImportError as error:
            raise RunError(
                f"Weights & Biases must be installed to be written to, got {first_line(error)}; pip install 'gtrxl[wandb]'"
            ) from error
        folder = Path(folder)
        told = {"project": project, "name": folder.absolute().name, "config": as_json(settings), "dir": str(folder)}
        kept = _kept_id(folder / "wandb.json")
        quiet = {"silent": True, "console": "off"}  # its own lines would be drawn over by the live view
        try:
            self._run = wandb.init(id=kept, resume="allow", settings=quiet, **told)
        except Exception as error:  # it has many kinds, and none that covers all
            raise RunError(
                f"Weights & Biases cannot be written to: {first_line(error).rstrip('.')}; "
                "`wandb login` once, or WANDB_MODE=offline for a machine without a network"
            ) from error

    @property
    def address(self) -> str | None:
        """Where the curves are to be seen; None offline."""
        return None if self._run.offline else self._run.url

    def write(self, row: Mapping[str, Any]) -> None:
        """Every finite number of a row, at its `frames`. What a resumed run writes again is the same, and is there already."""
        frames = int(row["frames"])
        if frames >= self._run.step:
            self._run.log(dict(numbers(as_json(row))), step=frames)

    def close(self) -> None:
        """Finish writing."""
        self._run.finish()


def _kept_id(file: Path) -> str:
    """The id that is in this file; a new one is put there if there is none."""
    try:
        if file.exists():
            return str(json.loads(file.read_text("utf-8"))["id"])
        fresh = secrets.token_hex(8)
        file.write_text(json.dumps({"id": fresh}) + "\n", "utf-8")
        return fresh
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{file} must hold the id of the run at Weights & Biases: {first_line(error)}; remove it to begin another one there"
        ) from error
