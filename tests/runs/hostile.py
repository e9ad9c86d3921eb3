"""Run folders that a stranger made, as data: what their config.json says.

A case is a name and the settings that replace a good run's, or the bytes of the whole file. `{0}` stands for the name of a module
that leaves a file behind when it is imported.
"""

import dataclasses
import json
from typing import Any

MARKER = """
import pathlib
pathlib.Path(__file__).with_name("imported").write_text("")
from gtrxl.cores import LSTM
from gtrxl.algorithms import PPO
from gtrxl.tasks.t_maze import TMaze
class Core(LSTM): pass
class Learner(PPO): pass
class Maze(TMaze): pass
def make(): raise OSError("run")
"""
"""A module whose import can be seen; with something of every kind in it."""

CODE: dict[str, tuple[dict[str, Any], str]] = {
    "a core": ({"core": "{0}:Core"}, "core {0}:Core"),
    "a core with spaces around": ({"core": " {0}:Core\n"}, "core {0}:Core"),
    "a core deep inside": ({"core": "{0}.part:Core.inner"}, "core {0}.part:Core.inner"),
    "a core with arguments": ({"core": "{0}:Core", "core_args": ["hook=__import__('os').abort()"]}, "core {0}:Core"),
    "a core of the script": ({"core": "__main__:Core"}, "core __main__:Core"),
    "a core that is a builtin": ({"core": "builtins:exec"}, "core builtins:exec"),
    "a core that opens a browser": ({"core": "antigravity:Core"}, "core antigravity:Core"),
    "an algorithm": ({"algorithm": "{0}:Learner"}, "algorithm {0}:Learner"),
    "an algorithm that ends the process": ({"algorithm": "os:abort"}, "algorithm os:abort"),
    "a task": ({"task": "{0}:Maze"}, "task {0}:Maze"),
    "a task with arguments": ({"task": "{0}:Maze:corridor=3"}, "task {0}:Maze"),
    "a task behind one of ours": ({"task": "t-maze+{0}:Maze"}, "task {0}:Maze"),
    "a task behind one of ours and spaces": ({"task": "t-maze:corridor=3 + {0}:Maze:corridor=4"}, "task {0}:Maze"),
    "a task behind a word that is no task": ({"task": "t-maze+reward,+{0}:Maze"}, "task {0}:Maze"),
    "a task behind one of another package": ({"task": "jax:gymnax/X:previous=action+reward+{0}:Maze"}, "task {0}:Maze"),
    "all three": (
        {"core": "{0}:Core", "algorithm": "{0}:Learner", "task": "{0}:Maze"},
        "core {0}:Core, algorithm {0}:Learner, task {0}:Maze",
    ),
    "a function": ({"task": "env:{0}.make"}, "task {0}:make"),
    "a function with a colon": ({"task": "env:{0}:make"}, "task {0}:make"),
    "a function as older runs say it": ({"task": "gym:env_fn/{0}.make"}, "task {0}:make"),
    "a function behind a task of Gymnasium": ({"task": "gym:CartPole-v1+env:{0}.make"}, "task {0}:make"),
    "a function of the standard library": ({"task": "env:http.server.test"}, "task http.server:test"),
    "the same as older runs say it": ({"task": "gym:env_fn/http.server.test"}, "task http.server:test"),
    "the same through a module of ours": (
        {"task": "env:gtrxl.play.server:http.server.test"},
        "task gtrxl.play.server:http.server.test",
    ),
    "the same through a module of ours, with dots": (
        {"task": "gym:env_fn/gtrxl.play.server.http.server.test"},
        "task gtrxl.play.server.http.server:test",
    ),
    "a function of ours": ({"task": "env:gtrxl.cli.main.main"}, "task gtrxl.cli.main:main"),
    "a function of Gymnasium's": ({"task": "env:gymnasium.make"}, "task gymnasium:make"),
    "a module that registers": ({"task": "gym:{0}:Some-v0"}, "task {0}"),
    "a module that registers, with arguments": ({"task": "gym:{0}.part:Some-v0:size=3"}, "task {0}.part"),
    "a module that registers, second of two": ({"task": "gym:CartPole-v1 + gym:{0}:Some-v0"}, "task {0}"),
    "a module that registers, in two lines": ({"task": "gym:{0}\n.part:Some-v0"}, "task {0} .part"),
    "a part of a module that we know": ({"task": "gym:gtrxl.__main__:Some-v0"}, "task gtrxl.__main__"),
    "a module that opens a browser": ({"task": "gym:antigravity:Some-v0"}, "task antigravity"),
    "a task as an argument of ours": ({"task": "gym:gtrxl/TMaze-v0:task={0}:Maze"}, "task {0}:Maze"),
    "a task as a deep argument": ({"task": 'gym:Some-v0:inner={{"of":[{{"task":"{0}:Maze"}}]}}'}, "task {0}:Maze"),
    "an old task as an argument": ({"task": "gym:GymV26Environment-v0:env_id={0}:Some-v0"}, "task {0}:Some-v0"),
    "a level outside of DeepMind Lab": ({"task": "dmlab:../../{0}"}, "task dmlab:../../{0}"),
    "a level by its place": ({"task": "dmlab:/tmp/{0}"}, "task dmlab:/tmp/{0}"),
    "a cache of compiled maps": (
        {"task": "dmlab:rooms_watermaze:cache=/tmp/{0}"},
        "task dmlab:rooms_watermaze:cache=/tmp/{0}",
    ),
}
"""Settings that would have code imported or run, and how the refusal names it."""

