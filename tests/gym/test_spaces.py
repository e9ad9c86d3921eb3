"""Lens and Hand: any space there and back, and every broken promise of a task named."""

import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text, Tuple
from hypothesis import assume, given
from hypothesis import strategies as st

from gtrxl.gym.spaces import ActionSpec, Hand, Lens, ObservationSpec, Previous
from gtrxl.networks.language import word_buckets
from gtrxl.tasks.errors import TaskError

HAND = Hand.of(Discrete(3, start=5))


def lens_of(space, *, previous: Previous = "none") -> Lens:
    return Lens.of(space, hand=HAND, previous=previous)


def floats(*numbers: float) -> np.ndarray:
    return np.array(numbers, np.float32)


# Random spaces


@st.composite
def boxes(draw) -> Box:
    shape = tuple(draw(st.lists(st.integers(1, 3), max_size=3)))
    dtype = draw(st.sampled_from([np.float32, np.float64, np.int32, np.uint8, np.int64, np.float16]))
    if np.issubdtype(dtype, np.integer):
        low = draw(st.integers(0, 100))
        return Box(low, low + draw(st.integers(0, 100)), shape, dtype)
    # Bounds on both sides, on one, or on none, number by number.
    size = int(np.prod(shape))
    number = st.floats(-100, 100, width=16)
    ends = [sorted((draw(number), draw(number))) for _ in range(size)]
    low = [draw(st.sampled_from([end[0], -np.inf])) for end in ends]
    high = [draw(st.sampled_from([end[1], np.inf])) for end in ends]
    return Box(np.array(low, dtype).reshape(shape), np.array(high, dtype).reshape(shape), shape, dtype)


LEAVES = st.one_of(
    boxes(),
    st.builds(lambda n, start: Discrete(n, start=start), st.integers(1, 6), st.integers(-3, 3)),
    st.lists(st.integers(1, 4), min_size=1, max_size=4).map(lambda counts: MultiDiscrete(counts, start=[-1] * len(counts))),
    st.just(MultiDiscrete(np.array([[2, 3], [4, 5]]))),
    st.sampled_from([MultiBinary(3), MultiBinary((2, 2))]),
)
SPACES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(Tuple),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3).map(Dict),
    ),
    max_leaves=5,
)


def draws(spec: ActionSpec, seed: int, spread: float) -> Any:
    """What a policy of that kind may draw for one stream."""
    random = np.random.default_rng(seed)
    discrete = np.array([random.integers(count) for count in spec.discrete], np.int32)
    continuous = (spread * random.standard_normal(spec.continuous)).astype(np.float32)
    if spec.kind == "categorical":
        return discrete[0]
    if spec.kind == "gaussian":
        return continuous
    return ({"discrete": discrete} if spec.discrete else {}) | ({"continuous": continuous} if spec.continuous else {})


@given(SPACES, st.integers(0, 1000), st.sampled_from([0.0, 0.5, 30.0]))
def test_every_action_is_a_member_of_its_space(space, seed, spread):
    hand = Hand.of(space)
    action = draws(hand.spec, seed, spread)
    member = hand.to_task(action)
    assert space.contains(member), (space, member)
    told = hand.features(action)
    assert told.dtype == np.float32
    assert told.shape == hand.nothing.shape == (sum(hand.spec.discrete) + hand.spec.continuous,)
    assert told[: sum(hand.spec.discrete)].sum() == len(hand.spec.discrete), "one 1 for each choice"
    assert not hand.nothing.any()
    again = pickle.loads(pickle.dumps(hand))
    assert again == hand
    assert hash(again) == hash(Hand.of(space))


@given(SPACES, st.integers(0, 1000), st.sampled_from(["none", "action", "action+reward"]))
def test_every_observation_is_what_its_spec_says(space, seed, previous):
    lens = lens_of(space, previous=previous)
    space.seed(seed)
    observation = space.sample()
    seen, zeros = lens(observation, action=1, reward=2.5), lens.spec.zeros()
    parts = seen.items() if isinstance(seen, dict) else [("", seen)]
    wanted = zeros if isinstance(zeros, dict) else {"": zeros}
    assert [(name, part.shape, part.dtype) for name, part in parts] == [(name, x.shape, x.dtype) for name, x in wanted.items()]
    if isinstance(seen, np.ndarray):
        told = {"none": 0, "action": 3, "action+reward": 4}[previous]
        flat = np.asarray(gymnasium.spaces.flatten(space, observation), np.float32)  # an independent way to the same numbers
        assert np.array_equal(seen[: len(seen) - told], flat)
        assert np.array_equal(seen[len(seen) - told :], [0, 1, 0, 2.5][:told])
    again = pickle.loads(pickle.dumps(lens))
    assert again == lens
    assert hash(again) == hash(lens)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5), st.integers(0, 1000))
