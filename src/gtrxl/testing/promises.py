"""What a core promises, in words, and how a check of it is told."""

import dataclasses

PROMISES: dict[str, tuple[str, str]] = {
    "the calls exist": (
        "a core has initial_state, step and unroll, and says its input_size or is checked with check_core(core, input_size=...)",
        "a method that is missing or spelled otherwise",
    ),
    "the state is fixed": (
        "step, unroll and plain return a state of the same structure, shapes and dtypes as they got, outputs are [D_out]",
        "memory that grows by appending, or a value cast to another dtype on the way",
    ),
    "unroll equals steps": (
        "T steps in one unroll and one by one give the same outputs, and states that go on alike",
        "different windows or masks in acting and learning, or a reset handled in one of them only",
    ),
    "prepared steps equal steps": (
        "stepping prepare(state) gives the outputs of unroll, and plain takes it back",
        "a ring or cache read in the wrong order, or not written before the next step",
    ),
    "any chunking": (
        "a segment cut into unrolls of any lengths gives the same outputs",
        "a window or a memory that depends on the length of the unroll",
    ),
    "streams are apart": (
        "streams that reset at different times, batched with vmap, give what each gives alone",
        "a reduction over the batch, or one reset taken for all streams",
    ),
    "weights may change": (
        "with other weights from half-way on, unroll, steps and newly prepared steps still agree from the same plain state",
        "projected keys, values or positions kept in the plain state: stale when the weights have changed",
    ),
    "nothing leaks past a reset": (
        "changing inputs, resets and state before a reset, to nan too, leaves every later output bit-identical",
        "a mask that lets earlier episodes through, or a state not cleared; not finite: multiplied by 0, where jnp.where selects",
    ),
    "nothing leaks from the future": (
        "changing later inputs and resets leaves every earlier output bit-identical",
        "a causal mask that is missing or shifted by one",
    ),
    "a fresh state starts an episode": (
        "a fresh state without a reset, a fresh one with it, and a used one with it give the same outputs",
        "empty memory slots attended to as if they were real, or an initial state that a reset does not give back",
    ),
    "no gradient into the state": (
        "outputs have zero gradient with respect to the state given to unroll or step",
        "stop_gradient missing on the memory",
    ),
    "gradient through the segment": (
        "the last output of an unroll, or what a core that predicts says of it, has its true derivative by earlier inputs",
        "stop_gradient on the segment as well as on the memory, so that only the current step learns",
    ),
    "the window": (
        "an output depends on the input layers * memory steps back and on none before it",
        "a mask off by one, the unroll's own length added to the window, or memory one slot short",
    ),
    "it remembers": (
        "an output depends on the input one step before (memoryless=True, or memory = 0, says that it must not)",
        "a state that is never written or never read",
    ),
    "finite": (
        "outputs and gradients are finite, for random inputs and for zeros",
        "a row of the softmax with nothing visible, or a square root or division at zero",
    ),
    "deterministic": (
        "the same call twice gives the same bits",
        "a random key or a counter kept inside the core",
    ),
}  # fmt: skip
"""Name -> what is promised, and what usually breaks it."""


@dataclasses.dataclass(frozen=True)
class Check:
    """One comparison: which promise, what was done, the largest deviation found and the largest allowed."""

    promise: str
    what: str
    deviation: float
    limit: float
    error: str = ""

    @property
    def held(self) -> bool:
        """Whether the promise was kept here. Not-a-number never is."""
        return not self.error and self.deviation <= self.limit

    def __str__(self) -> str:
        if self.error:
            return f"{self.promise}: {self.what}: {self.error}"
        return f"{self.promise}: {self.what}: deviation {self.deviation:.1e}, at most {self.limit:.1e} allowed"


@dataclasses.dataclass(frozen=True)
class Report:
    """What was checked on which core, and what could not be."""

    core: str
    checks: tuple[Check, ...]
    left_out: tuple[str, ...]

    @property
    def broken(self) -> tuple[str, ...]:
        """The names of the promises that do not hold, in the order of `PROMISES`."""
        failed = {check.promise for check in self.checks if not check.held}
        return tuple(promise for promise in PROMISES if promise in failed)

    def largest(self, promise: str) -> float:
        """The largest deviation found for one promise."""
        return max((check.deviation for check in self.checks if check.promise == promise), default=0.0)

    def __str__(self) -> str:
        lines = [
            f"{self.core} keeps its promises" if not self.broken else f"{self.core} breaks {len(self.broken)} of its promises"
        ]
        return "\n".join([*lines, *(f"  {check}" for check in self.checks), *(f"  not checked: {why}" for why in self.left_out)])


class ContractViolation(AssertionError):  # noqa: N818 (what it is, not that it is an error)
    """A core that does not keep its promises; `report` has every check, `broken` the names of the promises."""

    def __init__(self, report: Report):
        self.report = report
        self.broken = report.broken
        lines = [f"{report.core} breaks {len(self.broken)} of the promises a core makes (gtrxl.cores.contract):"]
        for number, promise in enumerate(self.broken, 1):
            meaning, cause = PROMISES[promise]
            lines.append(f"{number}. {promise}: {meaning}.")
            lines += [f"   - {_finding(check)}" for check in report.checks if check.promise == promise and not check.held]
            lines.append(f"   Usual cause: {cause}.")
        super().__init__("\n".join(lines))


def _finding(check: Check) -> str:
    if check.error:
        return f"{check.what}: {check.error}"
    return f"{check.what}: off by {check.deviation:.1e}, at most {check.limit:.1e} allowed"
