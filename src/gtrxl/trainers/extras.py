"""A package that is an extra: there, or one line that names the extra."""

import importlib.util


def need(*packages: str, extra: str) -> None:
    """Raise unless the packages of an extra are installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(
                f"gtrxl.trainers.{extra} needs {package}, which is not installed; pip install 'gtrxl[{extra}]'", name=package
            )