def test_different_actions_are_different_in_the_task_and_in_what_is_told(counts, seed):
    hand = Hand.of(MultiDiscrete(counts))
    one, other = draws(hand.spec, seed, 1.0), draws(hand.spec, seed + 1, 1.0)
    assume(not np.array_equal(one["discrete"], other["discrete"]))
    assert not np.array_equal(hand.to_task(one), hand.to_task(other))
    assert not np.array_equal(hand.features(one), hand.features(other))


# Actions


def test_numbers_are_clipped_and_stretched_between_two_bounds_and_shifted_by_one():
    inf = np.inf
    space = Box(np.array([0, -2, 3, -inf, -inf], np.float32), np.array([10, 2, inf, 3, inf], np.float32), dtype=np.float32)
    hand = Hand.of(space)
    np.testing.assert_allclose(hand.to_task(floats(-1, -1, -1, 1, -7)), [0, -2, 3, 3, -7])
    np.testing.assert_allclose(hand.to_task(floats(0, 0.5, 0.5, 0.5, 7)), [5, 1, 4.5, 2.5, 7])
    np.testing.assert_allclose(hand.to_task(floats(9, -9, -9, 9, 0)), [10, -2, 3, 3, 0])
    np.testing.assert_allclose(hand.features(floats(9, -9, -9, 9, -9)), [1, -1, -1, 1, -9])


def test_the_largest_float_is_no_bound():
    most = np.finfo(np.float32).max
    assert Hand.of(Box(-most, most, (1,), np.float32)).to_task(floats(0.5)) == floats(0.5)


def test_pure_spaces_keep_their_own_policies_and_mixes_are_hybrid():
    assert Hand.of(Discrete(4)).spec == ActionSpec("categorical", discrete=(4,))
    assert Hand.of(Box(-1, 1, (2, 3))).spec == ActionSpec("gaussian", continuous=6)
    assert Hand.of(MultiBinary(2)).spec == ActionSpec("hybrid", discrete=(2, 2))
    mixed = Dict({"move": Box(-1, 1, (2,)), "say": Tuple([Discrete(3), MultiDiscrete([2, 4])])})
    assert Hand.of(mixed).spec == ActionSpec("hybrid", discrete=(3, 2, 4), continuous=2)
    made = Hand.of(mixed).to_task({"discrete": np.array([2, 1, 3]), "continuous": np.array([0.25, -1])})
    assert made["say"][0] == 2
    assert made["say"][1].tolist() == [1, 3]
    assert made["move"].tolist() == [0.25, -1]


def test_a_discrete_action_counts_from_its_start():
    assert [int(HAND.to_task(i)) for i in range(3)] == [5, 6, 7]


@pytest.mark.parametrize("space", [Discrete(4), Discrete(3, start=-1), Discrete(2, start=5)])
def test_one_choice_by_the_short_way_is_what_the_long_way_gives(space):
    """What a policy gives is a NumPy integer; an array of one goes the way of all other spaces."""
    hand = Hand.of(space)
    for action in range(int(space.n)):
        short, long = hand.to_task(np.int32(action)), hand.to_task(np.array([action]))
        assert (short, type(short), short in space) == (long, type(long), True)
        told = hand.nothing
        hand.tell(np.int32(action), told)
        np.testing.assert_array_equal(told, hand.features(np.array([action])))
    lens = lens_of(space)
    for value in range(int(space.start), int(space.start + space.n)):
        np.testing.assert_array_equal(lens(value), lens(np.array(value)))
        np.testing.assert_array_equal(lens(np.int64(value)), lens(np.array([value])))
    for wrong in (int(space.start) - 1, int(space.start + space.n), True, 1.0):
        with pytest.raises(TaskError, match="observation must be"):
            lens(wrong)


