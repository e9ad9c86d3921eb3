"""One kind of error for what goes wrong around a run: the rule, the value, the remedy, in one line."""


class RunError(ValueError):
    """A folder, a file or a setting that a run cannot use."""


def first_line(error: BaseException) -> str:
    """What an error says, cut to its first line, for quoting inside another one."""
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    return said[0][:300] if said else type(error).__name__
