"""The commands that list what there is: tasks, cores, params."""

import dataclasses
import json

from gtrxl.cli.tables import print_table, table


@dataclasses.dataclass(frozen=True)
class Tasks:
    """List the tasks, with the scores of a random policy and of a player with a perfect memory; and the sets of them that one
    agent can learn at once."""

    json: bool = False
    """Print the tasks as one JSON object instead, by name."""

    def run(self) -> None:
        """Prints the catalogue."""
        from gtrxl.gym.dmlab import levels as dmlab_levels
        from gtrxl.tasks.catalogue import TASKS
        from gtrxl.tasks.making import make_task
        from gtrxl.tasks.scores import reference_scores
        from gtrxl.tasks.sets import ABOUT, SETS

        scores = {name: reference_scores(make_task(name)) for name in TASKS}
        if self.json:
            print(
                json.dumps({name: {"about": TASKS[name].about, **dataclasses.asdict(scores[name])} for name in TASKS}, indent=2)
            )
            return
        made = table("task", ["random", "no memory", "perfect memory"], "what it is")
        for name, entry in TASKS.items():
            known = scores[name]
            without = "" if known.memoryless is None else f"{known.memoryless:.2f}"
            made.add_row(name, f"{known.random:.2f}", without, f"{known.best:.2f}", entry.about)
        print_table(made)
        made = table("set of tasks", ["tasks"], "what it is")
        for sets, about in ((SETS, ABOUT), (dmlab_levels.SETS, dmlab_levels.ABOUT)):
            for name, members in sets.items():
                made.add_row(name, str(len(members)), about[name])
        made.add_row("A+B", "2", "any tasks that are seen and acted on alike, as many as you like: t-maze+t-maze:corridor=20")
        print()
        print_table(made)
        print("\nsettings after a colon, to every task of a set: memory-maze:size=5, lab12:height=24,width=32")


@dataclasses.dataclass(frozen=True)
class Params:
    """Print the paper's parameter table beside ours: the nine DMLab-30 agents and MERLIN, counted part by part."""

    parts: bool = False
    """Also show what each part has: vision, language, core, policy, value, pixel control."""

    json: bool = False
    """Print one JSON list instead, with every number in full."""

    def run(self) -> None:
        """Counts and prints."""
        from gtrxl.networks.counts import PARTS, count_paper_models

        counts = count_paper_models()
        if self.json:
            rows = [
                {
                    **dataclasses.asdict(count.paper),
                    "total": count.total,
                    "difference_percent": None if count.difference is None else round(count.difference, 3),
                    "parts": count.parts,
                }
                for count in counts
            ]
            print(json.dumps(rows, indent=2))
            return
        columns = ["paper", "ours", "difference", *([part.replace("_", " ") for part in PARTS] if self.parts else ["core only"])]
        made = table("model", columns)
        for count in counts:
            shown = PARTS if self.parts else ("core",)
            made.add_row(
                count.paper.label,
                "-" if count.paper.millions is None else f"{count.paper.millions:g} M",
                f"{count.total / 1e6:.3f} M",
                "-" if count.difference is None else f"{count.difference:+.2f} %",
                *(f"{count.parts[part] / 1e6:.3f} M" for part in shown),
            )
        print_table(made)


@dataclasses.dataclass(frozen=True)
class Cores:
    """List the cores: what can remember, one line each."""

    json: bool = False
    """Print one JSON object instead: name -> line."""

    def run(self) -> None:
        """Prints the catalogue."""
        from gtrxl.cores import CORES

        if self.json:
            print(json.dumps({name: line for name, (_, _, line) in CORES.items()}, indent=2))
            return
        made = table("core", [], "what it is")
        for name, (_, _, line) in CORES.items():
            made.add_row(name, line)
        print_table(made)
