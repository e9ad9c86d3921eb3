"""The TorchRL module: steps equal windows, whatever begins where."""

# pyright: reportArgumentType=false, reportOptionalMemberAccess=false, reportCallIssue=false

import pytest

torch = pytest.importorskip("torch", reason="pip install 'gtrxl[torchrl]'")
pytest.importorskip("torchrl", reason="pip install 'gtrxl[torchrl]'")

from tensordict import TensorDict
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.envs import GymWrapper, InitTracker, SerialEnv, TransformedEnv
from torchrl.modules import LSTMModule, set_recurrent_mode
from torchrl.objectives.value import GAE

import gtrxl.torch
from gtrxl.cores.errors import CoreError
from gtrxl.trainers.torchrl import CoreModule
from tests.marks import few
from tests.trainers.tasks import CORES, TRANSFORMERS, Noise

torch.set_num_threads(1)
nn = torch.nn
pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's and TorchRL's own are not ours to judge

STREAMS, STEPS = 2, 15


def make(core="gtrxl-gru", **keys):
    torch.manual_seed(0)
    sizes = {"d_model": 8, "layers": 2}
    if core in TRANSFORMERS:
        sizes |= {"heads": 2, "memory": 4}
    keys = keys or {"in_key": "observation", "out_key": "feature"}
    return CoreModule(gtrxl.torch.make_core(core, input_size=3, **sizes), **keys)


def policy_of(memory):
    torch.manual_seed(1)
    head = TensorDictModule(nn.Linear(memory.core.output_size, 3), in_keys=["feature"], out_keys=["logits"])
    chosen = TensorDictModule(lambda logits: nn.functional.one_hot(logits.argmax(-1), 3), in_keys=["logits"], out_keys=["action"])
    return TensorDictSequential(memory, head, chosen)


def rollout(memory, steps=STEPS):
    """Of noise whose episodes have 2 to 9 steps, twice: the second begins in the midst of them."""

    def one():
        return TransformedEnv(GymWrapper(Noise()), InitTracker())

    envs = TransformedEnv(SerialEnv(STREAMS, one), memory.make_tensordict_primer())
    envs.set_seed(0)
    first = envs.rollout(7, policy_of(memory), break_when_any_done=False)
    begin = first[:, -1]["next"]
    again = envs.step_mdp(first[:, -1])
    again = envs.maybe_reset(again) if bool(begin["done"].any()) else again
    return envs.rollout(steps, policy_of(memory), break_when_any_done=False, auto_reset=False, tensordict=again)


@pytest.mark.parametrize("core", few(CORES, keep=lambda _, core: core in ("gtrxl-gru", "lstm", "none")))
def test_steps_equal_windows(core):
    memory = make(core)
    with torch.no_grad():
        data = rollout(memory)
        assert data["is_init"][:, 1:].any()
        stepped = data["feature"].clone()
        kept = data.clone()
        with set_recurrent_mode(True):
            memory(data)
    torch.testing.assert_close(data["feature"], stepped, rtol=0, atol=2e-5)
    for key in memory.out_keys[1:]:
        assert torch.equal(data[key], kept[key])


def test_it_is_what_the_core_says():
    """The module against the core itself, over a window in the midst of which an episode begins."""
    memory = make()
    xs, begins = torch.randn(STREAMS, STEPS, 3), torch.zeros(STREAMS, STEPS, 1, dtype=torch.bool)
    begins[:, 0], begins[1, 6] = True, True
    data = TensorDict({"observation": xs, "is_init": begins}, [STREAMS, STEPS])
    with torch.no_grad(), set_recurrent_mode(True):
        memory(data)
        ys, _ = memory.core.unroll(xs, memory.core.initial_state(STREAMS), resets=begins[..., 0])
    torch.testing.assert_close(data["feature"], ys, rtol=0, atol=2e-5)


@pytest.mark.parametrize("shifted", [False, True])
def test_advantages_are_those_of_steps(shifted):
    """TorchRL's estimator runs the observations after each step too, where the memory is the one after that step."""
    memory = make()
    torch.manual_seed(2)
    value = TensorDictSequential(memory, TensorDictModule(nn.Linear(8, 1), in_keys=["feature"], out_keys=["state_value"]))
    with torch.no_grad():
        data = rollout(memory)
        after = data["next"].clone()  # every observation that came after a step, with the memory of then: one step each
        after["is_init"] = torch.zeros_like(after["is_init"])
        expected = value(after)["state_value"]
        gae = GAE(gamma=0.9, lmbda=0.8, value_network=value, deactivate_vmap=True, shifted=shifted, shifted_budget=STEPS)
        with set_recurrent_mode(True):
            found = gae(data.clone())
    ended = data["next", "terminated"]
    torch.testing.assert_close(found["next", "state_value"][~ended], expected[~ended], rtol=0, atol=2e-5)


def test_gradients_flow_through_a_window_and_not_into_its_state():
    memory = make()
    with torch.no_grad():
        data = rollout(memory)
    state = data["memory_inputs"].requires_grad_()
    seen = data["observation"].requires_grad_()
    with set_recurrent_mode(True):
        memory(data)["feature"][:, -1].sum().backward()
    assert state.grad is None or not state.grad.any()
    assert seen.grad is not None
    assert seen.grad[:, -2].any()


def test_keys_are_those_of_torchrl_s_own_modules():
    ours = make("lstm")
    theirs = LSTMModule(input_size=3, hidden_size=8, num_layers=2, in_key="observation", out_key="feature")
    assert len(ours.in_keys) == len(theirs.in_keys)
    assert [key[0] for key in ours.out_keys[1:]] == [key[0] for key in theirs.out_keys[1:]] == ["next", "next"]
    assert ours.in_keys[-1] == theirs.in_keys[-1] == "is_init"
    assert [spec.shape for spec in ours.make_tensordict_primer().primers.values(True, True)] == [
        spec.shape for spec in theirs.make_tensordict_primer().primers.values(True, True)
    ]


def test_one_step_by_arguments():
    memory = make()
    empty = memory.core.initial_state(1)
    feature, inputs, filled = memory(
        observation=torch.ones(3),
        memory_inputs=empty.inputs[0],
        memory_filled=empty.filled,
        is_init=torch.ones(1, dtype=torch.bool),
    )
    assert feature.shape == (8,)
    assert (inputs.shape, filled.item()) == (empty.inputs[0].shape, 1)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"in_key": "observation"}, "give out_key or out_keys, got neither"),
        ({"in_key": "a", "in_keys": ["a"], "out_key": "b"}, "give in_key or in_keys, got both"),
        ({"in_keys": ["a", "b"], "out_key": "c"}, "in_keys must be a value and 2 of state (inputs, filled), got ['a', 'b']"),
    ],
)
def test_a_mistake_is_one_line(keys, said):
    with pytest.raises(CoreError) as found:
        make(**keys)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_a_state_must_come_back():
    memory = make(in_keys=["x", "a", "b"], out_keys=["y", ("next", "a"), ("next", "c")])
    with pytest.raises(CoreError, match="a state must go out as"):
        memory.make_tensordict_primer()
