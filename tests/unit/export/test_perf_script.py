"""perf script: records that each reader takes apart as they are meant."""

from __future__ import annotations

import io
import random
import re
from collections import Counter

import pytest

import wire
from export_readers import perf_name, perf_records, perf_sums, tree_sums
from flametap.export import perf_script
from flametap.export.request import ExportRequest
from flametap.export.shaping import shaping_of
from flametap.model import Clock, Frame, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from profiles import MAIN_ADDR, WORK_ADDR, apply, random_profile, small_profile
from recordings import recorded


def written(request: ExportRequest) -> bytes:
    file = io.BytesIO()
    perf_script.write(request, file)
    return file.getvalue()


def expected(request: ExportRequest) -> dict[str, Counter[tuple[str, ...]]]:
    return {perf_name(thread): sums for thread, sums in tree_sums(request).items()}


@pytest.mark.parametrize("clock", Clock)
def test_periods_add_up_to_the_call_tree(clock: Clock) -> None:
    recording = recorded(*random_profile(random.Random(clock.value)), Status(100, "prog", "ended"))
    for selection in (
        Selection(clock),
        Selection(clock, frozenset({2, 3}), span=Span(500_000, 1_500_000)),
    ):
        request = ExportRequest(recording, selection)
        assert perf_sums(written(request)) == expected(request)


def test_shaped_in_samples() -> None:
    recording = recorded(*random_profile(random.Random(3)))
    shaping = shaping_of(recording, "hide:f1@prog")
    request = ExportRequest(recording, Selection(Clock.WALL), unit="samples", shaping=shaping)
    assert perf_sums(written(request)) == expected(request)


def test_text() -> None:
    request = ExportRequest(
        recorded(*small_profile(), Status(101, "prog", "ended", notes=["a\nnote"])),
        Selection(Clock.WALL, frozenset({2})),
    )
    text = written(request).decode()
    assert "# a note\n" in text
    assert text.partition("\n#\n")[2] == (
        "pool:1 101/102 0.001000000:      10000 wall-clock:\n"
        "\t        50001010 clamp (/opt/prog)\n"
        "\t        50001010 work (/opt/prog)\n"
        "\t        50001000 main (/opt/prog)\n"
        "\n"
        "pool:1 101/102 0.001010000:    5000000 wall-clock:\n"
        "\t               0 [epoll_wait] ([kernel.kallsyms])\n"
        "\t        50001030 epoll_wait (/opt/prog)\n"
        "\t        50001000 main (/opt/prog)\n"
        "\n"
    )


def test_records_of_a_thread_are_in_order_of_time() -> None:
    recording = recorded(*random_profile(random.Random(5)))
    last: dict[str, float] = {}
    for record, _ in perf_records(written(ExportRequest(recording)).decode()):
        assert float(record["time"]) >= last.get(record["tid"], 0)
        last[record["tid"]] = float(record["time"])


SPELLED = {
    "a\nb\x1b": "a b",
    "na\udcffme": "na?me",
    "(regular expression)": "[regular expression]",
    "(anonymous namespace)::f(int)": "[anonymous namespace]::f(int)",
    "T::operator->": "T::operator→",
    "a (b) (c)": "a (b) (c)",
    "prog+0x40": "prog+0x40",
    "  ": "?",
}


@pytest.mark.parametrize("name", SPELLED)
def test_functions_of_any_name(name: str) -> None:
    profile = Profile()
    apply(
        profile,
        10**9,
        modules=[wire.module(1, "/opt/my prog (deleted)")],
        threads=[wire.thread(1, 101, "main")],
        traces=[wire.trace(1, [WORK_ADDR, MAIN_ADDR])],
        intervals=[wire.interval(1, 1, 1_000_000, 2_000_000, 2_000_000)],
    )
    table = SymbolTable(profile.locate)
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function(name, "prog"))])
    data = written(ExportRequest(recorded(profile, table)))
    assert perf_sums(data) == {"main (101)": {(SPELLED[name],) * 2: 2_000_000}}
    assert data.count(b"(/opt/my_prog_[deleted])") == 2


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("pool 7 x", "pool_7 x"),
        ("x 12/34 1.5: y", "x_12/34_1.5: y"),
        ("#1", "_1"),
        ("a", "a"),
        ("", "?"),
        ("a\nb", "a b"),
    ],
)
def test_threads_of_any_name(name: str, shown: str) -> None:
    profile = Profile()
    apply(
        profile,
        10**9,
        threads=[wire.thread(1, 101, name)],
        traces=[wire.trace(1, [MAIN_ADDR])],
        intervals=[wire.interval(1, 1, 1_000_000, 2_000_000, 2_000_000)],
    )
    recording = recorded(profile, SymbolTable(profile.locate), Status(99, "prog", "ended"))
    text = written(ExportRequest(recording)).decode()
    ((record, _),) = perf_records(text)
    assert (record["name"].rstrip(), record["tid"]) == (shown, "101")
    # The way in which stackcollapse-perf.pl and speedscope find them.
    head = re.match(r"(\S.+?)\s+(\d+)/*(\d+)*\s+", record[0])
    assert head
    assert (head[1].rstrip(), head[2], head[3]) == (shown, "99", "101")
    rest = re.search(r":\s*(\d+)*\s+(\S+):\s*$", record[0])
    assert rest
    assert rest.groups() == ("2000000", "cpu-clock")


def test_empty_profile() -> None:
    assert perf_sums(written(ExportRequest(recorded(Profile(), SymbolTable())))) == {}
