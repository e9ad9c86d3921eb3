"""The paper's own numbers (Parisotto et al. 2019, tables 1 to 3), to stand beside ours.

Other scales, other tasks: orders can be compared, sizes of scores cannot.
"""

Score = tuple[float, float | None, float | None, float | None]

ABLATION: dict[str, Score] = {
    "LSTM": (99.3, 1.0, 84.0, 0.4),
    "TrXL": (5.0, 0.2, 5.0, 0.2),
    "TrXL-I": (107.0, 1.2, 87.4, 0.3),
    "GTrXL (GRU)": (117.6, 0.3, 89.1, 0.2),
    "GTrXL (Input)": (51.2, 13.2, 47.6, 12.1),
    "GTrXL (Output)": (112.8, 0.8, 87.8, 0.3),
    "GTrXL (Highway)": (90.9, 12.9, 75.2, 10.4),
    "GTrXL (SigTanh)": (101.0, 1.3, 83.9, 0.7),
    "Thin GTrXL (GRU)": (111.5, 0.6, None, None),
    "MERLIN": (115.2, None, 89.4, None),
}
"""Human-normalised score on DMLab-30 and its standard error; the same with every level capped at 100. MERLIN's is quoted there,
at 100 billion frames where the others have 10."""


def told(value: float | None, error: float | None) -> str:
    """A score as the paper has it, with its error where it has one."""
    return "-" if value is None else f"{value}" if error is None else f"{value} ± {error}"


PARAMETERS = {
    "LSTM": 9.25,
    "TrXL": 28.6,
    "TrXL-I": 28.6,
    "Thin GTrXL (GRU)": 22.4,
    "GTrXL (GRU)": 66.4,
    "GTrXL (Input)": 34.9,
    "GTrXL (Output)": 34.9,
    "GTrXL (Highway)": 34.9,
    "GTrXL (SigTanh)": 41.2,
}
"""Millions."""

DIVERGED = {"LSTM": 0, "TrXL": 0, "TrXL-I": 16, "GTrXL (GRU)": 0, "GTrXL (Output)": 12}
"""Percent of 25 runs."""
