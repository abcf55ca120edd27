"""Write an HTML report: the page with all three clocks' trees in one file, which needs no server.

The range, threads and frames are those of the request; weights are time. Threads are merged, unless
the request has a root frame for each. The timeline, its heat maps and the source lines of the
heaviest functions are in it. Instructions are not: to read those of all functions takes too long.
``difference`` adds another recording, to compare with.

Source: RFC 1951 (deflate), RFC 4648 (base64); ``web/static/report/`` reads the file.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import orjson

from ..model import Clock
from ..tree.calltree import CallTree
from ..tree.comparison import Spreads
from ..tree.packed_tree import PackedTrees, deflate, pack
from ..version import version
from .bundle import page
from .report_code import code
from .report_time import times
from .request import ExportRequest

FORMAT = 2  # of the data, for report/connection.js


@dataclasses.dataclass(frozen=True)
class Compared:
    """What a report compares its recording with.

    Attributes:
        name: of the other recording.
        trees: of both, joined, by clock; the first side is that of the report.
        sample_ns: by clock, what one sample stands for.
        lengths_ns: the time that is counted here and there.
        spreads: by clock, tells how far weights vary by chance (``comparison.function_changes``).
    """

    name: str
    trees: Mapping[Clock, CallTree]
    sample_ns: Mapping[Clock, float]
    lengths_ns: tuple[int, int]
    spreads: Mapping[Clock, Spreads]


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a profile as an HTML report."""
    request = dataclasses.replace(request, unit="time", by_line=False)
    write_trees(request, {clock: request.tree(clock) for clock in Clock}, file)


def write_trees(
    request: ExportRequest,
    trees: Mapping[Clock, CallTree],
    file: BinaryIO,
    compared: Compared | None = None,
) -> None:
    """Write a profile as an HTML report.

    Args:
        request: what is counted.
        trees: of the request, by clock.
        file: open for writing.
        compared: what it is compared with; None for nothing.
    """
    clocks = list(trees)
    packed = pack([*trees.values(), *(compared.trees.values() if compared else ())])
    status = _status(request)
    more: dict[str, Any] = {
        "times": times(request),
        "code": code(request, trees, packed.functions),
    }
    if compared is not None:
        more["spreads"] = _spreads(compared, packed)
    data = {
        "format": FORMAT,
        "clock": request.selection.clock.value,
        "names": _base64(deflate(orjson.dumps(_names(packed)))),
        "trees": {
            clock.value: _base64(tree) for clock, tree in zip(clocks, packed.trees, strict=False)
        },
        "status": status,
        "range": _range(request),
        **{name: _base64(deflate(orjson.dumps(part))) for name, part in more.items()},
    }
    others = "[]"
    if compared is not None:
        joined = zip(compared.trees, packed.trees[len(clocks) :], strict=True)
        others = json.dumps([[2, _text(compared.name)]])  # as web/app.py has them
        data["compared"] = {
            "trees": {clock.value: _base64(tree) for clock, tree in joined},
            "sample_ns": {clock.value: each for clock, each in compared.sample_ns.items()},
            "lengths_ns": list(compared.lengths_ns),
        }
    # In ASCII: it may hold lone surrogates, from bytes that could not be decoded.
    file.write(page(json.dumps(data), {"status": status, "others": others}).encode())


def _spreads(compared: Compared, packed: PackedTrees) -> dict[str, list[list[float]]]:
    """Return by clock the spreads of own and total weights, by function as packed."""
    return {
        clock.value: [
            each.round(3).tolist() for each in spreads(packed.ids, compared.sample_ns[clock])
        ]
        for clock, spreads in compared.spreads.items()
    }


def _names(packed: PackedTrees) -> dict[str, Any]:
    def column(values: Iterable[str]) -> list[str]:
        # Undecodable bytes may have become lone surrogates, which JSON cannot represent.
        return [value.encode("utf-8", "replace").decode("utf-8") for value in values]

    functions = packed.functions
    columns: dict[str, Any] = {
        name: column(getattr(function, name) for function in functions)
        for name in ("name", "full_name", "module", "file")
    }
    columns["kind"] = [function.kind.value for function in functions]
    if packed.origins:
        columns["origin"] = list(packed.origins)
    return {
        "functions": columns,
        "line_files": column(packed.line_files),
        "line_tiers": list(packed.line_tiers),
    }


def _text(words: str) -> str:
    """Return words without what JSON cannot hold: bytes of a command line that are no text."""
    return words.encode("utf-8", "replace").decode("utf-8")


def _status(request: ExportRequest) -> dict[str, Any]:
    """Return the status for the page: what was recorded, and of which part this is a report."""
    status = request.status
    fields = {each.name: getattr(status, each.name) for each in dataclasses.fields(status)}
    fields.update(
        command=_text(status.command),
        program=_text(status.program),
        state="saved",
        is_final=True,
        revision=1,
        symbols=[],
        symbols_pending=0,
        report=f"Saved by flametap {version()} on {time.strftime('%Y-%m-%d %H:%M')}: "
        f"{_what(request)}. Assembly is in the live page only.",
    )
    return fields


def _range(request: ExportRequest) -> str:
    """Return the range as the page writes it, in milliseconds; "" for the whole recording."""
    t0_ns, t1_ns = request.between_ns
    if t0_ns is None or t1_ns is None:
        return ""
    start_ns = request.profile.start_ns
    return f"{max(0, t0_ns - start_ns) // 1_000_000}-{(t1_ns - start_ns) // 1_000_000}"


def _what(request: ExportRequest) -> str:
    """Describe the part of the recording, for the head of the report."""
    part = list(request.part)
    if request.selection.span is None:
        part.insert(0, "the whole recording")
    return "; ".join(part)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
