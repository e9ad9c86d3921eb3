"""A core as a TensorDict module, by the conventions of TorchRL's `LSTMModule`. B streams, T steps, F features, D core's width.

    core = gtrxl.torch.make_core("gtrxl-gru", input_size=4, d_model=64, layers=2, heads=4, memory=32)
    memory = CoreModule(core, in_key="observation", out_key="feature")
    env = TransformedEnv(GymEnv("CartPole-v1"), Compose(InitTracker(), memory.make_tensordict_primer()))

Needs TorchRL: `pip install 'gtrxl[torchrl]'`.
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false, reportIncompatibleMethodOverride=false
# (TensorDict and TorchRL are typed for their own use)

from typing import Any

from jaxtyping import Bool, Float

from gtrxl.cores.errors import CoreError
from gtrxl.trainers.extras import need

need("torch", "tensordict", "torchrl", extra="torchrl")

import torch
from tensordict import TensorDictBase, unravel_key_list
from tensordict.nn import TensorDictModuleBase, dispatch
from torch import Tensor
from torchrl.data import Unbounded
from torchrl.envs.transforms import TensorDictPrimer
from torchrl.modules import recurrent_mode

from gtrxl.trainers.states import Layout, plain

IS_INIT = "is_init"


class CoreModule(TensorDictModuleBase):
    """Reads `in_key`, the state and `is_init`; writes `out_key` and the state under `next`.

    A state has one key for each of its tensors: `memory_inputs` and `memory_filled` of a transformer. One step at a time unless
    `set_recurrent_mode(True)` holds (or `default_recurrent_mode` says so): then the last axis of the TensorDict is time, an
    episode may begin anywhere in it, and the memory is the one that the TensorDict has at the first step of the window and of
    each episode. A window writes no states: those of its steps are already there.
    """

    def __init__(
        self,
        core: Any,
        *,
        in_key: Any = None,
        out_key: Any = None,
        in_keys: list[Any] | None = None,
        out_keys: list[Any] | None = None,
        default_recurrent_mode: bool = False,
    ):
        super().__init__()
        self.core = core
        self.layout = Layout(core)
        states = [f"memory_{name}" for name in self.layout.names]
        given = unravel_key_list(_one_of("in", in_key, in_keys, states))
        made = unravel_key_list(_one_of("out", out_key, out_keys, [("next", state) for state in states]))
        given = given if given[-1] == IS_INIT else [*given, IS_INIT]
        for name, keys, wanted in (("in_keys", given[:-1], 1 + len(states)), ("out_keys", made, 1 + len(states))):
            if len(keys) != wanted:
                said = f"{name} must be a value and {len(states)} of state ({', '.join(self.layout.names)})"
                raise CoreError(f"{said}, got {keys}; {name[:-1]} alone names the value and leaves the others to the core")
        self.in_keys, self.out_keys = given, made
        self._default = default_recurrent_mode

    @property
    def recurrent_mode(self) -> bool:
        """Whether the TensorDict's last axis is time."""
        mode = recurrent_mode()
        return self._default if mode is None else mode

    def make_tensordict_primer(self) -> TensorDictPrimer:
        """The transform that puts an empty state into the TensorDict at each reset, and tells the environment of its keys."""
        for inside, outside in zip(self.in_keys[1:-1], self.out_keys[1:], strict=True):
            if outside != ("next", *(inside if isinstance(inside, tuple) else (inside,))):
                raise CoreError(f"a state must go out as ('next', its key) to come back in, got {inside} and {outside}")
        specs = {
            key: Unbounded(shape=shape or (1,), dtype=dtype)
            for key, shape, dtype in zip(self.in_keys[1:-1], self.layout.shapes, self.layout.dtypes, strict=True)
        }
        return TensorDictPrimer(specs, expand_specs=True)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """One step of every entry, or whole windows."""
        return self._windows(tensordict) if self.recurrent_mode else self._step(tensordict)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        shape = tensordict.batch_size
        x = tensordict.get(self.in_keys[0])
        x = x.reshape(-1, x.shape[-1])
        reset = tensordict.get(IS_INIT).reshape(-1)
        state = self._state(tensordict, streams=len(x))
        y, state = self.core.step(x, state, reset=reset)
        tensordict.set(self.out_keys[0], y.reshape(*shape, -1))
        parts = self.layout.parts(plain(self.core, state)).values()
        for key, part, like in zip(self.out_keys[1:], parts, self.layout.shapes, strict=True):
            tensordict.set(key, part.reshape(*shape, *(like or (1,))))
        return tensordict

    def _windows(self, tensordict: TensorDictBase) -> TensorDictBase:
        shape = tensordict.batch_size
        if not shape:
            raise CoreError(
                "in recurrent mode a TensorDict must have time as its last axis, got batch_size []; leave the mode for steps"
            )
        xs = tensordict.get(self.in_keys[0])
        xs = xs.reshape(-1, shape[-1], xs.shape[-1])
        begins = tensordict.get(IS_INIT).reshape(xs.shape[:2])
        states = self._state(tensordict, streams=begins.numel())
        ys = _with_states(self.core, self.layout, xs, begins, states)
        return tensordict.set(self.out_keys[0], ys.reshape(*shape, -1))

    def _state(self, tensordict: TensorDictBase, *, streams: int) -> Any:
        """What the TensorDict holds; nothing has been seen where it holds none, as in the first call of a policy without a
        primer."""
        found = [tensordict.get(key, None) for key in self.in_keys[1:-1]]
        if any(part is None for part in found):
            return self.core.initial_state(streams)
        shaped = [part.reshape(streams, *shape) for part, shape in zip(found, self.layout.shapes, strict=True)]
        return self.layout.state(dict(zip(self.layout.names, shaped, strict=True)))


