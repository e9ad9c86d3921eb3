"""What ARCHITECTURE.md says of the rooms is what tests/test_imports.py holds them to."""

import re
from pathlib import Path

from tests.test_imports import ANYONE, MAY_USE

PAGE = (Path(__file__).parents[1] / "ARCHITECTURE.md").read_text()
ROOMS = re.findall(r"^\| `(\w+)/` \|", PAGE, re.MULTILINE)


def test_every_room_is_there_once():
    assert sorted(ROOMS) == sorted(set(MAY_USE) - ANYONE)


def test_each_room_uses_only_those_above_it():
    for place, room in enumerate(ROOMS):
        assert MAY_USE[room] <= set(ROOMS[:place]), room
