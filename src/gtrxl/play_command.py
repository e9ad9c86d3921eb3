"""The command `gtrxl play`: a task for people, in a browser."""

import dataclasses

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

    def run(self) -> None:
        """Serves until Ctrl-C, then says how it went."""
        from gtrxl.runtime.play import play

        game = play(self.task, seed=self.seed, port=self.port, browser=not self.no_browser)
        best = "no score" if game.best is None else f"best score {game.best:g}"
        played = "1 episode" if game.finished == 1 else f"{game.finished} episodes"
        print(f"{self.task}: {best}, {played} played to the end")