DEEP = 100_000
LONG = "9" * 5000
BROKEN: dict[str, dict[str, Any] | bytes] = {
    "nothing": b"",
    "no JSON": b"import os",
    "no text": b"\xff\xfe\x00\x01",
    "null bytes": b"\0" * 100,
    "half": b'{"task": "t-maze", "core": ',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "deep lists": b"[" * DEEP + b"]" * DEEP,
    "deep objects": b'{"a":' * DEEP,
    "deep inside": b'{"net": ' + b"[" * DEEP + b"]" * DEEP + b"}",
    "a number of many digits": b'{"steps": ' + LONG.encode() + b"}",
    "a pickle": b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94.",
    "a setting of another name": {"__reduce__": ["os.system", "true"]},
    "a setting of another name, inside": {"net": {"__class__": "{0}:Core"}},
    "a core with a null byte": {"core": "{0}\0:Core"},
    "a core with a path": {"core": "../../{0}:Core"},
    "a core that is a path": {"core": "/tmp/{0}.py"},
    "no core": {"core": ""},
    "an algorithm with a null byte": {"algorithm": "vmpo\0"},
    "an algorithm that is code": {"algorithm": "__import__('{0}')"},
    "a task with a null byte": {"task": "env:{0}\0.make"},
    "a task that is code": {"task": "__import__('{0}')"},
    "a task with a path": {"task": "../{0}:Maze"},
    "a function of a script": {"task": "env:__main__.make"},
    "a function inside of another": {"task": "env:{0}:make.<locals>.inner"},
    "a task of an unknown package": {"task": "jax:{0}/Some-v0"},
    "a task of many digits": {"task": f"t-maze:corridor={LONG}"},
    "a long corridor": {"task": "t-maze:corridor=99999999999999999999"},
    "a large picture": {"task": "rooms_watermaze:height=2000000000"},
    "core_args of other kinds": {"core_args": [{"a": 1}]},
    "core_args in a word": {"core_args": "layers=3"},
    "core_args that are code": {"core_args": ["__import__('{0}')"]},
    "core_args that are deep": {"core": "lstm", "core_args": ["layers=" + "[" * DEEP]},
    "core_args for the agent": {"core": "lstm", "core_args": ["key=1"]},
    "core_args without end": {"core": "lstm", "core_args": ["layers=1000000000"]},
    "layers without end": {"net": {"layers": 10**9}},
    "streams without end": {"streams": 10**18},
    "steps without end": {"steps": 10**400},
    "a period without end": {"learner": {"target_period": 10**30}},
    "no number": {"discount": float("nan")},
    "infinity": {"learner": {"learning_rate": float("inf")}},
    "a time limit of infinity": {"fleet": {"time_limit": float("inf")}},
    "a time limit without end": {"fleet": {"time_limit": 1e300}},
    "a seed of many digits": {"seed": 10**30},
    "an engine that there is not": {"fleet": {"engine": "{0}:Engine"}},
    "an address of another kind": {"fleet": {"engine": "ray", "address": ["evil:6379"]}},
}
"""Settings that are none: nothing is imported for them, and one line says what is wrong."""

HOSTILE: list[tuple[str, dict[str, Any] | bytes]] = [*((name, data) for name, (data, _) in CODE.items()), *BROKEN.items()]
"""All of them."""


def filled(data: Any, module: str) -> Any:
    """The case with the module's name in it."""
    if isinstance(data, str):
        return data.replace("{{", "{").replace("}}", "}").replace("{0}", module)
    if isinstance(data, dict):
        return {name: filled(value, module) for name, value in data.items()}
    return [filled(value, module) for value in data] if isinstance(data, list) else data


def config_of(good: dict[str, Any], case: dict[str, Any] | bytes, module: str) -> bytes:
    """The config.json of a case, made from a good run's."""
    if isinstance(case, bytes):
        return case
    changed = filled(case, module)
    kept = {name: value for name, value in good.items() if name != "learner" or "algorithm" not in changed}
    for name, value in changed.items():
        both = isinstance(value, dict) and isinstance(kept.get(name), dict)
        kept[name] = kept[name] | value if both else value
    return json.dumps(kept).encode()


def of_another_kind(record: Any) -> list[tuple[str, Any]]:
    """Every field of settings with every value that cannot be right: (field, value)."""
    wrong: dict[type, list[Any]] = {
        bool: [None, 0, 1.5, "true", [], {}],
        int: [None, True, 1.5, "1", [1], {"a": 1}, float("nan")],
        float: [None, True, "1", [], {}, 10**400],
        str: [None, True, 3, ["a"], {"a": "b"}],
        tuple: [None, 3, "a=1", {"a": 1}, [3], [["a=1"]]],
        type(None): [{"a": 1}, [[]], True],
    }
    values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    return [
        (name, bad)
        for name, value in values.items()
        for bad in ([3, "x", [], None] if dataclasses.is_dataclass(value) else wrong[type(value)])
    ]
