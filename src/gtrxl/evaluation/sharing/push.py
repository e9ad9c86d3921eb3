"""An agent as a folder that others can use, and the same folder at Hugging Face.

README.md            its page
agent.safetensors    the weights
agent.json           their card, with the score of new episodes
episode.gif          one of these, where the task can be drawn
"""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from gtrxl.evaluation.evaluate import evaluate
from gtrxl.evaluation.export import export
from gtrxl.evaluation.sharing import hub, model_card
from gtrxl.evaluation.watch import watch
from gtrxl.runs.errors import RunError, first_line, say
from gtrxl.runs.folder import Which
from gtrxl.training.session import EnvFn

FILM = "episode.gif"


class Pushed(NamedTuple):
    """What was made, and where it is; the address is None if nothing was uploaded."""

    folder: Path | None
    address: str | None
    mean_reward: str
    files: tuple[str, ...]


def push(
    run: str | os.PathLike[str],
    repository: str,
    *,
    to: str | os.PathLike[str] | None = None,
    dry_run: bool = False,
    which: Which | int = "best",
    episodes: int | None = None,
    seed: int = 0,
    greedy: bool = False,
    film: bool = True,
    private: bool = False,
    env_fn: EnvFn | None = None,
    trust: bool = False,
    **given: Any,
) -> Pushed:
    """Plays new episodes, writes the files and uploads them to `owner/name`. With `to` they are written into that folder and stay
    here; with `dry_run` they are written to a folder that is removed again, to see that all goes well. The rest is as in
    `evaluate`."""
    hub.check_repository(repository)
    away = to is None and not dry_run
    if away:
        hub.check_ready(repository)
    chosen: dict[str, Any] = {"which": which, "env_fn": env_fn, "trust": trust, **given}
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        _, card = export(run, home / hub.WEIGHTS, **chosen)
        score = evaluate(run, episodes=episodes, seed=seed, greedy=greedy, **chosen)
        each = next(iter(score.tasks.values())).episodes if score.tasks else score.episodes
        how = f"--episodes {each} --seed {seed}" + " --greedy" * greedy
        told = json.loads(card.read_text("utf-8"))
        told["score"] = model_card.score_of(score, command=f"gtrxl eval hf:{repository} {how}")
        told["config"] = told.pop("config")
        card.write_text(json.dumps(told, indent=2) + "\n", "utf-8")
        filmed = _filmed(run, home / FILM, seed=seed, greedy=greedy, **chosen) if film else None
        (home / "README.md").write_text(model_card.readme(told, repository=repository, film=filmed), "utf-8")
        files = tuple(sorted(path.name for path in home.iterdir()))
        reward = model_card.mean_reward(told["score"])
        if to is not None:
            _copied(home, Path(to))
        address = hub.upload(home, repository, private=private, message=f"{told['what']}: {reward}") if away else None
    return Pushed(None if to is None else Path(to), address, reward, files)


def _filmed(run: str | os.PathLike[str], to: Path, **chosen: Any) -> str | None:
    """The name of the film; None where a task cannot be drawn, which is said: the agent is none the worse for it."""
    try:
        return watch(run, to, **chosen)[0].name
    except RunError as error:
        say(f"without a film: {error}")
        return None


def _copied(home: Path, to: Path) -> None:
    try:
        shutil.copytree(home, to, dirs_exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write to {to}: {first_line(error)}; choose another folder with --to") from error