def test_an_agent_that_draws_no_numbers_is_told_that_it_diverged():
    with pytest.raises(TaskError, match=r"an action must be finite, got \[nan\]; the agent has diverged"):
        Hand.of(Box(-1, 1, (1,))).to_task(floats(np.nan))


# Observations


def test_before_the_first_action_nothing_is_told():
    lens = lens_of(Discrete(2), previous="action+reward")
    assert lens(1).tolist() == [0, 1, 0, 0, 0, 0]
    assert lens(0, action=2, reward=-1.5).tolist() == [1, 0, 0, 0, 1, -1.5]


PICTURES = {(8, 9, 3): (8, 9, 3), (8, 9, 1): (8, 9, 1), (4, 10, 12): (10, 12, 4), (9, 8): (9, 8, 1), (3, 8, 8): (8, 8, 3)}


@pytest.mark.parametrize("shape", PICTURES)
def test_pictures_stay_apart_with_their_channels_last(shape):
    lens = lens_of(Dict({"eye": Box(0, 255, shape, np.uint8), "x": Box(-1, 1, (2,))}))
    assert lens.spec == ObservationSpec(vector=2, images=(("image:eye", PICTURES[shape]),), measured=((0, 2),))
    picture = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    seen = lens({"eye": picture, "x": floats(1, 2)})
    channels_last = np.moveaxis(picture, 0, -1) if shape[0] in (3, 4) else picture.reshape(PICTURES[shape])
    assert np.array_equal(seen["image:eye"], channels_last)
    assert seen["vector"].tolist() == [1, 2]
    kept = seen["image:eye"].copy()
    picture[:] = 0
    assert np.array_equal(seen["image:eye"], kept), "a task may use its own array again"


@pytest.mark.parametrize(
    ("shape", "dtype"), [((7, 7, 3), np.uint8), ((8, 8, 20), np.uint8), ((8, 8, 3), np.float32), ((4,), bool)]
)
def test_other_arrays_are_flattened(shape, dtype):
    space = Box(0, 1, shape, dtype)
    space.seed(0)
    observation = space.sample()
    seen = lens_of(space)(observation)
    assert seen.dtype == np.float32
    assert np.array_equal(seen, observation.reshape(-1).astype(np.float32))


