"""Find the classes and functions around a function in the text of its source file.

Before 3.11 a code object knows its bare name and first line only. The text says what that line is
inside of. It is not compiled, as anybody may have written it: strings and comments are skipped, and
the rest goes by indentation. That is linear in the size of the text, and gives what the compiler
would say for all but contrived files. A name is used only where text and code object agree on name
and line, so a file that was changed since gives few wrong ones.

Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

MAX_SOURCE_BYTES = 4 << 20  # the largest of the standard library has 0.4 MB
_LOCALS = "<locals>"
_TAB = 8  # columns; as the compiler counts
# No alternative goes back, so that no text takes more than linear time. The letters before a string
# do not matter: also in a raw one, a quote behind a backslash does not end it.
_TOKEN = re.compile(
    r"""
      \#[^\n]*
    | (?P<quotes>'''|\"\"\")
    | (?P<quote>['"])
    | (?P<open>[(\[{]) | (?P<close>[)\]}])
    | \\\n
    | (?P<end>\n)
    """,
    re.VERBOSE,
)
_HEAD = re.compile(r"([ \t\f]*)(?:(?:(async[ \t]+)?(def)|(class))[ \t]+(\w+)|(@)|(?=[^\s#]))")
_CODE = re.compile(r"[ \t\f]*[^\s#]")


class _Scope(NamedTuple):
    indent: int
    name: str
    is_class: bool
    qualified: str
    first_line: int  # of its decorators
    line: int  # of ``def`` or ``class``


class SourceNames:
    """The definitions in one source file.

    Args:
        text: the file.
    """

    def __init__(self, text: str) -> None:
        self._by_line: dict[tuple[int, str], int] = {}  # (first line, name) → index of the scope
        self._scopes: list[_Scope] = []
        self._ends: list[int] = []  # the line behind the body of each
        self._parents: list[int] = []  # index of the scope around each, -1 for the module
        self._read(text)
        self._lines = [scope.line for scope in self._scopes]

    def qualified(self, name: str, first_line: int) -> tuple[str, bool]:
        """Return the qualified name of a code object.

        Args:
            name: its ``co_name``.
            first_line: its ``co_firstlineno``.

        Returns:
            The name, and whether the innermost scope around it is a class. The bare name if the
            text does not say, or there is nothing around it.
        """
        index = self._by_line.get((first_line, name), -1)
        if index >= 0:
            parent = self._parents[index]
            return self._scopes[index].qualified, parent >= 0 and self._scopes[parent].is_class
        if not name.startswith("<") or name == "<module>":
            return name, False
        # A lambda or a comprehension: it is in the innermost body that spans its line.
        index = bisect_right(self._lines, first_line - 1) - 1
        while index >= 0 and self._ends[index] <= first_line:
            index = self._parents[index]
        if index < 0:
            return name, False
        scope = self._scopes[index]
        return _join(scope, name), scope.is_class

    def _read(self, text: str) -> None:
        around: list[int] = []  # indices of the scopes that the current line is in
        decorated = 0  # first line of the decorators before the next definition
        for line, head in _logical_lines(text):
            match = _HEAD.match(head)
            if match is None:
                continue
            indent = _columns(match[1])
            while around and self._scopes[around[-1]].indent >= indent:
                self._ends[around.pop()] = line
            if match[6]:
                decorated = decorated or line
                continue
            name = match[5]
            if name:
                parent = self._scopes[around[-1]] if around else None
                qualified = name if parent is None else _join(parent, name)
                scope = _Scope(
                    indent, name, match[4] is not None, qualified, decorated or line, line
                )
                self._parents.append(around[-1] if around else -1)
                around.append(len(self._scopes))
                self._scopes.append(scope)
                self._ends.append(1 << 60)
                self._by_line.setdefault((scope.first_line, name), around[-1])
            decorated = 0


def _logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the number and the start of each logical line that is not empty."""
    lines: list[tuple[int, str]] = []
    position = start = depth = 0
    number = first = 1
    while position <= len(text):
        match = _TOKEN.search(text, position)
        if match is None:
            _add(lines, first, text, start)
            break
        position = match.end()
        if match["quotes"] or match["quote"]:
            ending = _end_of_string(text, position, match["quotes"] or match["quote"])
            number += text.count("\n", position, ending)
            position = ending
        elif match["open"]:
            depth += 1
        elif match["close"]:
            depth = max(0, depth - 1)
        elif match["end"] or match[0] == "\\\n":
            number += 1
            if match["end"] and not depth:
                _add(lines, first, text, start)
                start, first = position, number
    return lines


def _add(lines: list[tuple[int, str]], number: int, text: str, start: int) -> None:
    if _CODE.match(text, start):
        lines.append((number, text[start : start + 400]))


def _end_of_string(text: str, position: int, quote: str) -> int:
    """Return where a string ends: behind its quotes, or at the end of the line or of the text."""
    while True:
        end = text.find(quote, position)
        if len(quote) == 1:
            line_end = text.find("\n", position)
            if line_end >= 0 and (end < 0 or line_end < end):
                if text[line_end - 1 : line_end] != "\\":
                    return line_end
                position = line_end + 1
                continue
        if end < 0:
            return len(text)
        slashes = end - len(text[position:end].rstrip("\\")) - position
        if slashes % 2 == 0:
            return end + len(quote)
        position = end + 1


def _columns(indent: str) -> int:
    columns = 0
    for character in indent:
        if character == "\f":
            columns = 0
        else:
            columns = (columns // _TAB + 1) * _TAB if character == "\t" else columns + 1
    return columns


def _join(scope: _Scope, name: str) -> str:
    return f"{scope.qualified}.{name}" if scope.is_class else f"{scope.qualified}.{_LOCALS}.{name}"
