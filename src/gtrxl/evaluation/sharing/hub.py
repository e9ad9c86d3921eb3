"""To Hugging Face and back, with huggingface_hub (an extra). Whatever fails on the way is one line.

`HF_ENDPOINT` names another server that speaks the same.
"""

import contextlib
import importlib.util
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gtrxl.runs.errors import RunError, first_line

PREFIX = "hf:"
WEIGHTS, CARD = "agent.safetensors", "agent.json"
REFUSED = (401, 403)


def endpoint() -> str:
    """The server that is spoken to."""
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def check_repository(name: str) -> str:
    """A repository's name, or an error."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name, re.ASCII):
        raise RunError(f"a repository at Hugging Face is named owner/name, got {name!r}; use letters, digits, - _ and .")
    return name


def check_ready(repository: str) -> None:
    """Raises before any work is done if an upload cannot succeed: no extra, no token, no network, a token nobody knows."""
    check_repository(repository)
    with _said(repository, "upload to"):
        _api().whoami()


def upload(folder: Path, repository: str, *, private: bool, message: str) -> str:
    """Makes the repository if need be, and puts a folder's files into it as one commit. Gives its address."""
    check_repository(repository)
    from huggingface_hub.utils import disable_progress_bars

    disable_progress_bars()
    with _said(repository, "upload to"):
        api = _api()
        api.create_repo(repository, private=private, exist_ok=True)
        api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    return f"{endpoint()}/{repository}"


def download(repository: str) -> Path:
    """The weights of a repository, with their card beside them, from the cache if they are there and have not changed."""
    check_repository(repository)
    _check_extra()
    from huggingface_hub import hf_hub_download

    with _said(repository, "download"):
        card, weights = (hf_hub_download(repository, file, endpoint=endpoint()) for file in (CARD, WEIGHTS))
    if Path(card).parent != Path(weights).parent:  # somebody pushed between the two
        raise RunError(f"{repository} was changed while it was read; read it again")
    return Path(weights)


def _api() -> Any:
    _check_extra()
    from huggingface_hub import HfApi, get_token

    if get_token() is None:
        raise RunError("Hugging Face asks who you are and no token was found; `hf auth login`, or set HF_TOKEN")
    return HfApi(endpoint=endpoint())


def _check_extra() -> None:
    if importlib.util.find_spec("huggingface_hub") is None:
        raise RunError("Hugging Face needs huggingface_hub, which is not installed; pip install 'gtrxl[hub]'")


@contextlib.contextmanager
def _said(repository: str, what: str) -> Iterator[None]:
    """Errors of the library and of the network as ours."""
    _check_extra()
    from huggingface_hub import errors

    of_http: Any = errors.HfHubHTTPError.__bases__[0]  # of whichever library it speaks HTTP with, which versions have changed
    try:
        yield
    except errors.HfHubHTTPError as error:
        status = getattr(error.response, "status_code", None)
        if status in REFUSED:
            remedy = "`hf auth login` with one that may write to it, or set HF_TOKEN"
            raise RunError(f"cannot {what} {repository}: {endpoint()} refused the token ({status}); {remedy}") from error
        if status == 404:
            raise RunError(f"cannot {what} {repository}: there is no such agent at {endpoint()}; is the name right?") from error
        raise RunError(f"cannot {what} {repository}: {first_line(error)}; try again later") from error
    except (errors.LocalEntryNotFoundError, of_http, ConnectionError) as error:
        remedy = "`gtrxl push --to FOLDER` only writes the files" if what.startswith("upload") else "try again later"
        raise RunError(f"cannot {what} {repository}: {endpoint()} cannot be reached; {remedy}") from error
    except (errors.HFValidationError, OSError, RuntimeError) as error:  # of large files it tells the last with the cause beneath
        raise RunError(f"cannot {what} {repository}: {first_line(error.__cause__ or error)}; try again later") from error
