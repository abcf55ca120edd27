"""``flametap info``: what a recording is of, and what it holds."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import click

from ..streams import print_line

if TYPE_CHECKING:
    from ...recording.recording import Recording

MEBIBYTE = 1 << 20


@click.command("info", short_help="Say what a recording is of.")
@click.argument("path", metavar="FILE")
def info(path: str) -> int:
    """Say of which program a recording is, when and where it was made, and what it holds."""
    from ...foreign.opening import open_file

    for line in info_lines(open_file(path), os.path.getsize(path)):
        print_line(line)
    return 0


def info_lines(recording: Recording, size_bytes: int) -> list[str]:
    """Format what is known of a recording.

    Args:
        recording: it.
        size_bytes: of its file.
    """
    from ...recording.cost import Certificate
    from ...recording.summary import summary

    status, meta, profile = recording.status(), recording.meta, recording.profile
    facts = [
        ("command", status.command),
        ("process", str(status.pid or "")),
        ("machine", " ".join(str(meta.get(each, "")) for each in ("host", "system", "machine"))),
        ("made by", "" if status.source else f"flametap {meta.get('flametap', '?')}"),
        ("format", status.source),
        ("began", _time_of_day(status.started_s)),
        ("ended", status.reason),
        ("rate", f"{status.rate_hz:g} Hz" if status.rate_hz else ""),
        ("languages", ", ".join(status.languages)),
        ("threads", f"{len(profile.threads):,}"),
        ("functions", f"{len(recording.functions):,}"),
        ("file", f"{size_bytes / MEBIBYTE:.2f} MiB"),
    ]
    lines = [f"{name + ':':<11}{text}" for name, text in facts if text.strip()]
    notes = [f"note: {each}" for each in status.notes]
    cost = [] if status.source else Certificate.of(status).lines()
    return [*lines, *summary(recording), *cost, *notes]


def _time_of_day(seconds: float) -> str:
    if not seconds:
        return ""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