class Speech(gymnasium.Space):
    """Text that is not `Text`, as MiniGrid's missions are."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "go"


def test_text_becomes_word_buckets():
    lens = lens_of(Tuple([Text(9), Speech()]))
    assert lens.spec == ObservationSpec(vector=0, texts=(("text:0", 5), ("text:1", 32)))
    seen = lens(("Red ball", "go to the red ball"))
    assert list(seen) == ["text:0", "text:1"], "no numbers, no vector"
    assert seen["text:0"].tolist() == word_buckets("red ball", 5).tolist()
    assert seen["text:1"].tolist() == word_buckets("go to the red ball", 32).tolist()


MIX = Dict({"n": Discrete(3, start=1), "m": MultiDiscrete([2, 2]), "x": Tuple([Box(-1, 1, (2,)), Box(0, 255, (8, 8), np.uint8)])})
FINE = {"n": 2, "m": np.array([0, 1]), "x": (floats(0, 1), np.zeros((8, 8), np.uint8))}


@pytest.mark.parametrize(("change", "said"), [
    ({"n": 0}, r"observation\['n'\] must be from 1 to 3, got 0"),
    ({"n": 1.0}, r"observation\['n'\] must be a whole number, got 1.0 \(float\)"),
    ({"n": True}, r"observation\['n'\] must be a whole number, got True"),
    ({"m": np.array([0, 2])}, r"observation\['m'\] must be from 0 to 1, got 2"),
    ({"m": np.array([0])}, r"observation\['m'\] must have shape \[2\], got int64 of shape \[1\]"),
    ({"x": (floats(0, 1, 2), FINE["x"][1])}, r"observation\['x'\]\[0\] must have shape \[2\], got float32 of shape \[3\]"),
    ({"x": (floats(0, np.nan), FINE["x"][1])}, r"observation\['x'\]\[0\] must be finite in float32, got nan at \[1\]"),
    ({"x": (np.array([0, 1e300]), FINE["x"][1])}, r"observation\['x'\]\[0\] must be finite in float32, got 1e\+300 at \[1\]"),
    ({"x": ([1, [2]], FINE["x"][1])}, r"observation\['x'\]\[0\] must hold numbers, got \[1, \[2\]\]"),
    ({"x": (None, FINE["x"][1])}, r"observation\['x'\]\[0\] must hold numbers, got None"),
    ({"x": (FINE["x"][0], np.zeros((8, 8)))}, r"observation\['x'\]\[1\] must be uint8, got float64 of shape \[8, 8\]"),
    ({"x": (FINE["x"][0], np.zeros((9, 8), np.uint8))}, r"observation\['x'\]\[1\] must have shape \[8, 8\], got uint8"),
    ({"x": (FINE["x"][0],)}, r"observation\['x'\]\[1\] is missing, got 1 of them"),
    ({"x": {"a": 1}}, r"observation\['x'\] must be a tuple, got"),
])  # fmt: skip
def test_what_breaks_the_space_is_named(change, said):
    lens = lens_of(MIX)
    lens(FINE)
    with pytest.raises(TaskError, match=said + ".*; the task breaks its own observation_space") as caught:
        lens(FINE | change)
    assert "\n" not in str(caught.value)


def test_a_missing_entry_and_a_wrong_whole_are_named():
    with pytest.raises(TaskError, match=r"observation\['m'\] is missing, got \['n', 'x'\]"):
        lens_of(MIX)({"n": 1, "x": FINE["x"]})
    with pytest.raises(TaskError, match=r"observation must be a dict, got float32 of shape \[2\]"):
        lens_of(MIX)(floats(1, 2))
    with pytest.raises(TaskError, match="observation must be text, got 3"):
        lens_of(Text(4))(3)
    with pytest.raises(TaskError, match="reward must be finite, got nan"):
        lens_of(Discrete(2), previous="action+reward")(1, action=0, reward=float("nan"))


UNKNOWN = [Sequence(Discrete(2)), Graph(Box(0, 1, (2,)), None), OneOf([Discrete(2), Box(0, 1, (1,))])]


@pytest.mark.parametrize("space", UNKNOWN)
def test_a_space_that_is_not_supported_is_named_with_its_path(space):
    name = type(space).__name__
    with pytest.raises(TaskError, match=rf"observation\['a'\]\[1\] must be Box, .*, got {name}.*; wrap the task") as caught:
        lens_of(Dict({"a": Tuple([Discrete(2), space])}))
    assert "\n" not in str(caught.value)
    with pytest.raises(TaskError, match=rf"action\['a'\]\[1\] must be Discrete, .*, got {name}.*; wrap the task") as caught:
        Hand.of(Dict({"a": Tuple([Discrete(2), space])}))
    assert "\n" not in str(caught.value)


def test_spaces_with_nothing_in_them_and_with_too_much_are_refused():
    with pytest.raises(TaskError, match="observations must have something in them"):
        lens_of(Dict({}))
    with pytest.raises(TaskError, match="an action must have a choice or a number in it"):
        Hand.of(Tuple([]))
    with pytest.raises(TaskError, match="observation must have at most 100000 values in all"):
        lens_of(Discrete(10**9))
    with pytest.raises(TaskError, match="a choice must be among 1 to 100000 values, got 1000000000"):
        Hand.of(Discrete(10**9))


# Compiled tasks


def test_the_spec_of_a_compiled_task_is_read_from_its_space():
    assert ObservationSpec.of(Box(-1, 1, (7,))) == ObservationSpec(vector=7)
    eye, words = Box(0, 255, (16, 12, 3), np.uint8), Box(-1, 999, (4,), np.int32)
    spec = ObservationSpec.of(Dict({"vector": Box(-1, 1, (2,)), "eye": eye, "told": words}))
    assert spec == ObservationSpec(vector=2, images=(("eye", (16, 12, 3)),), texts=(("told", 4),))
    zeros = spec.zeros(5)
    assert {name: (x.shape, x.dtype) for name, x in zeros.items()} == {
        "vector": ((5, 2), np.float32), "eye": ((5, 16, 12, 3), np.uint8), "told": ((5, 4), np.int32)
    }  # fmt: skip
    for space in (Discrete(3), Box(0, 1, (2, 2)), Dict({"eye": Box(0, 1, (3,))}), Dict({"vector": eye})):
        with pytest.raises(TaskError, match="a compiled task shows floats with one axis, or a Dict"):
            ObservationSpec.of(space)
