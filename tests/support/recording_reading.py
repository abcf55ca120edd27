"""Open any bytes as a recording, and read all that a recording offers: the oracle of the fuzzer.

What is not a recording raises ``InputError``. Whatever opens has to be read without an exception,
its sums have to agree, and no control character may reach the terminal. Of some, the intervals stay
in the file: there, anything but the sums of all of it may also raise ``InputError``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from unittest import mock

import orjson

from flametap.analysis.views import Views, views_of
from flametap.api.recording import Recording as Scripted
from flametap.cli.commands.info import info_lines
from flametap.cli.heaviest import heaviest_lines, nameless_lines
from flametap.cli.output_options import OutputOptions
from flametap.cli.python_lines import collector_lines, gil_lines
from flametap.cli.recording import symbol_lines
from flametap.cli.streams import print_lines
from flametap.cli.top_table import table_lines
from flametap.errors import InputError
from flametap.export import FORMATS
from flametap.export.request import ExportRequest
from flametap.model import Clock, Split
from flametap.recording import opened as opening
from flametap.recording.opened import STORED_BYTES, open_recording
from flametap.recording.recording import Recording
from flametap.timeline.heat import HeatQuery
from flametap.timeline.lanes import LaneQuery
from flametap.tree.function_sums import top_functions
from flametap.tree.selection import EVERYTHING, Selection, Span
from flametap.tree.tree_view import TreeIndex
from page_asking import ask

FUNCTIONS = 6  # of which lines and instructions are asked for
JSON_FORMATS = ("speedscope", "firefox", "chrome", "cpuprofile")
DEAR_FORMATS = {
    "html": 50,
    "svg": 8,
    "firefox": 4,
    "chrome": 4,
    "perf-script": 4,
    "jsonl": 4,
}  # written of one input in so many


@functools.cache
def _descriptor() -> int:
    return os.memfd_create("recording")


def opened(data: bytes, *, is_long: bool) -> Recording:
    """Open some bytes as the file of a recording, as a long one or not. Raises InputError."""
    descriptor = _descriptor()
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
    with mock.patch.object(opening, "STORED_BYTES", 0 if is_long else STORED_BYTES):
        return open_recording(f"/proc/self/fd/{descriptor}")


def _is_long(data: bytes, chance: int) -> bool:
    return chance // 7 % (4 if b"SUMS" in data else 2) != 0


def _damage_later(data: bytes, chance: int) -> None:
    """Change a file that has been opened, in one of sixteen."""
    what = chance // 11 % 48
    if what == 0:
        os.ftruncate(_descriptor(), len(data) // 2)
    elif what == 1:
        os.pwrite(_descriptor(), bytes(len(data) // 2), len(data) // 3)
    elif what == 2:
        os.pwrite(_descriptor(), data[len(data) // 3 :], len(data) // 4)


def _tried(read: Callable[[], object]) -> None:
    """Read something that may be missing in a file."""
    with contextlib.suppress(InputError):
        read()


def open_only(data: bytes) -> None:
    """Open some bytes, and ask for next to nothing. Raises InputError."""
    chance = zlib.crc32(data)
    recording = opened(data, is_long=_is_long(data, chance))
    assert recording.status().is_final
    assert recording.profile.duration_ns >= 0


def open_and_read(data: bytes) -> None:
    """Open some bytes, and ask for all that a recording has. Raises InputError."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # Python prints them to the terminal
        _open_and_read(data)


def _open_and_read(data: bytes) -> None:
    chance = zlib.crc32(data)
    is_long = _is_long(data, chance)
    recording = opened(data, is_long=is_long)
    if is_long:
        _damage_later(data, chance)
    _check_sums(recording)
    reads: list[Callable[[], object]] = [
        lambda: _print(recording, len(data)),
        *_looks(views_of(recording), recording),
        lambda: _script(recording),
        lambda: _export(recording, list(Clock)[chance % 3], chance),
    ]
    for read in reads:
        if is_long:
            _tried(read)
        else:
            read()
    for path, status, answer in ask(views_of(recording), chance):
        assert status in (200, 400, 404, 413), (path, status, answer[:300])
        if not path.startswith("/api/export"):
            orjson.loads(answer)


