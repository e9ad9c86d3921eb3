"""The commands about agents that are handed on: zoo, push."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated

import tyro

from gtrxl.cli.runs import Checkpoint, OwnCode
from gtrxl.cli.tables import print_table, table


@dataclasses.dataclass(frozen=True)
class Zoo:
    """List the trained agents that come with the package. `gtrxl watch zoo:NAME`, `gtrxl eval zoo:NAME` and, from Python,
    `gtrxl.load("zoo:NAME")` take them by name."""

    json: bool = False
    """Print one JSON object instead: name -> card."""

    def run(self) -> None:
        """Prints the shelf."""
        from gtrxl.zoo import shelf

        cards = {name: shelf.card_of(name) for name in shelf.all_names()}
        if self.json:
            print(json.dumps(cards, indent=2))
            return
        made = table("agent", ["parameters", "kB", "return", "random", "best"], "core", "task")
        for name, card in cards.items():
            size = shelf.path_of(name).stat().st_size / 1000
            score = card["score"]
            ends = ("" if score[end] is None else f"{score[end]:.2f}" for end in ("random", "best"))
            made.add_row(
                f"zoo:{name}",
                f"{card['parameters']:,}",
                f"{size:.0f}",
                f"{score['mean_return']:.2f} +/- {score['std']:.2f}",
                *ends,
                card["config"]["core"],
                card["about"],
            )
        print_table(made)
        print("\nreturn: mean and standard deviation of new episodes, by")
        for card in cards.values():
            print(f"  {card['score']['command']}")


@dataclasses.dataclass(frozen=True)
class Push:
    """Upload a trained agent to Hugging Face with a model card: its weights, the score of new episodes, a film of one
    (pip install 'gtrxl[hub]'). The token is that of `hf auth login`, or HF_TOKEN."""

    run_: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run's folder, or an agent that was exported: NAME.safetensors."""
    repo: tyro.conf.Positional[str]
    """Where to: owner/name. It is made if it is not there."""
    to: Path | None = None
    """Write the files into this folder instead, and upload nothing."""
    dry_run: bool = False
    """Do all of it but the upload, and keep nothing."""
    episodes: int | None = None
    """New episodes for the score; 256 if left out, of tasks with pictures 32."""
    seed: int = 0
    """Decides the episodes."""
    checkpoint: Checkpoint = "best"
    """Which agent: of the best report, of the last checkpoint, or of an update that there is a checkpoint of."""
    greedy: bool = False
    """Take the likeliest action instead of drawing one."""
    no_film: bool = False
    """Draw no episode."""
    private: bool = False
    """For your eyes only, if the repository is made."""
    own_code: tyro.conf.OmitArgPrefixes[OwnCode] = dataclasses.field(default_factory=OwnCode)

    def run(self) -> None:
        """Plays, writes, uploads."""
        from gtrxl.evaluation.sharing.push import push
        from gtrxl.training import programs

        programs.keep()
        done = push(
            self.run_,
            self.repo,
            to=self.to,
            dry_run=self.dry_run,
            which=self.checkpoint,
            episodes=self.episodes,
            seed=self.seed,
            greedy=self.greedy,
            film=not self.no_film,
            private=self.private,
            trust=self.own_code.known(),
        )
        files = ", ".join(done.files)
        where = done.address or (f"{done.folder}, not uploaded" if done.folder else "nothing uploaded, nothing kept (dry run)")
        print(f"mean_reward {done.mean_reward}; {files}: {where}")
