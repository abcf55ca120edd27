"""Find the frames of a Go program in Go's own table, and shorten Go's function names.

``github.com/x/yaml%2ev3.(*Decoder[...]).Decode.func1`` is ``yaml.v3.(*Decoder[...]).Decode.func1``:
we remove the path of the package, and decode the characters that Go escapes in it. Type arguments
are written as ``[...]``, as in Go's own tracebacks. Closures, method values (``-fm``) and the parts
of ``init`` keep Go's names.

Source: go/src/cmd/internal/objabi/path.go; go/src/cmd/link/internal/ld/pcln.go.
"""

from __future__ import annotations

import re

from ...model import Frame, FrameKind, Function
from ..names.limits import LEFT_OUT, ModuleNames, cut
from .go_find import find_go_table
from .go_pclntab import GoTable
from .object_file import ObjectFile
from .symtab import Symbol

_ESCAPE = re.compile(r"%([0-9a-f]{2})")
_MAJOR_VERSION = re.compile(r"/v[1-9][0-9]*(?=\.[^/]*$)")  # of a module, at the end of the path
# Functions that the compiler makes for a type. The name has the type, with paths and brackets.
_OF_A_TYPE = ("type:", "type..", "go:", "go.")


class GoNames:
    """Go's own table as a source of names.

    It has priority over all others: it is available at once, has all lines and inlined functions,
    and uses the names of Go's tools.

    Args:
        table: the table.
        names: makes the functions.
        inlines: whether inlined functions become frames.

    Attributes:
        lacks_inlines: True if the inlined functions could not be found.
    """

    def __init__(self, table: GoTable, names: ModuleNames, *, inlines: bool) -> None:
        self.lacks_inlines = not table.has_inlines
        self._table = table
        self._made = names
        self._inlines = inlines
        self._functions: dict[tuple[str, str, FrameKind], Function] = {}

    def frames(self, file_addr: int, symbol: Symbol | None) -> tuple[Frame, ...]:
        """Return the frames at ``file_addr``, outermost first; empty if it is not Go code.

        Args:
            file_addr: the address.
            symbol: the symbol at that address in the symbol table.
        """
        found = self._table.lookup(file_addr)
        if found is None or (symbol is not None and symbol.start > found.start):
            return ()  # linked C code: the table does not show where Go code ends
        # The symbol table spells out the type arguments that Go's table has as [...].
        name, file, line = found.chain[0]
        if symbol is not None and symbol.start == found.start and "[" in symbol.name:
            name = symbol.name
        function = self._function(name, found.file, FrameKind.NATIVE)
        frames = [Frame(function, line, file if file != found.file else "")]  # //line
        if self._inlines:
            frames += [
                Frame(self._function(name, file, FrameKind.INLINED), line)
                for name, file, line in found.chain[1:]
            ]
        return tuple(frames)

    def span(self, file_addr: int) -> tuple[int, int] | None:
        """Return start and end of the Go function that covers ``file_addr``."""
        return self._table.span(file_addr)

    def _function(self, full_name: str, file: str, kind: FrameKind) -> Function:
        # The key is shortened, too: what is kept has limits.
        key = (cut(full_name), cut(file), kind)
        function = self._functions.get(key)
        if function is None:
            function = self._made.function(short_go_name(full_name), file, kind, full_name)
            if function.name != LEFT_OUT:
                self._functions[key] = function
        return function


def go_names(file: ObjectFile, names: ModuleNames, *, inlines: bool) -> GoNames | None:
    """Return the names of a Go program; ``None`` for programs in other languages.

    Raises:
        ObjectError: the file has been truncated.
    """
    table = find_go_table(file)
    return None if table is None else GoNames(table, names, inlines=inlines)


def short_go_name(name: str) -> str:
    """Return the name without the path of its package and without type arguments."""
    if name.startswith(_OF_A_TYPE):
        return name
    head, bracket, arguments = name.partition("[")
    head = _MAJOR_VERSION.sub("", head)
    head = head[head.rfind("/") + 1 :]
    if "%" in head:
        head = _ESCAPE.sub(lambda match: chr(int(match[1], 16)), head)
    return head + _without_arguments(bracket + arguments) if bracket else head


def _without_arguments(text: str) -> str:
    """Replace type arguments: ``[go.shape.int,[]string]).F`` → ``[...]).F``."""
    kept, depth = [], 0
    for char in text:
        if char == "[":
            depth += 1
            if depth == 1:
                kept.append("[...]")
        elif char == "]":
            depth -= 1
        elif depth <= 0:
            kept.append(char)
    return "".join(kept)
