"""What the card beside an exported program says: its inputs and outputs, what is fed back, and what the numbers mean."""

from typing import Any

from gtrxl.evaluation.formats.stablehlo import observation_in_words
from gtrxl.evaluation.restored import Restored
from gtrxl.gym.spaces import Spaces
from gtrxl.gym.spaces.hand import Choice, Hand
from gtrxl.gym.spaces.lens import Choices, Lens, NumberPart
from gtrxl.torch.export.step import Port, Step


def card_of(step: Step, restored: Restored, *, format: str, read_with: str) -> dict[str, Any]:
    """Plain data for JSON."""
    said = {
        "format": format,
        "read_with": read_with,
        "observation_is": observation_in_words(restored.config, restored.tasks),
        "inputs": {port.name: _said(port) for port in step.inputs()},
        "outputs": {port.name: _said(port) for port in step.outputs()},
        "fed_back": step.fed_back(),
        "begin": "zeros for every state.*, and reset true at the first step of an episode",
    }
    shown = restored.tasks.shown
    if isinstance(shown, Spaces):  # what a Gymnasium task shows is brought into one form first, and what is done is taken apart
        said |= {"numbers": numbers_in(shown.lens), "actions": actions_of(shown.hand)}
    return said


def numbers_in(lens: Lens) -> list[dict[str, Any]]:
    """What stands where in the numbers that an agent of a Gymnasium task is shown."""
    found: list[dict[str, Any]] = []
    for part in lens.parts:
        if isinstance(part, NumberPart):
            how = "one-hot" if isinstance(part, Choices) else "flattened"
            found.append({"what": f"{part.place}, {how}", "size": part.size})
    if lens.previous != "none":
        form = "choices one-hot, then numbers; zeros at first"
        found.append({"what": f"the action before, as the policy gave it: {form}", "size": lens.hand.spec.noise})
    if lens.previous == "action+reward":
        found.append({"what": "the reward that it brought; zero at first", "size": 1})
    return found


def actions_of(hand: Hand) -> list[dict[str, Any]]:
    """What becomes of a policy's choices and numbers, part by part in their order: a choice is counted from its start, a number
    in [-1, 1] is stretched between its bounds."""
    return [
        {"choices": list(leaf.counts), "starts": list(leaf.starts)}
        if isinstance(leaf, Choice)
        else {"low": [float(low) for low in leaf.line[0]], "high": [float(high) for high in leaf.line[1]]}
        for leaf in hand.leaves
    ]


def _said(port: Port) -> dict[str, Any]:
    return {"dtype": port.dtype, "shape": list(port.shape)}
