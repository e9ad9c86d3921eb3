"""Things by their places: found, given, or said in one line not to be there."""

import pytest

from gtrxl import names
from gtrxl.names import PlaceError


class Here:
    class Inside:
        pass


def test_a_place_is_written_with_one_colon():
    good = ("package.module:Class", "m:f", "a.b.c:Outer.Inner", " m:f ")
    bad = ("m", "m:", ":f", "m:f:g", "gym:CartPole-v1", "3d:f", "a b:c", "dmlab:rooms watermaze", "https://x")
    assert all(map(names.is_place, good))
    assert not any(map(names.is_place, bad))


def test_what_is_given_is_found_without_an_import():
    def local():
        pass

    place = names.place_of(local)
    assert place.endswith(":test_what_is_given_is_found_without_an_import.<locals>.local")
    assert names.is_given(place)
    assert names.find(place, what="a function") is local


def test_others_are_imported():
    assert not names.is_given("json:dumps")
    assert names.find("json:JSONDecoder.decode", what="a function").__qualname__ == "JSONDecoder.decode"


@pytest.mark.parametrize(
    ("place", "line"),
    [
        ("no.such.package:f", "the core no.such.package:f cannot be imported: No module named 'no'; is its folder on the path"),
        ("json:dump5", "there is no dump5 in json; did you mean dump? the core is written package.module:Name"),
        ("__main__:Gone", "the core __main__:Gone lives in a script or inside a function and cannot be imported; give"),
    ],
)
def test_what_is_not_there_is_said_in_a_line(place, line):
    with pytest.raises(PlaceError) as caught:
        names.find(place, what="the core")
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_only_classes_and_functions_have_places():
    with pytest.raises(PlaceError, match="give the class, not an instance"):
        names.place_of(Here())
    assert names.place_of(Here.Inside).endswith(":Here.Inside")


def test_near_names_are_meant():
    assert names.meant("t-maz", ["t-maze", "recall"]) == "; did you mean t-maze?"
    assert names.meant("elephant", ["t-maze", "recall"]) == ""
