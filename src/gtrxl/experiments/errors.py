"""One kind of error for what a user can put right."""


class ExperimentError(ValueError):
    """The rule, the value, the remedy."""
