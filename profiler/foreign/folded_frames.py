"""The frames of folded stacks, as several tools write them.

    qualname (file.py:12)         py-spy, flametap with --lines
    name (libc.so.6)              py-spy: a function without lines, and its module
    qualname (short/path.py)      flametap
    java/lang/Thread.run_[j]      async-profiler: _[0] interpreted, _[1] compiled by C1,
                                  _[j] compiled, _[i] inlined
    name_[k]  name_[j]  name_[i]  stackcollapse-perf.pl: of the kernel, generated, inlined

Roots that name processes and threads are no frames:

    process 1:"cmd"  thread (0x7F…): name    py-spy
    [name tid=12]                            async-profiler
    name (12)                                flametap
    comm-1/12                                stackcollapse-perf.pl with --tid

A root that only names a command is a frame: it cannot be told from a function. So is "name (12)"
unless each of the first lines has such a root.

What is in parentheses is a place if it ends like the name of a file of Python, or in the number of
a line; of py-spy, always. Else it stays part of the name: so do the parameters of C++, as functions
that differ by them are not the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ..model import Frame, FrameKind
from ..recording.names.table import JIT_MODULE
from .builder import Builder, kind_of
from .columns import line_of, tid_of
from .frame_names import KERNEL, java_frame, known_frame
from .inlined_frames import Inlinable, InlinedFrames

_PROCESS = re.compile(r'process (\d+):"(.*?)"(?:;|$)')
_THREAD = re.compile(
    r"thread \((?P<id>\w+)\)(?:: (?P<name>[^;]*))?(?:;|$)"
    r"|\[(?:(?P<java>[^;]*) )?tid=(?P<tid>\d+)\](?:;|$)"
    r"|(?P<own>[^;]*\S) \((?P<own_tid>\d+)\)(?:;|$)"
    r"|(?P<comm>[^;]+)-(?P<pid>\d+|\?)/(?P<perf_tid>\d+)(?:;|$)"
)
_ANNOTATED = re.compile(r"(.+)_\[([kij01])\]")
_PLACED = re.compile(r"(.*\S) \(([^()]+?)(?::(\d+))?(?::\d+)?\)")
_IS_PLACE = re.compile(
    r".* \((?:[^()]+\.(?:pyx?|pyi|so(?:\.\d+)*)|[^()]+:\d+|<(?:string|stdin|frozen [\w.]+)>)\)"
)
_OWN_THREAD = re.compile(r"[^;]*\S \(\d+\)(?:;| [\d.]+$)")
_JAVA_MARK = re.compile(r"_\[j\][; ]")
_BY_PY_SPY = re.compile(r'process \d+:"|thread \(\w+\)(?:[:;]| \d+$)')
_BY_ASYNC_PROFILER = re.compile(
    r"(?:^|;)\[(?:[^;]* )?tid=\d+\];|_\[[01]\](?:;| )|(?:^|;)java/\w+/[\w$/]+\."
)
# A class whose objects are allocated; async-profiler marks those outside of buffers with _[k].
_CLASS = re.compile(r"(?:[\w$]+\.)*(?:[A-Z][\w$]*|[a-z]+(?=\[))(?:\[\])*")
_IN_NO_PACKAGE = re.compile(r"[A-Z][\w$]*(?:[/+.]0x[0-9a-f]+)?\.(?:[\w$]+|<(?:cl)?init>)")
_JAVA_TIERS = {
    "0": "interpreted",
    "1": "compiled by C1",
    "j": "compiled",
    "i": "inlined",
}


@dataclass(frozen=True)
class Dialect:
    """How the frames of a file are to be read.

    Attributes:
        tool: that wrote them; "" if it is not sure.
        has_places: what stands in parentheses is a file or a module.
        has_threads: the roots "name (12)" are threads.
        has_java: names with slashes are of Java.
    """

    tool: str = ""
    has_places: bool = False
    has_threads: bool = False
    has_java: bool = False


def dialect_of(lines: Iterable[str]) -> Dialect:
    """Tell who wrote the lines."""
    lines = [each for each in lines if each.strip()]
    has_threads = bool(lines) and all(_OWN_THREAD.match(each) for each in lines)
    if any(_BY_PY_SPY.match(each) for each in lines):
        return Dialect("py-spy", has_places=True)
    if any(_BY_ASYNC_PROFILER.search(each) for each in lines):
        return Dialect("async-profiler", has_threads=has_threads, has_java=True)
    has_java = any(_JAVA_MARK.search(each) for each in lines)
    return Dialect(has_threads=has_threads, has_java=has_java)


class FoldedFrames:
    """Makes stacks of the texts of a file.

    Attributes:
        pid: of the process if there is one; else 0.
        program: its command line.
    """

    def __init__(self, builder: Builder, dialect: Dialect) -> None:
        self._builder, self._dialect = builder, dialect
        self._stacks = InlinedFrames(builder)
        self._frames: dict[str, Inlinable] = {}
        self._processes: dict[int, str] = {}

    @property
    def pid(self) -> int:
        """The process of all threads; 0 if there are several, or it is not known."""
        return next(iter(self._processes)) if len(self._processes) == 1 else 0

    @property
    def program(self) -> str:
        """Its command line."""
        return self._processes.get(self.pid, "")

    def stack(self, text: str) -> tuple[int, int]:
        """Return the numbers of the thread and the stack of a line without its weight."""
        builder = self._builder
        at = pid = 0
        while found := _PROCESS.match(text, at):  # a process, and the one that it has started
            at, pid = found.end(), tid_of(found[1])
            command = found[2]
        if at:
            self._processes[pid] = command
        key: tuple[int, str, str] = pid, "", ""
        name, tid = "", 0
        found = _THREAD.match(text, at)
        if found and (self._dialect.has_threads or not found["own"]):
            at = found.end()
            name = next(filter(None, found.group("name", "java", "own", "comm")), "")
            number = next(filter(None, found.group("id", "tid", "own_tid", "perf_tid")))
            tid = tid_of(number)
            name = name or ("" if tid else number)
            key = pid, found["pid"] or name, number
        thread = builder.thread(key, name, tid)
        rest = text[at:]
        known = self._frames
        texts = rest.split(";") if rest.strip() else []
        return thread, self._stacks.stack([known.get(each) or self._new(each) for each in texts])

    def _new(self, text: str) -> Inlinable:
        frame = self._frame(text)
        is_inlined = frame.function.kind is FrameKind.INLINED
        found = self._frames[text] = Inlinable((frame,), is_inlined=is_inlined)
        return found

    def _frame(self, text: str) -> Frame:
        builder = self._builder
        found = _ANNOTATED.fullmatch(text)
        name, note = (found[1], found[2]) if found else (text, "")
        is_java = self._dialect.tool == "async-profiler"
        has_place = self._dialect.has_places or _IS_PLACE.fullmatch(name)
        if has_place and (placed := _PLACED.fullmatch(name)):
            return self._placed(*placed.group(1, 2, 3))
        tier = _JAVA_TIERS.get(note, "") if is_java else ""
        if java := known_frame(builder, name, tier, has_java=self._dialect.has_java):
            return java
        is_class = bool(is_java and note and _CLASS.fullmatch(name))
        if is_java and ((note and note != "k") or is_class or _IN_NO_PACKAGE.fullmatch(name)):
            return java_frame(builder, name, "" if is_class else _JAVA_TIERS.get(note, ""))
        kind = FrameKind.INLINED if note == "i" else FrameKind.NATIVE
        if name.startswith("[") and name.endswith("]"):
            kind = FrameKind.UNKNOWN
        module = {"k": KERNEL, "j": JIT_MODULE}.get(note, "")
        return Frame(builder.function(name or "[unknown]", module, kind=kind))

    def _placed(self, name: str, place: str, line: str | None) -> Frame:
        kind = kind_of(place)
        if kind is FrameKind.NATIVE and line is None:  # a module
            kind = FrameKind.UNKNOWN if name.startswith("0x") else kind
            return Frame(self._builder.function(name, place.rpartition("/")[2], kind=kind))
        if kind is FrameKind.NATIVE and place.startswith("<"):  # <string>, <frozen importlib>
            kind = FrameKind.PYTHON
        return Frame(self._builder.function(name, "", place, kind), line_of(line))
