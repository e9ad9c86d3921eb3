"""Weights go both ways under the names that `gtrxl export` writes, and weights of another core are told in one line."""

import copy
import io
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from safetensors.numpy import save_file
from safetensors.torch import load_file
from safetensors.torch import save_file as save_torch_file

import gtrxl
import gtrxl.torch
from tests.cores.building import HEADED, LINEAR, NAMES, TRANSFORMERS, initial_core, random_core, small_sizes
from tests.marks import few
from tests.torch.building import named, pair


@pytest.mark.parametrize("name", NAMES)
def test_parameters_have_the_names_and_shapes_of_the_export(name):
    core, twin = pair(name)
    exported = {f"core.{field}": np.asarray(array) for field, array in named(core).items()}
    state = twin.state_dict()
    assert {f"core.{field}": tuple(tensor.shape) for field, tensor in state.items()} == {
        field: array.shape for field, array in exported.items()
    }
    for field, tensor in gtrxl.torch.core_weights(exported).items():
        assert torch.equal(tensor, state[field])
    back = named(gtrxl.torch.to_jax(twin))
    assert all(np.array_equal(array, exported[f"core.{field}"]) for field, array in back.items())
    assert len(back) == len(exported)


@pytest.mark.parametrize("name", ["gtrxl-gru", "lstm", "agalite", "none"])
def test_a_file_is_read_with_and_without_the_agent_around_the_core(name, tmp_path):
    core, twin = pair(name)
    arrays = {field: np.asarray(array) for field, array in named(core).items()}
    inside = {f"core.{field}": array for field, array in arrays.items()} | {"policy.weight": np.zeros((2, 2), np.float32)}
    save_file(inside, tmp_path / "agent.safetensors")
    save_torch_file({field: tensor.contiguous() for field, tensor in twin.state_dict().items()}, tmp_path / "core.safetensors")
    for file in ("agent", "core"):
        new = gtrxl.torch.make_core(name, **small_sizes(name))
        gtrxl.torch.load_core(new, tmp_path / f"{file}.safetensors")
        assert all(torch.equal(tensor, new.state_dict()[field]) for field, tensor in twin.state_dict().items())
    new = gtrxl.torch.make_core(name, **small_sizes(name))
    new.load_state_dict(gtrxl.torch.core_weights(load_file(tmp_path / "agent.safetensors")))


def test_what_differs_is_named_in_one_line(tmp_path):
    twin = gtrxl.torch.make_core("gtrxl-gru", **small_sizes("gtrxl-gru"))
    for other, said in (
        (
            gtrxl.torch.make_core("gtrxl-gru", input_size=5, d_model=16, layers=2, heads=2, memory=4),
            r"embed.weight of shape \[5, 8\]",
        ),
        (
            gtrxl.torch.make_core("gtrxl-gru", input_size=5, d_model=8, layers=3, heads=2, memory=4),
            r"blocks.attention.w_qkv of shape \[2, 8, 24\]",
        ),
        (
            gtrxl.torch.make_core("gtrxl-output", **small_sizes("gtrxl-output")),
            r"blocks.gate_1.w_rzg \[2, 8, 24\] to fit .* got none",
        ),
        (gtrxl.torch.make_core("lstm", input_size=5), "embed.weight .* got none"),
    ):
        with pytest.raises(gtrxl.CoreError, match=said) as caught:
            twin.load_state_dict(other.state_dict())
        assert "\n" not in str(caught.value)
        path = tmp_path / "other.safetensors"
        save_torch_file({field: tensor.contiguous() for field, tensor in other.state_dict().items()}, path)
        with pytest.raises(gtrxl.CoreError, match=f"other.safetensors must have {said}"):
            gtrxl.torch.load_core(twin, path)
    with pytest.raises(gtrxl.CoreError, match="must have no more to fit this Transformer"):
        twin.load_state_dict({**twin.state_dict(), "more": torch.zeros(1)})
    (tmp_path / "cut.safetensors").write_bytes(path.read_bytes()[:100])
    for file in ("cut", "nowhere"):
        with pytest.raises(gtrxl.CoreError, match=f"cannot read weights from .*{file}.safetensors") as caught:
            gtrxl.torch.load_core(twin, tmp_path / f"{file}.safetensors")
        assert "\n" not in str(caught.value)


