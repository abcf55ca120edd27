"""Turn the chunks of a recording's file into its contents, whatever is in the file.

Everything is checked: what makes no sense raises ``DamageError``.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from ..model import FrameKind, Function, Module, Process, Status, SymbolSource, Thread
from ..wire.decoder import MAX_NS, MAX_THREAD_ID
from .chunks import Chunk, DamageError
from .names.frame_pool import NameGains, NameMark
from .names.given import Given
from .names.table import SymbolTable
from .profile.gains import GainMark, Gains
from .profile.intervals import NewRows
from .profile.stack_columns import StackColumns
from .profile.store import Profile
from .row_columns import ended_rows, rows_of

# What a file may take in memory, beside what the profile allows: far more than a page can show.
_MAX_FUNCTIONS = 4_000_000
_MAX_FRAMES = 1 << 25
_MAX_TEXT = 1 << 29  # characters of names
_MAX_MODULE_ID = 1 << 16
_MAX_PROCESSES = 1 << 20
_THREAD_FIELDS = 7  # without its process
_INT_LIMIT = 1 << 63
_MAX_TIME_S = 1 << 37  # the year 6325; dates end with 9999
_NAME_COLUMNS = tuple(
    each.name
    for each in dataclasses.fields(NameGains)
    if each.name not in ("functions", "files", "mark")
)


@dataclass
class Loaded:
    """What a file holds.

    Attributes:
        profile: stacks, intervals, threads and modules.
        table: the names.
        status: the state at the end.
        meta: where and by what it was made.
        others: chunks of the kinds that the caller asked for.
        n_frames: of all names.
        n_characters: of all functions and files.
        end: position in the file up to which it makes sense.
        damage: why the rest does not; "" if there is none.
        given: what the numbers of its names are in the table; None while they are the same.
    """

    profile: Profile
    table: SymbolTable
    status: Status
    meta: dict[str, Any] = field(default_factory=dict)
    others: list[Chunk] = field(default_factory=list)
    n_frames: int = 0
    n_characters: int = 0
    end: int = 0
    damage: str = ""
    given: Given | None = None


def take_meta(found: Loaded, chunk: Chunk) -> None:
    """Take where and by what it was made."""
    found.meta.update(chunk.facts)


def take_status(found: Loaded, chunk: Chunk) -> None:
    """Take the state. Raises DamageError, TypeError."""
    known = {each.name for each in dataclasses.fields(Status)}
    facts = {name: value for name, value in chunk.facts.items() if name in known}
    sources = facts.pop("symbols", [])
    example = Status(0, "", "")
    for name, value in facts.items():
        if not _is_like(value, getattr(example, name)):
            raise DamageError(f"the state has an impossible {name}")
    if not 0 <= facts.get("started_s", 0) < _MAX_TIME_S:
        raise DamageError("the state has an impossible started_s")
    found.status = Status(**facts)
    found.status.symbols = [SymbolSource(**_typed(each, _SOURCE)) for each in _list(sources)]


_SOURCE = SymbolSource(0, "", "")


def _typed(value: Any, example: Any) -> dict[str, Any]:
    """Return facts for a class, if they are of the types that the example has."""
    if not isinstance(value, dict):
        raise DamageError("a list has something else in it")
    for name, each in value.items():
        if not _is_like(each, getattr(example, str(name), None)):
            raise DamageError(f"something has an impossible {name}")
    return value


def _is_like(value: Any, example: Any) -> bool:
    if isinstance(example, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(example, bool)
    if isinstance(example, float):
        return isinstance(value, (int, float)) and math.isfinite(value)
    if isinstance(example, dict):
        return isinstance(value, dict) and all(map(_is_whole, value.values()))
    if isinstance(example, list):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if isinstance(example, int):
        return _is_whole(value)
    return isinstance(value, type(example))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and abs(value) < _INT_LIMIT


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise DamageError("what should be a list is none")
    return value


def _number(value: Any, end: int = MAX_NS) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise DamageError("a number is out of bounds")
    return value


def gains_of(chunk: Chunk) -> Gains:
    """Return what the profile has gained. Raises DamageError, ValueError."""
    facts = chunk.facts
    stacks = StackColumns(
        addresses=chunk.column("stacks.addresses", "u8"),
        parent=chunk.column("stacks.parent", "i4"),
        address=chunk.column("stacks.address", "i4"),
        depth=chunk.column("stacks.depth", "i4"),
        node=chunk.column("stacks.node", "i4"),
        verdict=chunk.column("stacks.verdict", "u1"),
        managed=chunk.column("stacks.managed", "u1"),
        marks=chunk.column("stacks.marks", "u1"),
        fault=chunk.column("stacks.fault", "i4"),
    )
    rows = NewRows(
        chunk.column("cells.thread_id", "u4"),
        chunk.column("cells.what", "i8"),
        ended_rows(chunk),
        rows_of(chunk, "open"),
        _number(facts.get("now_ns", 0)),
    )
    return Gains(
        stacks,
        rows,
        [_thread(each) for each in _list(facts.get("threads", []))],
        [_module(each) for each in _list(facts.get("modules", []))],
        [_number(each, MAX_THREAD_ID) for each in _list(facts.get("hidden", []))],
        _number(facts.get("start_ns", 0)),
        GainMark(),
        [_process(each) for each in _list(facts.get("processes", []))],
    )


def _thread(value: Any) -> Thread:
    match value:
        case [int(number), int(tid), str(name), int(seen), bool(exited), bool(blocked), str(comm)]:
            _number(number, MAX_THREAD_ID)
            return Thread(number, tid, name, seen, exited, blocked, comm)
        case [*fields, int(process)] if len(fields) == _THREAD_FIELDS:
            _number(process, _MAX_PROCESSES)
            return dataclasses.replace(_thread(fields), process=process)
    raise DamageError("a thread is none")


def _process(value: Any) -> Process:
    match value:
        case [int(number), int(pid), str(name), str(command), int(parent), str(host), *rest]:
            _number(number, _MAX_PROCESSES)
            _number(parent + 1, _MAX_PROCESSES)
            _number(pid)
            match rest:
                case [int(seen), int(ended), str(reason)]:
                    times = _number(seen), _number(ended)
                    return Process(number, pid, name, command, parent, host, *times, reason)
    raise DamageError("a process is none")


def _module(value: Any) -> Module:
    match value:
        case [int(number), str(path), int(load_bias), int(start), int(end), str(build_id)]:
            _number(number, _MAX_MODULE_ID)
            return Module(number, path, load_bias, start, end, build_id)
    raise DamageError("a module is none")


def take_names(found: Loaded, chunk: Chunk) -> None:
    """Take names. Raises DamageError, ValueError, KeyError."""
    functions = [_function(each) for each in _list(chunk.facts.get("functions", []))]
    files = []
    for each in _list(chunk.facts.get("files", [])):
        match each:
            case [str(file), str(tier)]:
                files.append((file, tier))
            case _:
                raise DamageError("a source file has no name")
    columns: dict[str, Any] = {
        name: chunk.column(name, "i8" if name == "lost" else "i4") for name in _NAME_COLUMNS
    }
    found.n_frames += len(columns["function"])
    found.n_characters += sum(
        len(each.name) + len(each.full_name) + len(each.file) for each in functions
    )
    found.n_characters += sum(len(file) + len(tier) for file, tier in files)
    if (
        len(found.table.functions) + len(functions) > _MAX_FUNCTIONS
        or found.n_frames > _MAX_FRAMES
        or found.n_characters > _MAX_TEXT
    ):
        raise DamageError("it has more names than fit into memory")
    gains = NameGains(functions=functions, files=files, mark=NameMark(), **columns)
    found.table.extend(gains, found.profile.n_addresses, found.given)


def _function(value: Any) -> Function:
    match value:
        case [str(name), str(module), str(file), str(kind), str(full_name)]:
            return Function(name, module, file, FrameKind(kind), full_name)
    raise DamageError("a function has no name")
