"""The RLModule of RLlib's new stack: acting step by step and learning from sequences say the same."""

import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch", reason="pip install 'gtrxl[rllib]'")
pytest.importorskip("ray.rllib", reason="pip install 'gtrxl[rllib]'", exc_type=ImportError)

from ray.rllib.core.columns import Columns

from gtrxl.cores.errors import CoreError
from gtrxl.trainers.rllib import CoreRLModule
from tests.marks import few
from tests.trainers.tasks import CORES, TRANSFORMERS

torch.set_num_threads(1)
pytestmark = pytest.mark.filterwarnings("default")  # PyTorch's and Ray's own are not ours to judge

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
B, T = 2, 9


def make(core="gtrxl-gru", sees=BOX, does=None, **config):
    torch.manual_seed(0)
    sizes = {"d_model": 8, "layers": 2}
    if core in TRANSFORMERS:
        sizes |= {"heads": 2, "memory": 4}
    given = {"core": core, "core_kwargs": sizes, "max_seq_len": T} | config
    return CoreRLModule(observation_space=sees, action_space=does or spaces.Discrete(3), model_config=given)


def start(module):
    return {name: torch.as_tensor(part)[None].repeat(B, 1) for name, part in module.get_initial_state().items()}


@pytest.mark.parametrize(
    "core", few((core for core in CORES if core != "none"), keep=lambda _, core: core in ("gtrxl-gru", "lstm"))
)
@pytest.mark.parametrize(
    "sees", [BOX, spaces.Discrete(4), spaces.Box(-1.0, 1.0, (2, 2), np.float32)], ids=["vector", "number", "matrix"]
)
def test_steps_equal_sequences(core, sees):
    module = make(core, sees)
    seen = torch.as_tensor(np.stack([[sees.sample() for _ in range(T)] for _ in range(B)]))
    state, logits, values = start(module), [], []
    for t in range(T):
        said = module.forward_exploration({Columns.OBS: seen[:, t : t + 1], Columns.STATE_IN: state})
        logits.append(said[Columns.ACTION_DIST_INPUTS])
        values.append(module.compute_values({Columns.OBS: seen[:, t : t + 1], Columns.STATE_IN: state}))
        state = said[Columns.STATE_OUT]
    batch = {Columns.OBS: seen, Columns.STATE_IN: start(module)}
    whole = module.forward_train(batch)
    torch.testing.assert_close(whole[Columns.ACTION_DIST_INPUTS], torch.cat(logits, dim=1), rtol=0, atol=2e-5)
    torch.testing.assert_close(
        module.compute_values(batch, whole[Columns.EMBEDDINGS]), torch.cat(values, dim=1), rtol=0, atol=2e-5
    )
    torch.testing.assert_close(whole[Columns.STATE_OUT], state, rtol=0, atol=2e-5)


def test_what_is_padded_changes_nothing():
    module = make()
    seen = torch.randn(B, T, 3)
    padded = seen.clone()
    padded[0, 5:] = 0.0
    said = [module.forward_train({Columns.OBS: each, Columns.STATE_IN: start(module)}) for each in (seen, padded)]
    logits = [each[Columns.ACTION_DIST_INPUTS] for each in said]
    torch.testing.assert_close(logits[0][0, :5], logits[1][0, :5], rtol=0, atol=0)
    torch.testing.assert_close(logits[0][1], logits[1][1], rtol=0, atol=0)


def test_no_memory_is_no_state():
    module = make("none")
    assert not module.is_stateful()
    said = module.forward_train({Columns.OBS: torch.randn(5, 3)})
    assert said[Columns.ACTION_DIST_INPUTS].shape == (5, 3)
    assert module.compute_values({Columns.OBS: torch.randn(5, 3)}).shape == (5,)
    assert make().is_stateful()


def test_an_encoder_of_ones_own():
    def encoder(space):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(int(np.prod(space.shape)), 6))

    pictures = spaces.Box(-1.0, 1.0, (4, 4, 3), np.float32)
    module = make(sees=pictures, does=spaces.Box(-1.0, 1.0, (2,), np.float32), encoder=encoder)
    assert module.core.input_size == 6
    said = module.forward_train({Columns.OBS: torch.randn(B, T, 4, 4, 3), Columns.STATE_IN: start(module)})
    assert said[Columns.ACTION_DIST_INPUTS].shape == (B, T, 4)


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ({"widht": 3}, "model_config of CoreRLModule takes no 'widht'"),
        ({"core": "gtrlx"}, "there is no core 'gtrlx'"),
        ({"sees": spaces.Dict({"a": BOX})}, "observations must be a Box or a Discrete, got Dict"),
        ({"does": spaces.MultiDiscrete([2, 2])}, "actions must be a Discrete or a Box, got MultiDiscrete"),
    ],
)
def test_a_mistake_is_one_line(mistake, said):
    with pytest.raises(CoreError) as found:
        make(**mistake)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_what_rllib_adds_of_its_own_is_no_mistake():
    assert make(vf_share_layers=True).core.output_size == 8


def test_sequences_need_a_length():
    with pytest.raises(CoreError, match="model_config must have max_seq_len, got none"):
        CoreRLModule(observation_space=BOX, action_space=spaces.Discrete(2), model_config={"core": "gru"})
