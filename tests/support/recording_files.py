"""Files of recordings that tests have made up, and what a recording reads as."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from flametap.analysis.views import views_of
from flametap.model import Clock
from flametap.recording.recording import Recording
from flametap.recording.writer import RecordingWriter
from flametap.tree.function_sums import top_functions
from flametap.tree.selection import Selection
from flametap.tree.tree_view import TreeIndex

KEPT = Path(__file__).resolve().parents[1] / "data" / "recordings"
"""The folder of the recordings that are kept; see its row in ``tests/data/README.md``."""

FUNCTIONS = 12  # the heaviest are compared


def write_recording(path: Path, recording: Recording) -> Path:
    """Write a recording that has ended to a file; return its path."""
    file = io.BytesIO()
    writer = RecordingWriter(file, recording)
    writer.finish()
    path.write_bytes(file.getvalue())
    return path


def what_it_says(recording: Recording) -> dict[str, Any]:
    """Return what a recording reads as, in what JSON can hold."""
    status, views = recording.status(), views_of(recording)
    said: dict[str, Any] = {
        "command": status.command,
        "ended": status.reason,
        "duration_ns": recording.profile.duration_ns,
        "samples": status.samples,
        "languages": status.languages,
        "notes": status.notes,
        "threads": [
            [each.name, each.cpu_ns, each.wall_ns, each.off_cpu_ns]
            for each in sorted(views.threads(), key=lambda each: each.thread_id)
        ],
        "clocks": {},
    }
    for clock in Clock:
        tree = views.tree(Selection(clock))
        top = top_functions(TreeIndex(tree), 0, FUNCTIONS)
        columns = (top.function.tolist(), top.self_ns.tolist(), top.total_ns.tolist())
        rows = [
            [each.name, each.module, each.kind.value, own_ns, total_ns]
            for number, own_ns, total_ns in zip(*columns, strict=True)
            for each in (tree.functions[number],)
        ]
        rows.sort(key=lambda row: (-row[3], -row[4], *row[:3]))
        said["clocks"][clock.value] = {"total_ns": int(tree.total_ns[0]), "functions": rows}
    return said