def _check_sums(recording: Recording) -> None:
    profile, views = recording.profile, views_of(recording)
    threads = views.threads()
    for clock in Clock:
        tree = views.tree(Selection(clock))
        total = int(tree.total_ns[0])
        assert total == int(tree.self_ns.sum()) == profile.leaf_weights(clock).total
        of_threads = sum(getattr(each, f"{clock.name.lower()}_ns") for each in threads)
        assert total == of_threads, f"{clock.value}: {total} in trees, {of_threads} in threads"
        assert int(tree.self_ns.min()) >= 0
        index = TreeIndex(tree)
        top = top_functions(index, 0, len(tree.functions))
        assert int(top.self_ns.sum()) == total - int(tree.self_ns[0])
        assert int(top.total_ns.max(initial=0)) <= total


def _print(recording: Recording, size_bytes: int) -> None:
    """Print what the command line prints."""
    tree = views_of(recording).tree(EVERYTHING)
    lines = info_lines(recording, size_bytes)
    lines += gil_lines(recording)
    lines += collector_lines(tree, Clock.CPU)
    lines += nameless_lines(tree, recording.status().pid)
    lines += symbol_lines(views_of(recording).symbols(EVERYTHING), Clock.CPU)
    if tree.total_ns[0]:
        lines += heaviest_lines(tree, Clock.CPU)
    for clock in Clock:
        if views_of(recording).tree(Selection(clock)).total_ns[0]:
            lines += table_lines(recording, OutputOptions(clock), 20, by_line=clock is Clock.WALL)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print_lines(lines)
    shown = printed.getvalue().split("\n")
    assert len(shown) == len(lines) + 1, "a line of ours is several"
    assert all(each.isprintable() for each in shown), "a control character is printed"


def _looks(views: Views, recording: Recording) -> Iterator[Callable[[], object]]:
    """Yield what asks for views that the page does not ask for in this way."""
    profile = recording.profile
    part = Span(profile.duration_ns // 3, profile.duration_ns * 2 // 3)
    for clock in Clock:
        yield partial(_check_part, recording, Selection(clock, span=part))
    yield lambda: views.threads(part)
    yield lambda: views.lock_waits(Selection(Clock.WALL), None)
    yield lambda: views.lock_waits(Selection(Clock.WALL, span=part), None)
    yield lambda: _check_lanes(views)
    yield lambda: views.lanes(LaneQuery(part.start_ns, part.end_ns))
    for kind in ("cpu", "waits"):
        yield partial(views.heat, HeatQuery(kind))
    tree = views.tree(Selection(Clock.WALL))
    top = top_functions(TreeIndex(tree), 0, FUNCTIONS).function.tolist()
    yield lambda: views.sources(top, Selection(Clock.WALL))
    for function_id in top:
        yield partial(views.instructions, function_id, EVERYTHING)


def _check_part(recording: Recording, selection: Selection) -> None:
    tree = views_of(recording).tree(selection)
    assert int(tree.total_ns[0]) == int(tree.self_ns.sum())
    assert int(tree.self_ns.min()) >= 0


def _check_lanes(views: Views) -> None:
    lanes = views.lanes(LaneQuery(with_idle=True, n_lanes=64, overview_bins=100))
    assert all(each >= 0 for each in lanes.all.sums_ns)


def _script(recording: Recording) -> None:
    """Ask as a script does."""
    asked = Scripted(recording)
    _ = repr(asked), asked.started, asked.threads, asked.notes, asked.duration_s
    asked.functions("wall")
    for each in asked.tree("off-cpu").walk():
        assert each.own_s >= 0
    asked.timeline()
    asked.diff(asked, "wall")


def _export(recording: Recording, clock: Clock, chance: int) -> None:
    unit = ("time", "samples")[chance // 3 % 2]
    for name, entry in FORMATS.items():
        if chance % DEAR_FORMATS.get(name, 1):
            continue
        file = io.BytesIO()
        split = Split.THREAD if clock is Clock.WALL else Split.NONE
        entry.write(ExportRequest(recording, Selection(clock, split=split), unit), file)
        if name in JSON_FORMATS:
            json.loads(file.getvalue())
        if name == "folded":
            _check_folded(file.getvalue())


def _check_folded(text: bytes) -> None:
    for line in text.decode().split("\n")[:-1]:
        path, _, weight = line.rpartition(" ")
        assert path, line[:80]
        assert weight.isdecimal(), line[:80]


READ_ERRORS: tuple[type[BaseException], ...] = (InputError,)
