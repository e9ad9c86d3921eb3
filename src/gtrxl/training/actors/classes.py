"""Classes that another process cannot import, sent along: a core of the user's own may be defined in a script or a notebook.

cloudpickle sends such a class in two parts, an empty one and then what belongs into it, because its methods may refer to it. An
Equinox module is a pytree of the fields it has when it is made: of an empty class that is none, and all is lost on the way
through the first compiled function. So here the first part has the names of the fields. A class is made once in each process,
however often it comes, and goes back to where it came from as a number alone.
"""

import dataclasses
import inspect
import io
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import cloudpickle
import equinox as eqx

_numbers: dict[type, str] = {}
_classes: dict[str, type] = {}
"""What was sent or has come, by number."""
_came: set[type] = set()
_empty: set[type] = set()
"""Made, and not yet filled."""
_packed: dict[type, bytes] = {}


class Carried(NamedTuple):
    """A class on its way."""

    number: str
    data: bytes
    """Nothing on the way back."""

    def unpacked(self) -> type:
        """The class, here."""
        return _classes[self.number] if self.number in _classes else cloudpickle.loads(self.data)


def carried(kind: type) -> type | Carried:
    """A class as it can be sent: itself, if the other side can import it."""
    if kind in _came:
        return Carried(_numbers[kind], b"")
    if kind.__module__ != "__main__" and "<locals>" not in kind.__qualname__:
        return kind
    if kind not in _packed:
        file = io.BytesIO()
        _Pickler(file).dump(kind)
        _packed[kind] = file.getvalue()
    return Carried(_number(kind), _packed[kind])


class _Pickler(cloudpickle.Pickler):
    """cloudpickle's, with another way for modules."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is taken apart."""
        reduced: Any = super().reducer_override(obj)
        if not isinstance(obj, type) or not issubclass(obj, eqx.Module) or not isinstance(reduced, tuple):
            return reduced
        make, arguments, state, _, _, fill = reduced
        own = inspect.get_annotations(obj)
        fields = {field.name: bool(field.metadata.get("static")) for field in dataclasses.fields(obj) if field.name in own}
        return _made, (_number(obj), fields, make, arguments), (fill, state), None, None, _filled


def _number(kind: type) -> str:
    if kind not in _numbers:
        _numbers[kind] = uuid.uuid4().hex
        _classes[_numbers[kind]] = kind
    return _numbers[kind]


def _made(number: str, fields: dict[str, bool], make: Callable[..., type], arguments: tuple[Any, ...]) -> type:
    """The class with its fields and nothing else, or the one that is there already."""
    if number in _classes:
        return _classes[number]
    kind, name, bases, namespace, *rest = arguments
    named = {"__annotations__": dict.fromkeys(fields, Any), "__init__": _later}
    static = {field: eqx.field(static=True) for field, is_static in fields.items() if is_static}
    made = make(kind, name, bases, {**namespace, **named, **static}, *rest)
    _numbers[made], _classes[number] = number, made
    _came.add(made)
    _empty.add(made)
    return made


def _filled(made: type, parts: tuple[Callable[[type, Any], Any], Any]) -> None:
    """Puts into a class what belongs there, once."""
    if made in _empty:
        _empty.remove(made)
        if "__init__" not in parts[1][0]:
            del made.__init__  # it has its base's
        fill, state = parts
        fill(made, state)


def _later(self: Any, *_: Any, **__: Any) -> None:
    """In the place of an `__init__` that comes with the second part."""
