"""Counts as people write them, and what is no count in one clear line."""

import dataclasses

import pytest
import tyro
from hypothesis import given
from hypothesis import strategies as st

from gtrxl.cli.numbers import Frames, FramesIfAny, NumberError, count


@dataclasses.dataclass(frozen=True)
class Options:
    steps: Frames = 3_000_000
    """Frames."""
    more: FramesIfAny = None
    """More of them."""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("300000", 300_000),
        ("300_000", 300_000),
        ("300k", 300_000),
        ("300K", 300_000),
        ("2M", 2_000_000),
        ("2m", 2_000_000),
        ("0.3M", 300_000),
        ("1.5k", 1_500),
        ("1e6", 1_000_000),
        ("2.5E6", 2_500_000),
        ("10G", 10_000_000_000),
        ("10B", 10_000_000_000),
        (" 7 ", 7),
        ("1.0", 1),
        ("-5", -5),
    ],
)
def test_a_count_may_have_a_unit_or_an_exponent(text: str, number: int):
    assert count(text) == number
    assert type(count(text)) is int


@pytest.mark.parametrize(
    "text", ["1.5", "1e-3", "0.0001k", "", "k", "two", "1e", "1kk", "1e30", "1e999999999", "nan", "inf", "0x10"]
)
def test_what_is_no_count_is_said_with_how_one_is_written(text: str):
    with pytest.raises(
        NumberError, match=r"a number of frames must be whole, got .*; it is written like 300000, 300k, 2M or 1e6"
    ):
        count(text)


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_stay_what_they_are(number: int):
    assert count(str(number)) == number


def test_an_option_takes_them_and_shows_whole_numbers(capsys: pytest.CaptureFixture[str]):
    assert tyro.cli(Options, args=["--steps", "1e6"]) == Options(1_000_000)
    assert tyro.cli(Options, args=["--more", "300k"]) == Options(more=300_000)
    for wrong in (["--steps", "1.5"], ["--more", "1e-3"]):
        with pytest.raises(SystemExit):
            tyro.cli(Options, args=wrong)
        said = " ".join(capsys.readouterr().err.replace("│", " ").split())
        assert f"{wrong[0]}: a number of frames must be whole, got {wrong[1]}" in said
        assert "Spec" not in said
    with pytest.raises(SystemExit):
        tyro.cli(Options, args=["--help"])
    assert "--steps INT  Frames. (default: 3000000)" in capsys.readouterr().out
