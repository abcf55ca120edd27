"""Show a Python object of another process as text, much as ``repr`` does, in few characters.

Numbers, strings and containers of the built-in types are shown by their contents, objects of
subclasses as ``Name(...)`` around them, all others as ``<Name object at 0x...>``. Marks show cuts
and damage. A container that contains itself shows as ``[...]``, as in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ....linux.process_memory import MemoryReadError
from ...names.limits import MARK
from . import object_layout as at
from .bounded_memory import LimitReached
from .objects import Objects
from .scalars import Type

MAX_CHARACTERS = 120  # of a value
_MAX_DEPTH = 8
_MAX_ITEMS = 64  # of a container
DAMAGED = "<damaged>"

_CONTAINERS = {
    at.IS_LIST: ("list", "[", "]"),
    at.IS_TUPLE: ("tuple", "(", ")"),
    at.IS_DICT: ("dict", "{", "}"),
}


class Values:
    """Makes texts of objects.

    Args:
        objects: the reader of the process.
        limit: the most characters of a text, without its mark.
    """

    def __init__(self, objects: Objects, limit: int = MAX_CHARACTERS) -> None:
        self._objects = objects
        self._limit = limit

    def text(self, addr: int) -> str:
        """Return the text of an object.

        Raises:
            LimitReached: no more may be read of the process.
        """
        text, most = self._text(addr, self._limit, ()), 2 * self._limit  # a name may be long
        return text if len(text) <= most else text[:most] + MARK

    def _text(self, addr: int, room: int, above: tuple[int, ...]) -> str:
        try:
            return self._read(addr, room, above)
        except LimitReached:
            raise
        except MemoryReadError:
            return DAMAGED

    def _read(self, addr: int, room: int, above: tuple[int, ...]) -> str:
        objects = self._objects
        kind = objects.type_of(addr)
        if kind.name == "NoneType":
            return "None"
        if kind.name == "bool" and kind.has(at.IS_INT):
            return "True" if objects.integer(addr) else "False"
        if kind.name == "float":
            return repr(objects.real(addr))
        if kind.has(at.IS_INT):
            number = objects.integer(addr)
            return _named(kind, "int", self._number(number))
        if kind.has(at.IS_STRING):
            text, length = objects.text(addr, room + 1)
            return _named(kind, "str", _quoted(text, length, room))
        if kind.has(at.IS_BYTES):
            data, length = objects.octets(addr, room + 1)
            return _named(kind, "bytes", _quoted(data, length, room))
        if kind.name in ("set", "frozenset"):
            return self._set(kind, addr, room, above)
        for flag, (name, begin, end) in _CONTAINERS.items():
            if kind.has(flag):
                return _named(kind, name, self._container(addr, flag, begin, end, room, above))
        return f"<{kind.name} object at {addr:#x}>"

    def _number(self, number: int | None) -> str:
        text = "" if number is None else str(number)
        return text if 0 < len(text) <= self._limit else "<a long int>"

    def _container(
        self, addr: int, flag: int, begin: str, end: str, room: int, above: tuple[int, ...]
    ) -> str:
        if addr in above:
            return f"{begin}...{end}"
        if len(above) >= _MAX_DEPTH:
            return f"{begin}{MARK}{end}"
        objects, inside = self._objects, (*above, addr)
        parts: Iterable[Callable[[int], str]]
        if flag == at.IS_DICT:
            pairs, length = objects.pairs(addr, _MAX_ITEMS)
            parts = [self._pair(key, value, inside) for key, value in pairs]
        else:
            items, length = objects.items(addr, _MAX_ITEMS)
            parts = [self._item(each, inside) for each in items]
        body = _joined(parts, length, room)
        comma = "," if flag == at.IS_TUPLE and length == 1 else ""
        return f"{begin}{body}{comma}{end}"

    def _set(self, kind: Type, addr: int, room: int, above: tuple[int, ...]) -> str:
        members, length = self._objects.members(addr, _MAX_ITEMS)
        if not length:
            return f"{kind.name}()"
        body = "{" + _joined([self._item(m, (*above, addr)) for m in members], length, room) + "}"
        return body if kind.name == "set" else f"{kind.name}({body})"

    def _item(self, addr: int, above: tuple[int, ...]) -> Callable[[int], str]:
        return lambda room: self._text(addr, room, above)

    def _pair(self, key: int, value: int, above: tuple[int, ...]) -> Callable[[int], str]:
        def text(room: int) -> str:
            name = self._text(key, room, above)
            return f"{name}: {self._text(value, max(0, room - len(name)), above)}"

        return text


def _named(kind: Type, name: str, text: str) -> str:
    return text if kind.name == name else f"{kind.name}({text})"


def _quoted(text: str | bytes, length: int, room: int) -> str:
    """Return a literal of the first of ``length`` characters or bytes, with a mark if it is cut."""
    shown = text[:room]
    while len(shown) > 1 and len(repr(shown)) > room + 3:  # escapes take room
        shown = shown[: len(shown) * room // len(repr(shown))]
    return repr(shown) + (MARK if len(shown) < length else "")


def _joined(parts: Iterable[Callable[[int], str]], length: int, room: int) -> str:
    """Join the texts of items while there is room, with a mark for those that are left out."""
    texts: list[str] = []
    for part in parts:
        if room <= 0:
            break
        text = part(room)
        if texts and len(text) > room and MARK not in text:
            break
        texts.append(text)
        room -= len(text) + 2
    if len(texts) < length:
        texts.append(MARK)
    return ", ".join(texts)
