"""The command `tasks`: what can be learned, one task or several at once."""

import dataclasses
import json

from gtrxl.tables import print_table, table


@dataclasses.dataclass(frozen=True)
class Tasks:
    """List the tasks, with the scores of a random policy and of a player with a perfect memory; and the sets of them that one
    agent can learn at once."""

    json: bool = False
    """Print the tasks as one JSON object instead, by name."""

    def run(self) -> None:
        """Prints the catalogue."""
        from gtrxl.envs import dmlab_levels
        from gtrxl.envs.catalogue import TASKS, make_task
        from gtrxl.envs.scores import reference_scores
        from gtrxl.envs.sets import ABOUT, SETS

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
