"""One step of a trained agent as a program in StableHLO, for CPU, CUDA and TPU, which needs nothing of this package to run.

    program = jax.export.deserialize(Path("agent.stablehlo").read_bytes())
    said = program.call(observation, state, reset)      # policy, action, value, state

B streams, any number, each with its own memory; B is the first axis of all that goes in and out. `state` is a dict of arrays; at
the first step of an episode, where `reset` is true, it may hold anything (zeros of the card's shapes). The weights are inside,
and so is the observation's normaliser. The native library is left out: it is of the machine that the program is made on.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array, Bool, PyTree

from gtrxl.cores import kernels
from gtrxl.evaluation.restored import Restored, name_of, named
from gtrxl.gym.spaces import Spaces
from gtrxl.networks.agent import Agent
from gtrxl.runs.config import Config
from gtrxl.runs.tasks import RunTasks
from gtrxl.tasks.specs import ObservationSpec

PLATFORMS = ("cpu", "cuda", "tpu")
SEE_THROUGH = {"stop_gradient", "copy", "copy_p"}
"""Operations that give what they are given."""

Step = Callable[[PyTree, dict[str, Array], Bool[Array, ""]], dict[str, Any]]


def write(restored: Restored, path: Path) -> dict[str, Any]:
    """The program, and what goes in and out of it."""
    import jax.export

    zeros, begins = seen_zeros(restored.tasks), jnp.zeros((), bool)
    with kernels.left_out(), _without_places():
        step, state = one_step(restored.agent, zeros)
        (streams,) = jax.export.symbolic_shape("B")
        given = [_of_streams(part, streams) for part in (zeros, state, begins)]
        exported = jax.export.export(jax.jit(jax.vmap(step)), platforms=PLATFORMS)(*given)
        said = jax.eval_shape(step, zeros, state, begins)
    path.write_bytes(exported.serialize())
    return {
        "format": "stablehlo",
        "read_with": "jax.export.deserialize(bytes).call(observation, state, reset)",
        "platforms": list(exported.platforms),
        "jax": jax.__version__,
        "calling_convention": exported.calling_convention_version,
        "inputs": {"observation": _told(zeros), "state": _told(state), "reset": _told(begins)},
        "outputs": {name: _told(said[name]) for name in OUTPUTS},
        "observation_is": observation_in_words(restored.config, restored.tasks),
    }


OUTPUTS = ("policy", "action", "value", "state")


def seen_zeros(tasks: RunTasks) -> PyTree:
    """What the network is shown of one stream, as zeros."""
    shown = tasks.shown
    spec = shown.lens.spec if isinstance(shown, Spaces) else ObservationSpec.of(shown.observation_space)
    return jax.tree.map(jnp.asarray, spec.zeros())


def observation_in_words(config: Config[Any], tasks: RunTasks) -> str:
    """What the program's user has to know of what it sees, besides shapes."""
    shown, told = tasks.shown, config.gym.previous
    if not isinstance(shown, Spaces):
        return "as the task gives it"
    size = shown.hand.spec.noise
    last = {"none": "nothing more", "action": f"{size} numbers of the action before"}
    last["action+reward"] = f"{last['action']}, and its reward"
    masked = ", velocities set to 0" if config.gym.mask_velocity else ""
    return (
        f"the task's numbers{masked} and whole numbers one-hot in one vector, then {last[told]} (choices one-hot; zeros at an "
        "episode's first step)"
    )


def one_step(agent: Agent, observation: PyTree) -> tuple[Step, dict[str, Array]]:
    """A step of one stream as a function of arrays alone, and the state to begin with.

    What a prepared memory carries along and no step changes (weights, projected positions) becomes part of the program.
    """
    whole = jax.jit(lambda: agent.prepare(agent.initial_state(1)))()
    leaves, tree = jax.tree_util.tree_flatten_with_path(whole)
    initial = {name_of(where) or "memory": leaf for where, leaf in leaves}

    def run(observation: PyTree, state: dict[str, Array], reset: Bool[Array, ""]) -> tuple[Any, Array, dict[str, Array]]:
        alone = jax.tree.map(lambda leaf: leaf[None], observation)
        memory = jax.tree.unflatten(tree, [state[name] for name in initial])
        policy, value, memory = agent.step(alone, memory, reset=reset[None])
        return policy, value, dict(zip(initial, jax.tree.leaves(memory), strict=True))

    changing = _changing(lambda state: run(observation, state, jnp.zeros((), bool))[2], initial)
    kept = {name: leaf for name, leaf in initial.items() if name not in changing}
    begin = {name: initial[name] for name in changing}

    def step(observation: PyTree, state: dict[str, Array], reset: Bool[Array, ""]) -> dict[str, Any]:
        # Whatever was handed in as the state of a new episode, it begins as an episode does.
        state = {name: jnp.where(reset, first, state[name]) for name, first in begin.items()}
        policy, value, state = run(observation, {**kept, **state}, reset)
        alone = jax.tree.map(lambda leaf: leaf[0], (named(policy), policy.mode(), value))
        return {**dict(zip(OUTPUTS, alone, strict=False)), "state": {name: state[name] for name in begin}}

    return step, begin


def _changing(step: Callable[[dict[str, Array]], dict[str, Array]], state: dict[str, Array]) -> list[str]:
    """Those parts of a state that a step gives back as something else than what it was given."""
    program = jax.make_jaxpr(step)(state).jaxpr
    same: dict[Any, Any] = {}
    for equation in program.eqns:
        if equation.primitive.name in SEE_THROUGH and not isinstance(equation.invars[0], Literal):
            same[equation.outvars[0]] = same.get(equation.invars[0], equation.invars[0])
    # A dict's leaves are in the order of its sorted names.
    ends = zip(sorted(state), program.invars, program.outvars, strict=True)
    unchanged = {name for name, given, got in ends if not isinstance(got, Literal) and same.get(got, got) is given}
    return [name for name in state if name not in unchanged]


@contextlib.contextmanager
def _without_places() -> Iterator[None]:
    """Programs made inside do not name the files and lines, with the folders of this machine, that they came from."""
    before = jax.config.jax_traceback_in_locations_limit  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        yield
    finally:
        jax.config.update("jax_traceback_in_locations_limit", before)


def _of_streams(tree: PyTree, streams: Any) -> PyTree:
    """The shapes of one stream as those of many."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((streams, *leaf.shape), leaf.dtype), tree)


def _told(tree: PyTree) -> Any:
    """Shapes and types, in the same dicts; B streams in front."""
    return jax.tree.map(lambda leaf: {"shape": ["B", *leaf.shape], "dtype": str(leaf.dtype)}, tree)