def test_what_has_no_twin_is_refused():
    with pytest.raises(gtrxl.CoreError, match=r"must be one of Transformer, LSTM, GRU, Merlin, .*Markov, got Linear"):
        gtrxl.torch.from_jax(random_core("none", **small_sizes("none")).linears[0])
    with pytest.raises(gtrxl.CoreError, match=r"must be one of .* got Linear"):
        gtrxl.torch.to_jax(torch.nn.Linear(2, 2))
    _, twin = pair("trxl")
    with pytest.raises(gtrxl.CoreError, match=r"core\.plain gives it"):
        gtrxl.torch.state_to_jax(twin.prepare(twin.initial_state(2)))


@pytest.mark.parametrize("name", NAMES)
def test_a_module_can_be_copied_pickled_and_saved(name):
    _, twin = pair(name)
    xs, resets = torch.randn(2, 5, 5), torch.zeros(2, 5, dtype=torch.bool)
    expected, _ = twin.unroll(xs, twin.initial_state(2), resets=resets)
    buffer = io.BytesIO()
    torch.save(twin.state_dict(), buffer)
    buffer.seek(0)
    new = gtrxl.torch.make_core(name, **small_sizes(name))
    new.load_state_dict(torch.load(buffer, weights_only=True))
    for other in (copy.deepcopy(twin), pickle.loads(pickle.dumps(twin)), new):
        assert torch.equal(other.unroll(xs, other.initial_state(2), resets=resets)[0], expected)


@pytest.mark.parametrize("name", ["gtrxl-gru", "trxl", "lstm", "gru", "none"])
def test_new_parameters_are_drawn_as_in_jax(name):
    """The same range of every array: zeros and constants alike, and uniform numbers to the same limits."""
    sizes: dict[str, Any] = {"input_size": 64, "d_model": 64, "layers": 2}
    sizes |= {"heads": 4, "init_variance": 1.0, "gate_bias": "depth"} if name in TRANSFORMERS else {}
    torch.manual_seed(0)
    twin, core = gtrxl.torch.make_core(name, **sizes), initial_core(name, **sizes)
    for field, array in named(core).items():
        ours, theirs = twin.state_dict()[field].numpy(), np.asarray(array)
        for of in (np.min, np.max):
            np.testing.assert_allclose(of(ours), of(theirs), rtol=0.03, atol=1e-6)
        np.testing.assert_allclose(ours.std(), theirs.std(), rtol=0.05, atol=1e-6)


@pytest.mark.parametrize("name", few(LINEAR, keep=lambda _, name: name in ("s5", "agalite")))
def test_new_recurrences_are_drawn_as_in_jax(name):
    """Normal numbers and rates among them: mean and deviation of every array, as far as so many numbers tell them."""
    sizes = {"input_size": 64, "d_model": 128, "layers": 2, **({"heads": 32} if name in HEADED else {})}
    torch.manual_seed(0)
    twin, core = gtrxl.torch.make_core(name, **sizes), initial_core(name, **sizes)
    for field, array in named(core).items():
        ours, theirs = twin.state_dict()[field].double().numpy(), np.asarray(array, np.float64)
        error = 5 * theirs.std() / np.sqrt(theirs.size)
        np.testing.assert_allclose(ours.mean(), theirs.mean(), rtol=1e-6, atol=1e-6 + 1.5 * error, err_msg=field)
        np.testing.assert_allclose(ours.std(), theirs.std(), rtol=1e-6, atol=1e-6 + 1.5 * error, err_msg=field)


ALONE = """
import sys
import gtrxl
gtrxl.make_core, gtrxl.testing
assert "torch" not in sys.modules
sys.modules["torch"] = None  # as if it were not installed
try:
    import gtrxl.torch
except ModuleNotFoundError as error:
    print(error)
"""


def test_the_package_does_without_torch_and_says_what_to_install():
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True)
    assert done.stdout == "gtrxl.torch needs PyTorch, which is not installed; pip install 'gtrxl[torch]'\n"
