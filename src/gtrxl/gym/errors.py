"""Whatever stops a Gymnasium task from being made, said in one line."""

import re
from collections.abc import Callable
from typing import Any

import gymnasium

from gtrxl.tasks.errors import TaskError


def guarded(name: str, make: Callable[[], Any]) -> Any:
    """What `make` gives; whatever it raises becomes one line that begins with the task's name."""
    try:
        return make()
    except TaskError:
        raise
    except gymnasium.error.DependencyNotInstalled as error:
        raise TaskError(f"{name} needs a package that is not installed: {in_one_line(error)}") from error
    except gymnasium.error.DeprecatedEnv as error:
        raise TaskError(f"{name} is no longer made by Gymnasium: {in_one_line(error)}") from error
    except ModuleNotFoundError as error:
        raise TaskError(f"{name} cannot be made: {in_one_line(error)}; pip install what is missing, or check the name") from error
    except gymnasium.error.UnregisteredEnv as error:
        raise TaskError(
            f"a Gymnasium task must be registered, got {name}: {in_one_line(error)}; "
            "gym:module:ID imports a module that registers it, gymnasium.pprint_registry() lists what there is"
        ) from error
    except Exception as error:
        raise TaskError(f"{name} cannot be made: {type(error).__name__}: {in_one_line(error)}; check its arguments") from error


def in_one_line(error: BaseException, *, most: int = 300) -> str:
    """What an error says, without line breaks and colours."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", str(error))  # Gymnasium colours what it says
    return " ".join(plain.split())[:most]
