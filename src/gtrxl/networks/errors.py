"""One kind of error for what an agent cannot take: the rule, the value, the remedy, in one line."""


class AgentError(ValueError):
    """An observation, a size or a name that an agent cannot take."""
