"""Cores by name, by place and from classes: what each takes, and what is said of a class that makes no core."""

import jax
import jax.numpy as jnp
import pytest

from gtrxl import LSTM, CoreError, Transformer, make_core
from gtrxl.cores import CORES, core_arguments, find_core
from gtrxl.testing import check_core
from tests.cores.average import Average
from tests.cores.building import NAMES
from tests.cores.test_errors import assert_one_clear_line

KEY = jax.random.key(0)
PLACE = f"{__name__}:Decaying"


class Decaying(Average):
    """A stranger's core, made as `make_core` makes one."""

    def __init__(self, input_size, *, decay=0.5, key):
        del key
        self.decay = jnp.asarray(decay)
        self.input_size = input_size
        self.flaw = ""


def anything(width, *, key, **arguments):
    return Decaying(width, key=key, **arguments)


def test_the_catalogue_is_the_names_in_order():
    assert tuple(CORES) == NAMES
    for name, entry in CORES.items():
        assert find_core(name) is entry
        assert entry.about


@pytest.mark.parametrize("core", [Decaying, PLACE, anything])
def test_a_stranger_s_core_is_made_by_its_place_or_its_class(core):
    made = make_core(core, input_size=3, key=KEY, decay=0.25)
    assert isinstance(made, Decaying)
    assert float(made.decay) == 0.25
    assert made.input_size == 3
    assert check_core(made).broken == ()


def test_our_classes_are_as_good_as_their_names():
    assert isinstance(make_core(LSTM, input_size=3, d_model=4, key=KEY), LSTM)
    assert isinstance(make_core("gtrxl.cores:LSTM", input_size=3, d_model=4, key=KEY), LSTM)


def test_arguments_are_those_that_a_name_leaves_open():
    transformer = {"d_model", "layers", "heads", "head_dim", "mlp", "memory", "gate_bias", "init_variance", "dtype"}
    assert core_arguments("gtrxl-gru") == transformer | {"norm_inputs"}
    assert core_arguments("trxl") == transformer
    assert core_arguments(Transformer) == transformer | {"norm_inputs", "gate"}
    assert core_arguments("lstm") == {"d_model", "layers", "skip", "dtype"}
    assert core_arguments(PLACE) == {"decay"}
    assert core_arguments(anything) == frozenset()


WRONG = {
    "no core": (
        lambda input_size, *, key: {"size": input_size},
        ["must give a core", "got a dict", "initial_state, step, unroll"],
    ),
    "no key": (lambda input_size: None, ["must be made by", "(input_size, key=key, ...)", "unexpected keyword argument 'key'"]),
    "more wanted": (lambda input_size, rate, *, key: None, ["missing a required argument: 'rate'", "as a core argument"]),
    "an instance": (Decaying(3, key=KEY), ["a class or a factory", "got a Decaying", "give the class"]),
    "a number": (3, ["a class or a factory", "got a int"]),
    "no module": ("no_such_package.here:Core", ["the core no_such_package.here:Core cannot be imported"]),
    "no class": ("tests.cores.test_catalogue:Decayin", ["there is no Decayin in", "did you mean Decaying?"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_makes_no_core_is_told_in_one_line(case):
    core, parts = WRONG[case]
    with pytest.raises(CoreError) as caught:
        make_core(core, input_size=3, key=KEY)
    assert_one_clear_line(caught, parts)


def test_a_factory_is_told_what_it_does_not_take():
    with pytest.raises(CoreError) as caught:
        make_core(Decaying, input_size=3, key=KEY, memory=4)
    assert_one_clear_line(caught, ["Decaying takes no 'memory'", "it takes decay"])
