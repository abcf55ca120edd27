"""The lines of ``perf script``: heads of samples, frames, and places in source files.

    comm PID/TID [cpu] time: period event:
    TAB ip symbol+0xoffset (path)
      file.c:12

``perf script -F`` says which parts there are, so each may be missing. A comm may have spaces.
Without call chains, the only frame is on the line of the head. A function that is inlined has
"(inlined)" for a path, and comes before the one that it is inlined into.

Source: perf-script(1), and what perf 3.13 to 6.1 write.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..model import Frame, FrameKind
from ..recording.names.table import JIT_MODULE
from .builder import Builder, kind_of
from .columns import line_of
from .frame_names import KERNEL, known_frame, short_name

_MAX_HEAD = 1 << 10  # characters
_TIME = re.compile(r"(?<!\S)(\d{1,10})\.(\d{1,9}):(?!\S)")
_EVENT = re.compile(r"(?<!\S)([A-Za-z_][\w:/=,.@*%+-]{0,200}?):(?!\S)")
# Bounded everywhere, so that a line takes no more time than it is long.
_COMM = r"\s{0,60}(?:(?P<comm>\S.{0,60}?)\s{1,60})?"
_IDS = (
    rf"{_COMM}(?P<first>-?\d{{1,10}})(?:/(?P<second>-?\d{{1,10}}))?"
    r"(?:\s{1,20}[A-Za-z+-]{1,6})?(?:\s{1,20}\[\d{1,6}\])?"
)
_BEFORE_TIME = re.compile(rf"{_IDS}\s{{0,60}}")
_BEFORE_EVENT = re.compile(rf"(?:{_IDS})?(?:\s{{1,60}}(?P<period>\d{{1,18}}))?\s{{0,60}}")
_BEHIND_TIME = re.compile(r"\s{0,60}(?:(?P<period>\d{1,18})\s{1,20})?")
_IP = re.compile(r"\s*([0-9a-f]{1,16})(?:\s+|$)")
_SYMBOL_AND_OFFSET = re.compile(r"(.*?)\+0x[0-9a-f]+ \((.*)\)")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
_SOURCE = re.compile(r"(.*?):(\d+)(?: \(discriminator \d+\))?(?P<inlined> \(inlined\))?")
_LOST = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)?\s+lost\s+(\d{1,12})")
_DELETED = " (deleted))"
_UNKNOWN = "[unknown]"
# Of the kernel and its modules: what is in brackets is, but for these.
_KERNEL = re.compile(
    r"\[(?!vdso|vsyscall|heap|stack|anon|unknown|JIT\]).*|.*/vmlinux.*|.*\.ko(\.\w+)?"
)
_GENERATED = re.compile(r".*/perf-\d+\.map|.*/jitted-\d+-\d+\.so|//anon|\[JIT\].*|\[anon.*")


class Head(NamedTuple):
    """What is known of a sample.

    Attributes:
        comm: of its thread.
        pid: 0 if it is not known.
        tid: the same.
        time_ns: when it was taken; None if it is not known.
        period: how much of the event it stands for; the same.
        event: with its modifiers: "cycles:u".
        rest: what is behind: a frame, or what a tracepoint says.
    """

    comm: str = ""
    pid: int = 0
    tid: int = 0
    time_ns: int | None = None
    period: int | None = None
    event: str = ""
    rest: str = ""


class PerfFrame(NamedTuple):
    """What a line stands for: a function, and those that are inlined into it, outermost first.

    Attributes:
        frames: of these functions.
        is_inlined: into the function of the next line.
    """

    frames: tuple[Frame, ...]
    is_inlined: bool


def head_of(line: str) -> Head | None:
    """Return the head that a line is, None if it is none."""
    text = line[:_MAX_HEAD]
    time, time_ns, period = _TIME.search(text), None, None
    if time:
        time_ns = int(time[1]) * 10**9 + int(time[2].ljust(9, "0"))
        ids = _BEFORE_TIME.fullmatch(text, 0, time.start())
        behind = _BEHIND_TIME.match(text, time.end())
        at = behind.end() if behind else time.end()
        period = behind["period"] if behind else None
        event = _EVENT.match(text, at)
        comm = text[: time.start()].strip()
    else:
        event = _EVENT.search(text)
        at = event.start() if event else len(text)
        ids = _BEFORE_EVENT.fullmatch(text, 0, at)
        comm = text[:at].strip()
        if event is None and not (ids and ids["comm"] and ids["first"]):
            return None
        period = ids["period"] if ids else None
        if ids and not ids["comm"] and not period and not ids["second"]:
            return Head(
                period=int(ids["first"] or 1), event=_name(event), rest=line[_end(event, at) :]
            )
    first = second = ""
    if ids:
        comm, first, second = ids["comm"] or "", ids["first"] or "", ids["second"] or ""
    return Head(
        comm,
        max(int(first), 0) if second else 0,
        max(int(second or first or 0), 0),
        time_ns,
        int(period) if period else None,
        _name(event),
        line[_end(event, at) :].strip(),
    )


def _name(event: re.Match[str] | None) -> str:
    return event[1] if event else ""


def _end(event: re.Match[str] | None, at: int) -> int:
    return event.end() if event else at


def is_record(line: str) -> bool:
    """Tell whether a line is about something else than a sample."""
    return "PERF_RECORD_" in line[:_MAX_HEAD]


def n_lost(line: str) -> int:
    """Return how many samples were lost, by such a line."""
    found = _LOST.search(line[:_MAX_HEAD])
    return int(found[1]) if found else 0


def is_frame(line: str) -> bool:
    """Tell whether a line is a frame: an address, and what is there."""
    return bool(_IP.match(line))


def perf_frame(builder: Builder, line: str, source: str = "") -> PerfFrame | None:
    """Return what a line stands for; None if it is no frame.

    Args:
        builder: of the functions.
        line: the line.
        source: the next one, if it says where that is in a source file.
    """
    found = _IP.match(line)
    if found is None:
        return None
    symbol, place = _symbol_and_place(line[found.end() :].rstrip())
    at = _SOURCE.fullmatch(source.lstrip())
    is_inlined = place == "inlined" or bool(at and at["inlined"])
    file, number = (at[1], line_of(at[2])) if at and at[1] != "??" else ("", 0)
    module = "" if is_inlined else module_of(place)
    if symbol in ("", _UNKNOWN):
        name = f"[{module.strip('[]')}]" if module else symbol or f"0x{found[1]}"
        return PerfFrame(
            (Frame(builder.function(name, module, kind=FrameKind.UNKNOWN)),), is_inlined
        )
    if is_inlined:
        function = builder.function(short_name(symbol), "", file, FrameKind.INLINED)
        return PerfFrame((Frame(function, number),), is_inlined)
    if chain := _java_chain(builder, symbol):
        return PerfFrame(chain, is_inlined)
    if (language := kind_of(place)) is not FrameKind.NATIVE:  # a file of our own
        return PerfFrame((Frame(builder.function(symbol, "", place, language)),), is_inlined)
    known = known_frame(builder, symbol) if module in (JIT_MODULE, "") else None
    kind = kind_of(file) if file else FrameKind.NATIVE
    function = builder.function(short_name(symbol), module, file, kind)
    return PerfFrame((known or Frame(function, number),), is_inlined)


def _symbol_and_place(text: str) -> tuple[str, str]:
    # Without the end, each offset would be tried.
    if text.endswith(")") and (found := _SYMBOL_AND_OFFSET.fullmatch(text)):
        return found[1], found[2].removesuffix(_DELETED[:-1])
    if text.endswith(_DELETED):
        text = f"{text.removesuffix(_DELETED)})"
    if text.endswith(")") and (text.startswith(("(/", "(["))):  # no symbol
        return "", text[1:-1]
    symbol, parenthesis, place = text.rpartition(" (")
    if parenthesis and text.endswith(")"):
        return symbol, place[:-1]
    return _OFFSET.sub("", text), ""


def _java_chain(builder: Builder, symbol: str) -> tuple[Frame, ...]:
    """Return the frames of methods that are inlined into each other: "a->b" of perf-map-agent."""
    parts = symbol.split("->") if "->" in symbol else []
    frames = [known_frame(builder, each) for each in parts]
    return tuple(each for each in frames if each) if all(frames) else ()


def module_of(place: str) -> str:
    """Return the module of a path as perf prints it; "" if it is not known."""
    if not place or place == _UNKNOWN:
        return ""
    if _KERNEL.fullmatch(place):
        return KERNEL
    return JIT_MODULE if _GENERATED.fullmatch(place) else place.rpartition("/")[2]
