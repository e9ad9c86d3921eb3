"""The page of an agent at Hugging Face, README.md: data for its search and leaderboards, then what people want to know.

It is written from the exported card alone. Texts in the data are quoted as JSON does it, which YAML reads: a task's name may have
colons and commas in it.
"""

import json
import math
from typing import Any

TAGS = ("deep-reinforcement-learning", "reinforcement-learning", "gtrxl")


def score_of(evaluation: Any, *, command: str) -> dict[str, Any]:
    """What a card says of new episodes that were played (`Evaluation`), and with which command."""
    kept = ("mean_return", "std", "interval", "episodes", "seed", "random", "best", "best_is", "normalised")
    return {"command": command, **{name: getattr(evaluation, name) for name in kept}}


def mean_reward(score: dict[str, Any]) -> str:
    """As leaderboards have it: the mean and the standard deviation of episodes."""
    return f"{score['mean_return']:.2f} +/- {score['std']:.2f}"


def readme(card: dict[str, Any], *, repository: str, film: str | None = None) -> str:
    """The whole file. `card` has a `score`."""
    return f"{_data(card)}\n{_text(card, repository=repository, film=film)}"


def _data(card: dict[str, Any]) -> str:
    task, core, score = card["config"]["task"], card["config"]["core"], card["score"]
    quoted = {name: json.dumps(text) for name, text in (("task", task), ("core", core), ("reward", mean_reward(score)))}
    tags = "\n".join(f"- {json.dumps(tag)}" for tag in dict.fromkeys((task, *TAGS, core)))
    return f"""---
library_name: gtrxl
pipeline_tag: reinforcement-learning
tags:
{tags}
model-index:
- name: {quoted["core"]}
  results:
  - task:
      type: reinforcement-learning
      name: reinforcement-learning
    dataset:
      name: {quoted["task"]}
      type: {quoted["task"]}
    metrics:
    - type: mean_reward
      value: {quoted["reward"]}
      name: mean_reward
      verified: false
---
"""


def _text(card: dict[str, Any], *, repository: str, film: str | None) -> str:
    config, score = card["config"], card["score"]
    shown = f"\n![An episode]({film})\n" if film else ""
    low, high = score["interval"]
    lines = [
        f"mean return **{score['mean_return']:.2f}** over {score['episodes']} new episodes, 95 % interval {low:.2f} to "
        f"{high:.2f}, standard deviation {score['std']:.2f} (`{score['command']}`)"
    ]
    ends = [("a random policy", score["random"]), (score["best_is"] or "the best", score["best"])]
    known = [f"{who} gets {value:.2f}" for who, value in ends if value is not None and math.isfinite(value)]
    lines += ["; ".join(known)] if known else []
    return f"""# {config["core"]} for `{config["task"]}`
{shown}
An agent with a memory, trained by {config["algorithm"]} over {card["frames"]:,} frames with
[gtrxl](https://pypi.org/project/gtrxl/) {card["version"]}: {card["parameters"]:,} parameters.

## Use it

    pip install 'gtrxl[hub]'
    gtrxl eval hf:{repository}
    gtrxl watch hf:{repository} --to episode.gif

```python
import gtrxl

agent = gtrxl.load("hf:{repository}")
state = agent.initial_state()                          # at the start of an episode
action, state = agent.act(observation, state)          # at every step
```

## Score

{chr(10).join(f"- {line}" for line in lines)}

`agent.safetensors` has the weights, `agent.json` what they are, and all settings of the training under `config`.
"""
