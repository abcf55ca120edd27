"""Encode modules, lines and instructions as JSON. Weights are nanoseconds of the requested clock.

symbols::

    total_ns        int     the whole profile
    nowhere_ns      int     of it, in stacks without a known frame
    modules         [{module, source, note, has_lines, self_ns, total_ns, named_ns, lined_ns}],
                    heaviest first; see module_shares.ModuleShare

lines::

    file            str     of the function; "" if not known
    self_ns total_ns             of the function
    whole_ns                     of the profile
    notes           [str]
    files           [str]   of the lines; code included by #include is in other files
    lines           columns, by file: file (index) line (0: not known) self_ns total_ns text (null:
                    not available)

instructions::

    module, self_ns, total_ns, whole_ns, notes
    files           [str]   source files, for the column ``file``
    names           [str]   inlined functions, for the column ``inlined``
    rows            columns: addr (hex) data (hex) text target self_ns total_ns line file (index,
                    -1: not known) inlined (index, -1: nothing inlined)
"""

from __future__ import annotations

from typing import Any

from flametap.code.annotation import AnnotatedCode, AnnotatedSource, SymbolReport


def encode_symbols(report: SymbolReport) -> dict[str, Any]:
    """Return the answer to a symbols request."""
    return {
        "total_ns": report.total_ns,
        "nowhere_ns": report.nowhere_ns,
        "modules": [
            {
                "module": each.source.module,
                "source": each.source.source,
                "note": each.source.note,
                "has_lines": each.source.has_lines,
                "self_ns": each.share.self_ns,
                "total_ns": each.share.total_ns,
                "named_ns": each.share.named_ns,
                "lined_ns": each.share.lined_ns,
            }
            for each in report.modules
        ],
    }


def encode_lines(found: AnnotatedSource) -> dict[str, Any]:
    """Return the answer to a lines request."""
    files: dict[str, int] = {}
    file = [files.setdefault(each.file, len(files)) for each in found.lines]
    return {
        "file": found.file,
        "self_ns": found.self_ns,
        "total_ns": found.total_ns,
        "whole_ns": found.whole_ns,
        "notes": found.notes,
        "files": list(files),
        "lines": {
            "file": file,
            "line": [each.line for each in found.lines],
            "self_ns": [each.self_ns for each in found.lines],
            "total_ns": [each.total_ns for each in found.lines],
            "text": [each.text for each in found.lines],
        },
    }


def encode_instructions(found: AnnotatedCode) -> dict[str, Any]:
    """Return the answer to an instructions request."""
    files: dict[str, int] = {"": -1}
    names: dict[str, int] = {"": -1}
    rows = found.rows
    file = [files.setdefault(each.file, len(files) - 1) for each in rows]
    inlined = [names.setdefault(each.inlined, len(names) - 1) for each in rows]
    return {
        "module": found.module,
        "self_ns": found.self_ns,
        "total_ns": found.total_ns,
        "whole_ns": found.whole_ns,
        "notes": found.notes,
        "files": list(files)[1:],
        "names": list(names)[1:],
        "rows": {
            "addr": [f"{each.addr:x}" for each in rows],
            "data": [each.data.hex(" ") for each in rows],
            "text": [each.text for each in rows],
            "target": [each.target for each in rows],
            "self_ns": [each.self_ns for each in rows],
            "total_ns": [each.total_ns for each in rows],
            "line": [each.line for each in rows],
            "file": file,
            "inlined": inlined,
        },
    }
