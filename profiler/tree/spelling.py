"""Names in URLs: functions, paths and threads, so that a link works with another recording, too.

A function is ``name@module``, or ``name`` alone if it is in no module. If several functions have
both in common (an inlined copy, an overload), ``@`` and four hexadecimal digits follow that say
which; without them any is meant. A path is functions with ``;`` between them, or the ids of a
running server with ``.`` between them. A thread is ``name@tid``, or its id; ``1-8`` is a range.

A backslash goes before a character that would end a part. ``model/spelling.js`` does the same.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections.abc import Callable, Iterable, Sequence

from ..model import Function, ThreadInfo

MAX_ID = 2**32  # of threads
MAX_FUNCTION = 2**31 - 1
_PART = re.compile(r"(?:\\.|[^\\])", re.DOTALL)


def split(text: str, separator: str) -> list[str]:
    """Split a text at a separator without a backslash before it; backslashes stay."""
    parts = [""]
    for piece in _PART.findall(text):
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def plain(text: str) -> str:
    """Return a text without the backslashes."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)


def quoted(text: str) -> str:
    """Return a text with backslashes where they are needed."""
    return re.sub(r"^[?=]|[\\@;,]", r"\\\g<0>", text)


def function_spelling(function: Function, twin: str = "") -> str:
    """Return how a function is spelt."""
    module = f"@{quoted(function.module)}" if function.module or twin else ""
    return quoted(function.name) + module + (f"@{twin}" if twin else "")


def twin_mark(function: Function) -> str:
    """Return what tells a function from others of its name and module."""
    text = "\0".join((function.kind.value, function.file, function.full_name))
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')) & 0xFFFF:04x}"


class FunctionNames:
    """Finds functions by how they are spelt. Threads may share it."""

    def __init__(self, functions: Callable[[], Sequence[Function]]) -> None:
        self._functions = functions
        self._lock = threading.Lock()
        self._ids: dict[tuple[str, str], list[int]] = {}
        self._count = 0

    def _learn(self) -> None:
        functions = self._functions()
        for number in range(self._count, len(functions)):
            function = functions[number]
            self._ids.setdefault((function.name, function.module), []).append(number)
            self._count = number + 1

    def ids(self, spelling: str) -> list[int]:
        """Return the functions that a spelling means."""
        name, module, twin = ([plain(part) for part in split(spelling, "@")] + ["", ""])[:3]
        with self._lock:
            self._learn()
            found = list(self._ids.get((name, module), ()))
        if twin:
            functions = self._functions()
            found = [each for each in found if twin_mark(functions[each]) == twin] or found
        return found

    def twin(self, function_id: int) -> str:
        """Return the mark that a function needs in its spelling; mostly ""."""
        function = self._functions()[function_id]
        with self._lock:
            self._learn()
            is_alone = len(self._ids[function.name, function.module]) == 1
        return "" if is_alone else twin_mark(function)

    def path(self, elements: Iterable[int | str]) -> list[frozenset[int]]:
        """Return for each element of a path the functions that it may mean."""
        return [
            frozenset((each,)) if isinstance(each, int) else frozenset(self.ids(each))
            for each in elements
        ]


def parse_path(text: str) -> tuple[int | str, ...]:
    """Parse a path: the ids of functions, or spellings."""
    if not text:
        return ()
    if re.fullmatch(r"-?\d+(\.-?\d+)*", text, re.ASCII):
        # No function has a larger id; a longer number means none either.
        return tuple(max(-1, min(int(part[:12]), MAX_FUNCTION)) for part in text.split("."))
    return tuple(
        int(part) if re.fullmatch(r"\d{1,10}", part, re.ASCII) else part
        for part in split(text, ";")
    )


def id_range(part: str) -> range | None:
    """Return the ids of threads that ``12`` or ``1-8`` means; None if it is no such text."""
    ends = re.fullmatch(r"(\d{1,10})(?:-(\d{1,10}))?", part, re.ASCII)
    if not ends:
        return None
    first, last = int(ends[1]), int(ends[2] or ends[1])
    return range(first, last + 1) if first <= last < MAX_ID else None


def find_threads(text: str, threads: Sequence[ThreadInfo]) -> tuple[list[int], list[str]]:
    """Find the threads that a list of ids and spellings means.

    The name and the tid decide; in another process tids differ, and the name alone does.

    Returns:
        Their ids, and the parts that mean none.
    """
    found: list[int] = []
    missing: list[str] = []
    for part in split(text, ","):
        ids = id_range(part)
        if ids is not None:
            found += ids
            continue
        name, tid = ([plain(each) for each in split(part, "@")] + [""])[:2]
        named = [each for each in threads if each.name == name]
        exact = [each for each in named if str(each.tid) == tid]
        found += [each.thread_id for each in exact or named]
        if not named:
            missing.append(name)
    return list(dict.fromkeys(found)), missing
