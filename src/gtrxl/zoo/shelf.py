"""Which agents there are, and what their cards say. Needs no JAX.

`python benchmarks/zoo.py` makes them: an exported run (`gtrxl export`), whose card also has the command that trained it and the
score of the file over new episodes.
"""

from pathlib import Path
from typing import Any

from gtrxl import names
from gtrxl.runs import sealed
from gtrxl.runs.errors import RunError

PREFIX = "zoo:"
FOLDER = Path(__file__).parent / "agents"


def all_names() -> tuple[str, ...]:
    """Of all agents, in the order of the alphabet."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.safetensors")))


def path_of(name: str) -> Path:
    """The weights of an agent; its card lies beside them."""
    known = all_names()
    if name not in known:
        remedy = names.meant(name, known) or f"; there are {', '.join(known)}"
        raise RunError(f"the zoo has no agent {name!r}{remedy} (`gtrxl zoo` lists them)")
    return FOLDER / f"{name}.safetensors"


def card_of(name: str) -> dict[str, Any]:
    """What an agent's card says."""
    return sealed.read(path_of(name).with_suffix(".json"), remedy="install gtrxl again")
