"""The command `gtrxl play`: a task for people, in a browser."""

import dataclasses
from pathlib import Path
from typing import Annotated

import tyro


@dataclasses.dataclass(frozen=True)
class Play:
    """Play a task yourself, in a browser on this machine: keys or touch, the score, the time left. Ctrl-C ends."""

    task: tyro.conf.Positional[str] = "memory-maze"
    """A name from `gtrxl tasks`, arguments after a colon: rooms_watermaze:episode_steps=600."""
    seed: int = 0
    """Decides the first episode; later ones count up from it."""
    port: int = 0
    """Where to serve; 0 takes a free port. Only this machine can reach it."""
    no_browser: bool = False
    """Print the address and open nothing."""
    from_: Annotated[Path | None, tyro.conf.arg(name="from")] = None
    """A folder to look for a task of your own in (package.module:Class); . is the current one."""

    def run(self) -> None:
        """Serves until Ctrl-C, then says how it went."""
        from gtrxl import names
        from gtrxl.play.server import play

        if self.from_ is not None:
            names.search_in(str(self.from_.absolute()))
        game = play(self.task, seed=self.seed, port=self.port, browser=not self.no_browser)
        best = "no score" if game.best is None else f"best score {game.best:g}"
        played = "1 episode" if game.finished == 1 else f"{game.finished} episodes"
        print(f"{self.task}: {best}, {played} played to the end")
