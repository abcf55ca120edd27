"""Open the files of other profilers, made by tests or kept."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from flametap.errors import InputError
from flametap.export import write_file
from flametap.export.request import ExportRequest
from flametap.foreign.opening import open_file
from flametap.model import Clock
from flametap.recording.recording import Recording
from flametap.tree.selection import Selection
from profiles import random_profile
from recordings import recorded

Stacks = Counter[tuple[str, ...]]


def opened(tmp_path: Path, name: str, data: bytes | str) -> Recording:
    """Open a file with these contents."""
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return open_file(str(path))


def stacks(recording: Recording, clock: Clock = Clock.WALL, thread: int | None = None) -> Stacks:
    """The functions of each stack, root first, with its own weight; of one thread or all."""
    threads = None if thread is None else frozenset((thread,))
    tree = ExportRequest(recording, Selection(clock, threads)).tree()
    paths: list[tuple[str, ...]] = []
    found: Stacks = Counter()
    columns = (each.tolist() for each in (tree.parent, tree.function, tree.self_ns))
    for parent, function, own in zip(*columns, strict=True):
        name = (tree.functions[function].name,) if function >= 0 else ()
        paths.append((*paths[parent], *name) if parent >= 0 else ())
        if own:
            found[paths[-1]] += own
    return found


def random_recording(seed: int) -> Recording:
    """A recording of our own with threads, inlined functions, waits, and cut stacks."""
    return recorded(*random_profile(random.Random(seed)))


def exported(recording: Recording, tmp_path: Path, name: str, form: str, clock: Clock) -> Path:
    """Write a recording in one of our formats."""
    path = tmp_path / name
    write_file(str(path), form, ExportRequest(recording, Selection(clock)))
    return path


def error_of(tmp_path: Path, data: bytes | str) -> str:
    """The one line that says why a file with these contents cannot be opened."""
    with pytest.raises(InputError) as caught:
        opened(tmp_path, "file", data)
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value.message


def cpu_node(number: int, name: str, url: str = "", line: int = -1, **more: Any) -> dict[str, Any]:
    """A node of V8's CPU profiles. Lines count from 0."""
    call = {"functionName": name, "scriptId": "1", "url": url, "lineNumber": line}
    return {"id": number, "callFrame": call, **more}