def _with_states(
    core: Any, layout: Layout, xs: Float[Tensor, "B T F"], begins: Bool[Tensor, "B T"], states: Any
) -> Float[Tensor, "B T D"]:
    """Windows in which every episode begins with the state that stands at its first step.

    That is an empty one in what a collector gathers, and then a reset says the same. In what an advantage estimator makes of it
    (the observations after each step) it is the state after one step: there the windows are cut.
    """
    parts = {name: part.reshape(*begins.shape, *part.shape[1:]) for name, part in layout.parts(states).items()}
    empty = torch.ones_like(begins)
    for part in parts.values():
        empty &= (part == 0).reshape(*begins.shape, -1).all(dim=2)
    cuts = begins & ~empty
    cuts[:, 0] = True
    resets = begins & empty
    if not bool(cuts[:, 1:].any()):
        start = layout.state({name: part[:, 0] for name, part in parts.items()})
        return core.unroll(xs, start, resets=resets)[0]
    rows, firsts = cuts.nonzero(as_tuple=True)
    ends = torch.where(rows[1:] == rows[:-1], firsts[1:], xs.shape[1])
    lengths = torch.cat([ends, ends.new_tensor([xs.shape[1]])]) - firsts
    offsets = torch.arange(int(lengths.max()), device=xs.device)
    real = offsets < lengths[:, None]
    steps = (firsts[:, None] + offsets).clamp(max=xs.shape[1] - 1)  # what is read past an end comes after all that counts
    start = layout.state({name: part[rows, firsts] for name, part in parts.items()})
    ys, _ = core.unroll(xs[rows[:, None], steps], start, resets=resets[rows[:, None], steps])
    return ys[real].reshape(*begins.shape, -1)


def _one_of(side: str, key: Any, keys: list[Any] | None, states: list[Any]) -> list[Any]:
    if (key is None) == (keys is None):
        raise CoreError(
            f"give {side}_key or {side}_keys, got {'both' if key is not None else 'neither'}; {side}_key is the short form"
        )
    return [key, *states] if keys is None else list(keys)
