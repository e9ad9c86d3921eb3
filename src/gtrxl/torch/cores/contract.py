"""What every core promises in PyTorch: the calls of `gtrxl.cores.contract`, for B streams at once.

B streams, T steps, D_in input width, D_out output width. The streams are the first axis of everything.

    state = core.initial_state(B)
    y, state = core.step(x, state, reset=...)          x: [B, D_in] -> y: [B, D_out], reset: [B] bool
    ys, state = core.unroll(xs, state, resets=...)     xs: [B, T, D_in] -> ys: [B, T, D_out], resets: [B, T] bool
    fast = core.prepare(state)                         worth it for many steps under the same weights
    state = core.plain(fast)

The promises are the same as in JAX, word for word: `unroll` equals T calls of `step`; nothing before a reset has any influence,
be it finite or not; no gradient flows into a state; a plain state stays right when the weights change.
A state is a `NamedTuple` of tensors, so `torch.utils._pytree` and one's own code can take it apart.
`gtrxl.torch.check_core` runs these promises on any module.
"""

import abc
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from gtrxl.cores.contract import Observed
from gtrxl.cores.errors import CoreError
from gtrxl.torch.cores.inputs import check_step, check_unroll

State = Any
"""A `NamedTuple` of tensors with fixed shapes; each core has its own."""

CALLS = ("initial_state", "step", "unroll")
"""What an object must have to be a core."""

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Core(nn.Module, abc.ABC):
    """The base of every core. A subclass writes `_step` and `_unroll`; inputs are checked here, once.

    `dtype` is what a core computes in: "float32" means the type of its parameters, so that `core.double()` does what it says.
    Under `torch.autocast` a core computes in the type of that; outputs keep the type of the parameters, states their own.
    """

    input_size: int
    output_size: int
    dtype: str

    @abc.abstractmethod
    def initial_state(self, batch: int = 1, *, device: Any = None, dtype: torch.dtype | None = None) -> State:
        """The state of `batch` streams that have seen nothing, where the parameters are unless `device` says otherwise."""

    @abc.abstractmethod
    def _check_state(self, state: State, *, streams: int) -> None:
        """Raise unless this is a state of the core for so many streams, plain or prepared."""

    @abc.abstractmethod
    def _step(
        self, x: Float[Tensor, "B D_in"], state: State, reset: Bool[Tensor, " B"], *, computing: torch.dtype
    ) -> tuple[Tensor, State]: ...

    @abc.abstractmethod
    def _unroll(
        self, xs: Float[Tensor, "B T D_in"], state: State, resets: Bool[Tensor, "B T"], *, computing: torch.dtype
    ) -> tuple[Tensor, State]: ...

    def step(self, x: Tensor, state: State, *, reset: Tensor) -> tuple[Tensor, State]:
        """One step of every stream: `x [B, D_in]` -> `y [B, D_out]` and the next states.

        `reset [B]` is true where `x` is the first input of an episode. Takes plain and prepared states.
        """
        check_step(self, x, reset)
        self._check_state(state, streams=x.shape[0])
        with self._own_types(x) as computing:
            return self._step(x, constant(state), reset, computing=computing)

    def unroll(self, xs: Tensor, state: State, *, resets: Tensor) -> tuple[Tensor, State]:
        """T steps of every stream: `xs [B, T, D_in]` -> `ys [B, T, D_out]` and the states after them.

        `resets [B, T]` is true where an episode starts. The state is taken as a constant; gradients flow through all T steps.
        """
        check_unroll(self, xs, resets)
        self._check_state(state, streams=xs.shape[0])
        with self._own_types(xs) as computing:
            return self._unroll(xs, constant(self.plain(state)), resets, computing=computing)

    def forward(self, xs: Tensor, state: State, resets: Tensor) -> tuple[Tensor, State]:
        """`unroll`, by the name that hooks and `DistributedDataParallel` go through."""
        return self.unroll(xs, state, resets=resets)

    def prepare(self, state: State) -> State:
        """The state with what these weights allow to be computed once. Stepping it gives the same numbers, faster."""
        return state

    def plain(self, state: State) -> State:
        """A state without what `prepare` added: right under any weights, and what checkpoints and unrolls carry."""
        return state

    def observing(self, observed: Observed) -> "Core":
        """The core, with parameters for what one of JAX predicts of these (`gtrxl.cores.contract`)."""
        del observed
        return self

    def settle(self) -> None:
        """The weights will not change any more: what follows from them may be fixed. Asked before a step is exported."""

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """As in PyTorch; but weights of another core or of other sizes are told in one line, which names what differs."""
        if strict:
            check_weights(self, state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def _home(self) -> Tensor:
        """A parameter: where the others are, and of what type."""
        return next(self.parameters())

    def _own_types(self, given: Tensor) -> "_Types":
        kind = given.device.type
        if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
            return _Types(torch.get_autocast_dtype(kind), torch.autocast(kind, enabled=False))
        return _Types(torch.bfloat16 if self.dtype == "bfloat16" else self._home().dtype, None)


class _Types:
    """What to compute in. Autocast is taken at its word and switched off: a core knows which sums must stay exact."""

    def __init__(self, computing: torch.dtype, switched: Any):
        self._computing, self._switched = computing, switched

    def __enter__(self) -> torch.dtype:
        if self._switched is not None:
            self._switched.__enter__()
        return self._computing

    def __exit__(self, *error: Any) -> None:
        if self._switched is not None:
            self._switched.__exit__(*error)


def constant(state: State) -> State:
    """The state without a way for gradients."""
    return pytree.tree_map(torch.Tensor.detach, state) if torch.is_grad_enabled() else state


def leaf_names(state: State, *, joint: str = ".") -> list[str]:
    """The names of a state's tensors, by where they are in it: `layers.0.re`."""

    def name(key: Any) -> str:
        return str(getattr(key, "name", getattr(key, "idx", getattr(key, "key", key))))

    return [joint.join(map(name, path)) for path, _ in pytree.tree_leaves_with_path(state)]


def check_dtype(dtype: str) -> str:
    """Raise unless `dtype` is one that cores compute in."""
    if dtype not in DTYPES:
        raise CoreError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}; parameters stay float32 in both")
    return dtype


def check_weights(module: nn.Module, weights: Mapping[str, Any], *, of: str = "these weights") -> None:
    """Raise unless the weights have the names and shapes of the module's: one line for the first that differs."""
    wanted = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    kind = type(module).__name__
    remedy = "they are of another core or of other sizes; make the module with those"
    for name in wanted:
        if name not in found:
            raise CoreError(f"{of} must have {name} {list(wanted[name])} to fit this {kind}, got none; {remedy}")
        if wanted[name] != found[name]:
            said = f"must have {name} of shape {list(wanted[name])} to fit this {kind}, got {list(found[name])}"
            raise CoreError(f"{of} {said}; {remedy}")
    for name in found:
        if name not in wanted:
            raise CoreError(f"{of} must have no {name} to fit this {kind}, got one of shape {list(found[name])}; {remedy}")
