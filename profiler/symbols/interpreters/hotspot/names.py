"""Make functions and lines out of what the agent sends about Java's methods.

Equal methods become one: a class that is loaded again and again does not fill our memory, and its
methods get one box each. So do the classes that the machine makes for lambdas and method handles:
their numbers are left out.

Used by one thread at a time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ....model import Frame, FrameKind, Function
from ....wire.abi import (
    CODE_PARTS,
    JAVA_INLINED,
    JAVA_NEAREST,
    JAVA_NO_INDEX,
    JAVA_STUB_SHIFT,
    JAVA_TIER_SHIFT,
)
from ....wire.events import Code, CodePart
from ...names.limits import LEFT_OUT, Budget
from ..known_codes import KnownCodes
from .line_table import JavaLines
from .routines import Routine, name_at, use_of
from .signature import parameters_of

GONE = "[java method gone]"
STUBS = "[jvm]"
UNMOUNTED = "unmounted frames"  # of a virtual thread, and what brings them back
_FRAMES_BACK = "StubRoutines (continuation"
# What is shown of many routines side by side, where they are not known one by one.
_ROUTINES = "routines of the virtual machine"
_SECOND_ROUTINES = "array copies and other routines of the virtual machine"
_HAS_ARRAY_COPIES = re.compile(r"\((2|final ?stubs|compiler ?stubs)\)")
_CALL_STUB = "call_stub"  # is "call stub", wherever in it a thread is
_TIERS = ("interpreted", *["compiled by C1"] * 3, "compiled by C2", "native method")
_TIER_MASK = 15
_CLASS, _METHOD, _FILE, _LINES = range(CODE_PARTS)
# Hidden classes have the address of the class behind their names, since 15 after "+", then "/"; the
# generated ones are numbered as well.
_HIDDEN = re.compile(r"[/+.]0x[0-9a-f]{8,}")
_NUMBERED = re.compile(
    r"(\$\$Lambda)(\$\d+)?$|((?:GeneratedMethodAccessor|GeneratedConstructorAccessor"
    r"|GeneratedSerializationConstructorAccessor))\d+$"
)


def _tier(position: int) -> str:
    """Return how a method runs at a position, in words."""
    tier = position >> JAVA_TIER_SHIFT & _TIER_MASK
    words = _TIERS[tier] if tier < len(_TIERS) else ""
    return words.replace("compiled", "inlined") if position & JAVA_INLINED else words


class JavaCode:
    """One method, or a stub of the virtual machine."""

    __slots__ = ("_frames", "_lines", "function", "source")

    def __init__(self, function: Function, lines: JavaLines | None = None) -> None:
        self.function = function
        self.source = ""  # nothing more is to be found in a file
        self._lines = lines
        self._frames: dict[tuple[int, str], tuple[Frame]] = {}

    def frames_at(self, position: int) -> tuple[Frame]:
        """Return the frame at a position (``abi.h``); the same object for each line and tier."""
        index = position & JAVA_NO_INDEX
        line = 0
        if self._lines is not None and index != JAVA_NO_INDEX:
            line = self._lines.line_at(index)
        tier = _tier(position) if self.function.kind is FrameKind.JAVA else ""
        frames = self._frames.get((line, tier))
        if frames is None:
            frames = self._frames[line, tier] = (Frame(self.function, line, "", tier),)
        return frames


class StubCode(JavaCode):
    """Many routines of the virtual machine, which lie side by side.

    Args:
        name: of all of them.
        start: runtime_addr of the first byte.
        routines: returns those that are known by now.
    """

    __slots__ = ("_named", "_routines", "_start")

    def __init__(self, name: str, start: int, routines: Callable[[], tuple[Routine, ...]]) -> None:
        words = _SECOND_ROUTINES if _HAS_ARRAY_COPIES.search(name) else _ROUTINES
        super().__init__(Function(f"[{words}]", STUBS, full_name=f"{words} ({name})"))
        self._start = start
        self._routines = routines
        self._named: dict[str, tuple[Frame]] = {}

    def frames_at(self, position: int) -> tuple[Frame]:
        """Return the frame at a position: that of the routine, if it is known."""
        offset = position & JAVA_NO_INDEX
        if offset == JAVA_NO_INDEX:
            return super().frames_at(JAVA_NO_INDEX)
        offset |= position >> JAVA_STUB_SHIFT << JAVA_TIER_SHIFT
        name = name_at(self._routines(), self._start + offset)
        if not name:
            return super().frames_at(JAVA_NO_INDEX)
        frames = self._named.get(name)
        if frames is None:
            use = use_of(name)
            function = Function(
                f"[{_CALL_STUB.replace('_', ' ') if name == _CALL_STUB else name}]",
                STUBS,
                full_name=f"{name}: {use}" if use else name,
            )
            frames = self._named[name] = (Frame(function),)
        return frames


_NO_CODE = JavaCode(Function(GONE, "", kind=FrameKind.SYNTHETIC))
_LEFT_OUT = JavaCode(Function(LEFT_OUT, "", kind=FrameKind.UNKNOWN))


_NEAREST = (
    "what is inlined into the innermost compiled frames is that of the next place the compiler "
    "described; exact with -XX:+UnlockDiagnosticVMOptions -XX:+DebugNonSafepoints"
)


class JavaNames:
    """The methods of all HotSpots in a process.

    Args:
        number_base_of: recipe id → the least byte of compressed numbers.
        routines_of: recipe id → the virtual machine's own routines.
        names: the characters of names that may be kept.
        tables: the bytes of line tables that may be kept.
    """

    def __init__(
        self,
        number_base_of: Callable[[int], int],
        routines_of: Callable[[int], tuple[Routine, ...]],
        names: Budget,
        tables: Budget,
    ) -> None:
        self._number_base_of = number_base_of
        self._routines_of = routines_of
        self._known = KnownCodes("methods", _NO_CODE, _LEFT_OUT, names, tables)
        self._has_nearest = False

    def see(self, position: int) -> None:
        """Note how exact a position is."""
        self._has_nearest |= bool(position & JAVA_NEAREST)

    def code(self, code: Code) -> JavaCode:
        """Return what a record is; the same for equal ones."""
        base = self._number_base_of(code.recipe_id)
        name_bytes, start = code.detail
        key = (base, code.parts, name_bytes, 0 if name_bytes else start)
        return self._known.get(code, lambda: key, lambda: self._make(code, base))

    @property
    def note(self) -> str:
        """What is missing, one line for the user; "" if nothing is."""
        return "; ".join(self._known.notes + [_NEAREST] * self._has_nearest)

    def _make(self, code: Code, base: int) -> JavaCode:
        name_bytes = code.detail[0]
        if not name_bytes:
            name = _text(code.parts[_METHOD]).replace("[", "(").replace("]", ")")
            if name.startswith(_FRAMES_BACK):
                name = UNMOUNTED
            elif code.detail[1]:
                return StubCode(name, code.detail[1], lambda: self._routines_of(code.recipe_id))
            return JavaCode(Function(f"[{name}]", STUBS, kind=FrameKind.NATIVE))
        method = code.parts[_METHOD].raw
        class_name = class_text(_text(code.parts[_CLASS]))
        name = f"{class_name}.{_decoded(method[:name_bytes])}"
        package = class_name.rpartition(".")[0]
        full_name = name + parameters_of(_decoded(method[name_bytes:]))
        if code.parts[_METHOD].is_cut:
            full_name += "…"
        function = Function(name, package, _text(code.parts[_FILE]), FrameKind.JAVA, full_name)
        lines = JavaLines(code.parts[_LINES].raw, base)
        return JavaCode(function, lines if self._known.has_room_for_lines(lines.size) else None)


def class_text(internal: str) -> str:
    """Return the name of a class as programs write it: with dots, without the machine's numbers."""
    dotted = _HIDDEN.sub("", internal).replace("/", ".")
    return _NUMBERED.sub(lambda found: found[1] or found[3], dotted)


def _text(part: CodePart) -> str:
    return _decoded(part.raw) + ("…" if part.is_cut else "")


def _decoded(raw: bytes) -> str:
    """Decode modified UTF-8: 0 in two bytes, surrogates in three each."""
    text = raw.replace(b"\xc0\x80", b"\0").decode(
        "utf-8", "surrogatepass" if _is_sane(raw) else "replace"
    )
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(c if c.isprintable() else "?" for c in text)


def _is_sane(raw: bytes) -> bool:
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
