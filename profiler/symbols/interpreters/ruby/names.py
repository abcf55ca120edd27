"""Make functions and lines out of what the agent sends about Ruby's methods.

Equal iseqs become one: a program that defines the same method again and again does not fill our
memory, and gets one box. A function is known by its path, label and first line. The first line is
shown where several of a file have the same label: blocks of one method. Methods in C have a class
and a name only.

Used by one thread at a time.
"""

from __future__ import annotations

import re

from ....model import Frame, FrameKind, Function
from ....wire.abi import CODE_PARTS, RUBY_IN_C, RUBY_SINGLETON
from ....wire.events import Code, CodePart
from ...names.limits import LEFT_OUT, MARK, Budget, cut
from ..known_codes import KnownCodes
from .line_table import LineTable
from .paths import short_path

GONE = "[unknown Ruby function]"
IN_C = "[ruby]"  # the module of methods in C
_LABEL, _CLASS, _PATH, _LINES = range(CODE_PARTS)
_TABLE_MASK = (1 << 32) - 1  # of detail 1
# What stands in a label before the name of a method.
_AROUND = re.compile(r"(?:(?:block(?: \(\d+ levels\))?|rescue|ensure|eval) in )*")
_MAX_LINE = 1 << 31


class RubyCode:
    """One iseq.

    Attributes:
        function: its function.
        source: "": nothing more is to be found in a file.
    """

    __slots__ = ("_frames", "_lines", "function", "source")

    def __init__(self, function: Function, lines: LineTable | None = None) -> None:
        self.function = function
        self.source = ""
        self._lines = lines
        self._frames: dict[int, tuple[Frame]] = {}

    def frames_at(self, position: int) -> tuple[Frame]:
        """Return the frame at an instruction; the same object for each line."""
        line = 0 if self._lines is None else self._lines.line_at(position)
        frames = self._frames.get(line)
        if frames is None:
            frames = self._frames[line] = (Frame(self.function, line),)
        return frames


_NO_CODE = RubyCode(Function(GONE, "", kind=FrameKind.SYNTHETIC))
_LEFT_OUT = RubyCode(Function(LEFT_OUT, "", kind=FrameKind.UNKNOWN))


class RubyNames:
    """The iseqs of a process.

    Args:
        names: the characters of names that may be kept.
        tables: the bytes of line tables that may be kept.
    """

    def __init__(self, names: Budget, tables: Budget) -> None:
        self._known = KnownCodes("Ruby functions", _NO_CODE, _LEFT_OUT, names, tables)
        self._taken: dict[tuple[str, str], int] = {}  # path and label → the first such first line

    def code(self, code: Code) -> RubyCode:
        """Return what an iseq is; the same for equal ones."""
        first_line = code.detail[0] if 0 <= code.detail[0] < _MAX_LINE else 0
        return self._known.get(
            code, lambda: (code.parts, code.detail), lambda: self._make(code, first_line)
        )

    @property
    def note(self) -> str:
        """What is missing, one line for the user; "" if nothing is."""
        return "; ".join(self._known.notes)

    def _make(self, code: Code, first_line: int) -> RubyCode:
        label, path = _text(code.parts[_LABEL]), _text(code.parts[_PATH], is_tail=True)
        table, size = code.parts[_LINES].raw, code.detail[1] & _TABLE_MASK
        entries, places = table[:size], table[size:]
        name = qualified(label, _text(code.parts[_CLASS]), bool(code.detail[1] & RUBY_SINGLETON))
        if code.detail[1] & RUBY_IN_C:
            return RubyCode(Function(name, IN_C, "", FrameKind.RUBY))
        # Without tables (of one that was thrown away at once) the line is not known.
        lines = LineTable(entries, places, first_line) if entries else None
        if lines and not self._known.has_room_for_lines(len(entries) + len(places)):
            lines = None
        full_name = ""
        if self._taken.setdefault((path, label), first_line) != first_line or " in " in label:
            full_name = f"{name} (line {first_line})"
        return RubyCode(Function(name, short_path(path), path, FrameKind.RUBY, full_name), lines)


def qualified(label: str, owner: str, is_singleton: bool) -> str:
    """Return a label with the class that has the method: "block in Foo#each".

    Args:
        label: as Ruby's backtraces have it: "block in each".
        owner: path of the class; "" if it is not known.
        is_singleton: it is a method of the class itself: "Foo.new".
    """
    around = _AROUND.match(label)
    begin = around.end() if around else 0
    name = label[begin:]
    is_no_method = name.startswith("<") and name.endswith(">") and name != "<=>"  # "<main>"
    if not owner or not name or is_no_method:
        return label or "[nameless]"
    return f"{label[:begin]}{owner}{'.' if is_singleton else '#'}{name}"


def _text(part: CodePart, *, is_tail: bool = False) -> str:
    """Return a text of the target, printable, with a mark where it was cut."""
    text = part.raw.decode("utf-8", "replace")
    text = "".join(c if c.isprintable() else "?" for c in text)
    if not part.is_cut:
        return text
    return MARK + text if is_tail else cut(text + MARK)
