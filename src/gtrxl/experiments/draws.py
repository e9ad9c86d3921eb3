"""The hyperparameters that the paper samples, from its table: one draw is used for every model of an experiment."""

import dataclasses

import numpy as np

EXPERIMENTS_SEED = 20191013
"""What all draws begin from; the paper's date."""

RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "dmlab30": {"eps_alpha": (1e-3, 1e-1)},
    "numpad": {"eps_mean": (5e-3, 1e-2), "eps_covariance": (5e-6, 4e-4)},
    "memory_maze": {"eps_alpha": (1e-3, 1e-1), "eps_mean": (5e-3, 1e-2), "eps_covariance": (5e-6, 4e-5)},
    "grid": {"eps_alpha": (1e-3, 1e-1)},
    "rivals": {},
    "rates": {"eps_alpha": (1e-3, 1e-1), "learning_rate": (3e-4, 3e-2)},
    "rates_maze": {
        "eps_alpha": (1e-3, 1e-1),
        "eps_mean": (5e-3, 1e-2),
        "eps_covariance": (5e-6, 4e-5),
        "learning_rate": (1e-5, 1e-3),
    },
}
"""Log-uniform ranges of V-MPO's settings, by environment. Ours are `grid`, where tasks of choices alone take the range of those,
the two with a learning rate, over two decades around the middle of what works, and `rivals`, where only seeds are drawn."""

LSTM_RANGE = (1e-3, 2.5e-2)
"""eps_alpha of the LSTM on DMLab-30, which the paper draws from a narrower range."""


@dataclasses.dataclass(frozen=True)
class Draw:
    """One sample: a seed, and V-MPO's bounds."""

    number: int
    seed: int
    bounds: dict[str, float]


def draw(number: int, *, experiment: str, environment: str, narrow: bool = False) -> Draw:
    """The draw of that number: always the same one for an experiment, whatever the machine and however many are drawn.

    `narrow` is the paper's exception for the LSTM on DMLab-30: the same place in a narrower range.
    """
    # The name by its bytes: Python's hash() would change from run to run.
    generator = np.random.default_rng([EXPERIMENTS_SEED, number, *experiment.encode()])
    seed = int(generator.integers(2**31))
    bounds = {}
    for name, (low, high) in RANGES[environment].items():
        place = float(generator.random())
        if narrow and name == "eps_alpha":
            low, high = LSTM_RANGE
        bounds[name] = float(np.exp(np.log(low) + place * (np.log(high) - np.log(low))))
    return Draw(number=number, seed=seed, bounds=bounds)
