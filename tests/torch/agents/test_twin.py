"""The network of an agent in PyTorch is that in JAX: the same parameters by name, the same numbers, step by step and unrolled."""

import dataclasses
import io

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

from gtrxl.cores import Streams
from gtrxl.cores.errors import CoreError
from gtrxl.evaluation.restored import named
from gtrxl.torch.agents.building import twin
from gtrxl.training.building import make_agent
from tests.cores.building import NAMES
from tests.marks import few
from tests.torch.agents.kinds import KINDS, network_inputs, restored

B, T = 3, 7


@eqx.filter_jit
def unrolled(agent, observations, state, resets):
    return agent.unroll(observations, state, resets=resets)


def numbers_of(policy):
    """A JAX policy's, by the names of the PyTorch one."""
    choices, continuous = getattr(policy, "choices", policy), getattr(policy, "numbers", policy)
    found = {"logits": getattr(choices, "logits", None)}
    return found | {name: getattr(continuous, name, None) for name in ("mean", "scale")}


@pytest.mark.parametrize("kind", KINDS)
def test_logits_and_values_are_those_of_jax_with_resets(kind):
    found = restored(kind)
    seen = network_inputs(found, B, T)
    resets = np.random.default_rng(1).random((B, T)) < 0.3
    policy, value, _ = unrolled(found.agent, seen, found.agent.initial_state(B), jnp.asarray(resets))
    module = twin(found.agent)
    ours = jax.tree.map(torch.from_numpy, seen)
    whole, whole_value, _ = module.unroll(ours, module.initial_state(B), resets=torch.from_numpy(resets))
    state, steps = module.prepare(module.initial_state(B)), []
    for t in range(T):
        each = jax.tree.map(lambda part, t=t: part[:, t], ours)
        acted, acted_value, state = module.step(each, state, reset=torch.from_numpy(resets[:, t]))
        steps.append((*acted.numbers.values(), acted_value))
    wanted = [part for part in numbers_of(policy).values() if part is not None]
    for way in ((*whole.numbers.values(), whole_value), [torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)]):
        for ours_is, theirs in zip(way, (*wanted, value), strict=True):
            np.testing.assert_allclose(ours_is.detach().numpy(), theirs, rtol=1e-4, atol=1e-4)
    assert value.shape == (B, T, len(found.tasks))


def test_pixel_control_and_an_odd_picture():
    found = restored("picture, words, hybrid")
    config = dataclasses.replace(found.config, task="rooms_watermaze:height=40,width=48", pixel_control=1e-3)
    shapes = eqx.filter_eval_shape(lambda: make_agent(config, config.tasks.shown, jax.random.key(0)))
    random = np.random.default_rng(0)
    agent = jax.tree.map(lambda leaf: jnp.asarray(random.standard_normal(leaf.shape), leaf.dtype), shapes)
    ys = random.standard_normal((2, 3, 8)).astype(np.float32)
    module = twin(agent)
    expected = jax.jit(lambda agent, ys: agent.pixel_values(ys))(agent, ys)
    np.testing.assert_allclose(
        module.pixel_values(torch.from_numpy(ys)).detach(), expected, rtol=1e-4, atol=1e-3
    )  # of sums of hundreds
    assert expected.shape == (2, 3, 10, 12, 15)


@pytest.mark.parametrize(("kind", "core"), few(
    [("gymnasium, all parts", "gtrxl-gru"), *(("numbers", core) for core in NAMES)], keep=lambda number, _: number < 2
))  # fmt: skip
def test_parameters_have_the_names_of_the_export_and_go_through_a_file(kind, core):
    agent = restored(kind, core).agent
    module = twin(agent)
    weights = module.state_dict()
    assert {name: tuple(part.shape) for name, part in weights.items()} == {
        name: leaf.shape for name, leaf in named(agent).items()
    }
    file = io.BytesIO()
    torch.save(weights, file)
    file.seek(0)
    other = twin(jax.tree.map(lambda leaf: leaf * 0, agent))
    other.load_state_dict(torch.load(file, weights_only=True))
    for name, part in other.state_dict().items():
        np.testing.assert_array_equal(part, named(agent)[name])
    trained = {name for name, _ in module.named_parameters()}
    assert set(weights) - trained == {name for name in weights if name.rpartition(".")[2] in ("mean", "variance", "count")}


def test_weights_of_other_sizes_are_told_in_one_line():
    module, other = twin(restored("numbers").agent), twin(restored("numbers", width=12).agent)
    with pytest.raises(CoreError, match=r"core\.embed\.weight of shape \[8, 8\].* got \[8, 12\]") as caught:
        module.load_state_dict(other.state_dict())
    assert "\n" not in str(caught.value)
    with pytest.raises(CoreError, match=r"must have core\.\S+ .*got none"):
        twin(restored("numbers", "lstm").agent).load_state_dict(module.state_dict())


def test_a_stream_forgets_at_a_reset_what_was_not_finite():
    found = restored("numbers")
    module, seen = twin(found.agent), torch.from_numpy(network_inputs(found, 2, 4))
    spoilt = seen.clone()
    spoilt[:, :2] = torch.nan
    resets = torch.tensor([[True, False, True, False]] * 2)
    (clean, *_), (dirty, *_) = (module.unroll(each, module.initial_state(2), resets=resets) for each in (seen, spoilt))
    before, after = dirty.numbers["logits"].split(2, dim=1)
    assert before.isnan().all()
    torch.testing.assert_close(after, clean.numbers["logits"][:, 2:], rtol=0, atol=0)


@pytest.mark.slow
def test_gradients_are_those_of_jax():
    """Of a loss on logits and values, to every parameter and none to the normaliser."""
    found = restored("gymnasium, all parts")
    seen, resets = network_inputs(found, 2, 3), np.zeros((2, 3), bool)
    shown = jax.tree.map(jnp.asarray, seen)

    @eqx.filter_jit
    @eqx.filter_grad
    def by_weights(agent):
        policy, value, _ = agent.unroll(shown, Streams(agent.core, 2).initial_state(), resets=jnp.asarray(resets))
        parts = [part for part in numbers_of(policy).values() if part is not None]
        return sum(jnp.sum(jnp.tanh(part / 10)) for part in (*parts, value))

    module = twin(found.agent)
    policy, value, _ = module.unroll(
        jax.tree.map(torch.from_numpy, seen), module.initial_state(2), resets=torch.from_numpy(resets)
    )
    torch.stack([torch.tanh(part / 10).sum() for part in (*policy.numbers.values(), value)]).sum().backward()
    theirs = named(by_weights(found.agent))
    checked = 0
    for name, parameter in module.named_parameters():
        assert parameter.grad is not None, name
        scale = max(1.0, float(np.abs(theirs[name]).max()))
        np.testing.assert_allclose(parameter.grad / scale, theirs[name] / scale, rtol=1e-3, atol=1e-4, err_msg=name)
        checked += bool(np.any(theirs[name]))
    assert checked > 30
