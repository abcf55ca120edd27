"""Collect the source lines of the heaviest functions for an HTML report, with their weights.

Only functions whose source file is known, so many for each clock: half of them by their own time,
and then by their time with what they call. ``web/static/report/code.js`` reads them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..analysis.views import views_of
from ..code.annotation import AnnotatedSource
from ..model import Clock, Function
from ..tree.calltree import CallTree
from ..tree.function_sums import top_functions
from ..tree.tree_view import TreeIndex
from .request import ExportRequest

MAX_FUNCTIONS = 120  # of each clock
MAX_TEXT = 8_000_000  # characters of source in all; packed, a fifth of that


def code(
    request: ExportRequest,
    trees: Mapping[Clock, CallTree],
    functions: Sequence[Function],
) -> dict[str, Any]:
    """Return the code of a report.

    Args:
        request: what is counted.
        trees: those of the report.
        functions: those that occur in the report, in its own order.
    """
    views = views_of(request.recording)
    number = {function: at for at, function in enumerate(functions)}
    files: dict[str, int] = {}
    texts: dict[int, dict[int, str]] = {}
    found: dict[int, dict[str, Any]] = {}
    n_text = 0
    for clock, tree in trees.items():
        chosen = _heaviest(tree)
        sources = views.sources(chosen, replace(request.selection, clock=clock))
        for function_id, source in zip(chosen, sources, strict=True):
            for line in source.lines:
                text_of = texts.setdefault(files.setdefault(line.file, len(files)), {})
                if line.text is None or line.line in text_of or n_text >= MAX_TEXT:
                    continue
                text_of[line.line] = line.text.encode("utf-8", "replace").decode("utf-8")
                n_text += len(line.text)
            by_clock = found.setdefault(number[tree.functions[function_id]], {})
            by_clock[clock.value] = _encode(source, files)
    return {
        "files": [file.encode("utf-8", "replace").decode("utf-8") for file in files],
        "texts": {str(file): _keys_as_text(lines) for file, lines in texts.items()},
        "functions": _keys_as_text(found),
    }


def _heaviest(tree: CallTree) -> list[int]:
    """Return the functions whose code is in the report, by id, without those in no file."""
    index = TreeIndex(tree)
    chosen: dict[int, None] = {}
    has_file = np.array([bool(each.file) for each in tree.functions], bool)
    for by_self, most in ((True, MAX_FUNCTIONS // 2), (False, MAX_FUNCTIONS)):
        found = top_functions(index, 0, most, by_self=by_self, matching=has_file)
        for function_id in found.function.tolist():
            if len(chosen) < most:
                chosen[function_id] = None
    return list(chosen)


def _encode(source: AnnotatedSource, files: dict[str, int]) -> dict[str, Any]:
    return {
        "file": source.file.encode("utf-8", "replace").decode("utf-8"),
        "self_ns": source.self_ns,
        "total_ns": source.total_ns,
        "whole_ns": source.whole_ns,
        "notes": [note.encode("utf-8", "replace").decode("utf-8") for note in source.notes],
        "lines": {
            "file": [files[each.file] for each in source.lines],
            "line": [each.line for each in source.lines],
            "self_ns": [each.self_ns for each in source.lines],
            "total_ns": [each.total_ns for each in source.lines],
        },
    }


def _keys_as_text(values: Mapping[int, Any]) -> dict[str, Any]:
    return {str(key): value for key, value in values.items()}
