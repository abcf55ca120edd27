"""Make functions and lines out of what the agent sends about Python's code objects.

Equal code objects become one: a program that makes the same function again and again (closures that
are compiled anew, reloaded modules) does not fill our memory, and gets one box. A function is known
by its file, qualified name and first line. The first line is shown where several of a file have the
same name: lambdas, the getter and the setter of a property.

Used by one thread at a time.
"""

from __future__ import annotations

from collections.abc import Callable

from ....model import Frame, FrameKind, Function
from ....wire.abi import CODE_PARTS
from ....wire.events import Code
from ...names.limits import LEFT_OUT, Budget
from ..known_codes import KnownCodes
from .line_table import LineTable
from .paths import short_path
from .text import file_text, name_text

GONE = "[python code gone]"
_NAME, _QUALIFIED_NAME, _FILE, _LINE_TABLE = range(CODE_PARTS)
_QUALIFIED_SINCE = (3, 11)
_MAX_LINE = 1 << 31


class PythonCode:
    """One code object.

    Attributes:
        function: its function.
        source: path of the file in which its class may be found; "" if it need not be.
        name, first_line: of the code object.
    """

    __slots__ = ("_frames", "_lines", "first_line", "function", "name", "source")

    def __init__(
        self,
        function: Function,
        lines: LineTable | None = None,
        name: str = "",
        first_line: int = 0,
        source: str = "",
    ) -> None:
        self.function = function
        self.name = name
        self.first_line = first_line
        self.source = source
        self._lines = lines
        self._frames: dict[int, tuple[Frame]] = {}

    def frames_at(self, position: int) -> tuple[Frame]:
        """Return the frame at a position in the code; the same object for each line."""
        line = 0 if self._lines is None else self._lines.line_at(position)
        frames = self._frames.get(line)
        if frames is None:
            frames = self._frames[line] = (Frame(self.function, line),)
        return frames

    def rename(self, function: Function) -> None:
        """Change the function."""
        self.function = function
        self._frames = {}


_NO_CODE = PythonCode(Function(GONE, "", kind=FrameKind.SYNTHETIC))
_LEFT_OUT = PythonCode(Function(LEFT_OUT, "", kind=FrameKind.UNKNOWN))


class PythonNames:
    """The code objects of all CPythons in a process.

    Args:
        version_of: recipe id → (3, 12), for example; (0, 0) if it is not known.
        names: the characters of names that may be kept.
        tables: the bytes of line tables that may be kept.
    """

    def __init__(
        self, version_of: Callable[[int], tuple[int, int]], names: Budget, tables: Budget
    ) -> None:
        self._version_of = version_of
        self._known = KnownCodes("functions", _NO_CODE, _LEFT_OUT, names, tables)
        self._functions: dict[tuple[str, str, int], Function] = {}
        self._taken: dict[tuple[str, str], int] = {}  # file and name → the first such first line

    def code(self, code: Code) -> PythonCode:
        """Return what a code object is; the same for equal ones."""
        version = self._version_of(code.recipe_id)
        # Signed 32 bits in the interpreter; in a damaged record any number.
        first_line = code.detail[0] if 0 <= code.detail[0] < _MAX_LINE else 0
        return self._known.get(
            code,
            lambda: (version, code.parts, first_line),
            lambda: self._make(code, version, first_line),
        )

    def function(self, file: str, name: str, first_line: int, mark: str = "") -> Function:
        """Return a function; the same for equal arguments.

        Args:
            file: as the code object has it.
            name: qualified.
            first_line: of the code object, to tell those of the same name apart.
            mark: how the name was found, if it is not the code object's own.
        """
        key = (file, name, first_line)
        function = self._functions.get(key)
        if function is None:
            marks = [mark] if mark else []
            is_nameless = name.rpartition(".")[2].startswith("<") and not name.endswith("<module>")
            if self._taken.setdefault((file, name), first_line) != first_line or is_nameless:
                marks.insert(0, f"line {first_line}")
            full_name = f"{name} ({'; '.join(marks)})" if marks else ""
            function = Function(name, short_path(file), file, FrameKind.PYTHON, full_name)
            self._functions[key] = function
        return function

    @property
    def note(self) -> str:
        """What is missing, one line for the user; "" if nothing is."""
        return "; ".join(self._known.notes)

    def _make(self, code: Code, version: tuple[int, int], first_line: int) -> PythonCode:
        bare, file = name_text(code.parts[_NAME]), file_text(code.parts[_FILE])
        name = name_text(code.parts[_QUALIFIED_NAME]) or bare or "[nameless]"
        table = code.parts[_LINE_TABLE]
        lines = None
        if version > (0, 0):
            lines = LineTable(version, table.raw, first_line, table.is_cut)
            if not self._known.has_room_for_lines(lines.size + len(table.raw)):
                lines = None
        is_bare = (0, 0) < version < _QUALIFIED_SINCE and name != "<module>"
        source = file if is_bare and file.startswith("/") else ""
        function = self.function(file, name, first_line)
        return PythonCode(function, lines, bare, first_line, source)
