"""docs/api.md has every public name, with the signature that the code has."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import gtrxl

PAGE = (Path(__file__).parents[1] / "docs" / "api.md").read_text()
TOLD = {name: " ".join(shown.split()) for name, shown in re.findall(r"^### `(\w+)`\n\n((?:    .+\n)*)", PAGE, re.MULTILINE)}
"""Public name -> its signature; of modules nothing."""


def test_every_public_name_is_there_once():
    headings = re.findall(r"^### `", PAGE, re.MULTILINE)
    assert len(headings) == len(TOLD)
    assert sorted(TOLD) == sorted(gtrxl.__all__)


def test_only_modules_and_errors_have_no_signature():
    assert {name for name, shown in TOLD.items() if not shown} == {"CoreError", "algorithms", "tasks", "testing"}


@pytest.mark.parametrize("name", [name for name, shown in TOLD.items() if shown])
def test_a_signature_is_the_code_s(name):
    shown = TOLD[name]
    assert shown.startswith("class ") == isinstance(getattr(gtrxl, name), type)
    tree = ast.parse(f"def {shown.removeprefix('class ')}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    told = tree.args
    parameters = inspect.signature(getattr(gtrxl, name)).parameters.values()
    kinds = inspect.Parameter
    positional = [each for each in parameters if each.kind is kinds.POSITIONAL_OR_KEYWORD]
    keywords = [each for each in parameters if each.kind is kinds.KEYWORD_ONLY]
    rest = [each.name for each in parameters if each.kind is kinds.VAR_KEYWORD]
    assert [each.arg for each in told.args] == [each.name for each in positional]
    assert [each.arg for each in told.kwonlyargs] == [each.name for each in keywords]
    assert ([told.kwarg.arg] if told.kwarg else []) == rest
    defaults = [None] * (len(told.args) - len(told.defaults)) + told.defaults
    for each, default in zip([*positional, *keywords], [*defaults, *told.kw_defaults], strict=True):
        if default is None:
            assert each.default is kinds.empty, each.name
        elif not (isinstance(default, ast.Constant) and default.value is ...):  # ...: made anew each time
            assert ast.literal_eval(default) == each.default, each.name
