"""Turn the form that Firefox itself writes into the one that its profiler's viewer saves.

Tables are lists of rows with a schema, a frame has its function as text, and the threads of other
processes are in profiles of their own. What is in the newer form already stays as it is.

Source: src/types/gecko-profile.ts and src/profile-logic/process-profile.ts of Firefox Profiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import floats


def as_processed(profile: dict[str, Any]) -> dict[str, Any]:
    """Return a profile with the tables of the newer form."""
    threads = profile["threads"]
    is_raw = any(isinstance(each.get("stackTable", {}).get("data"), list) for each in threads)
    if not is_raw and not profile.get("processes"):
        return profile
    start_ms = profile["meta"].get("startTime") or 0
    found: list[dict[str, Any]] = []
    left = [profile]
    while left:
        process = left.pop()
        delta_ms = (process["meta"].get("startTime") or 0) - start_ms
        found += [_thread(each, process, delta_ms) for each in process["threads"]]
        left += [each for each in process.get("processes") or [] if isinstance(each, dict)]
    return {"meta": profile["meta"], "threads": found}


def _columns(table: dict[str, Any], *names: str) -> dict[str, list[Any]]:
    """Return columns of a table; one that its schema does not have is left out.

    Rows end where all else in them is null.
    """
    schema, rows = table["schema"], table["data"]
    found = {}
    for name in names:
        place = schema.get(name)
        if place is not None:
            if place < 0:
                raise ValueError("a column has no place in its table")
            found[name] = [each[place] if place < len(each) else None for each in rows]
    return found


def _thread(thread: dict[str, Any], process: dict[str, Any], delta_ms: float) -> dict[str, Any]:
    samples = _columns(thread["samples"], "stack", "time", "threadCPUDelta")
    times: Any = samples["time"]
    if delta_ms:
        times = np.add(floats(times), delta_ms).tolist()
    frames = _columns(thread["frameTable"], "location", "line")
    strings = list(thread["stringTable"])
    funcs, made = _functions(frames["location"], strings, process.get("libs") or [])
    return {
        **{name: thread.get(name) for name in ("name", "tid", "pid", "processName", "processType")},
        "stringArray": made,
        "samples": {**samples, "time": times},
        "stackTable": _columns(thread["stackTable"], "prefix", "frame"),
        "frameTable": {"func": list(range(len(frames["location"]))), "line": frames.get("line")},
        "funcTable": funcs,
        "resourceTable": {"name": list(range(len(made)))},
    }


def _functions(
    locations: list[Any], strings: list[Any], libs: list[Any]
) -> tuple[dict[str, list[Any]], list[str]]:
    """Return a function for each frame, and the names that they refer to."""
    numbers: dict[str, int] = {}
    modules = _Modules(libs)
    funcs: dict[str, list[Any]] = {
        name: [] for name in ("name", "resource", "fileName", "lineNumber", "isJS")
    }
    known: dict[int, tuple[Any, ...]] = {}
    for location in locations:
        row = known.get(location)
        if row is None:
            if location < 0:
                raise LookupError("a frame has no function")
            name, module, file, line = _parsed(str(strings[location]), modules)
            row = known[location] = (
                numbers.setdefault(name, len(numbers)),
                numbers.setdefault(module, len(numbers)) if module else None,
                numbers.setdefault(file, len(numbers)) if file else None,
                line,
                bool(file),
            )
        for column, value in zip(funcs.values(), row, strict=True):
            column.append(value)
    return funcs, list(numbers)


def _parsed(location: str, modules: _Modules) -> tuple[str, str, str, int | None]:
    """Return name, module, file and line of the text of a frame."""
    if location.startswith("0x"):
        return modules.place(location)
    # "name (in library)", with what follows.
    name, found, rest = location.rpartition(" (in ")
    if found and ")" in rest:
        return name, rest[: rest.index(")")], "", None
    # "name (file:line:column)[source]"; without a name, only what is in the brackets.
    text = location
    if text.endswith("]"):
        text = text[: text.rfind("[")]
    name, found, place = text.rpartition(" (")
    if found and place.endswith(")"):
        place = place[:-1]
    elif not found:
        place = text
    file, line = _place(place)
    if not file:
        return location, "", "", None
    # A script's address may follow those of what has loaded it.
    file = file.rsplit(" -> ", 1)[-1]
    return name or f"(root scope) {file}", "", file, line


def _place(text: str) -> tuple[str, int | None]:
    """Return the file and line of "file:line:column" or "file:line"; "" if it is neither."""
    parts = text.rsplit(":", 2)
    numbers = [each for each in parts[1:] if each.isascii() and each.isdigit()]
    if len(numbers) == len(parts) - 1 > 0:
        return parts[0], int(numbers[0][:9])
    if numbers and parts[-1] == numbers[-1]:
        return ":".join(parts[:-1]), int(numbers[-1][:9])
    return "", None


class _Modules:
    """The modules of a process, by address."""

    def __init__(self, libs: list[Any]) -> None:
        found = sorted((each["start"], each["end"], str(each["name"])) for each in libs)
        self._start = np.array([start for start, _, _ in found], np.uint64)
        self._found = found

    def place(self, address: str) -> tuple[str, str, str, None]:
        """Return the offset and the module of an address."""
        try:
            number = int(address[:18], 16)
        except ValueError:
            return address, "", "", None
        at = int(np.searchsorted(self._start, np.uint64(number), "right")) - 1
        if at >= 0:
            start, end, name = self._found[at]
            if number < end:
                return f"0x{number - start:x}", name, "", None
        return address, "", "", None
