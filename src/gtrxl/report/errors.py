"""One kind of error for what a user can put right."""


class ReportError(ValueError):
    """The rule, the value, the remedy."""
