"""What is printed: the summary, the line of progress, stacks, where names came from."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flametap.cli.commands.dump import read_stacks
from flametap.cli.dump_json import as_object
from flametap.cli.dump_text import as_lines, as_python_lines
from flametap.cli.output_options import OutputOptions
from flametap.cli.progress import Progress, recording_line
from flametap.cli.recording import symbol_lines
from flametap.cli.thread_stack import FOR_A_CPU, FOR_THE_LOCK, ThreadStack
from flametap.code.annotation import ModuleSymbols, SymbolReport
from flametap.code.module_shares import ModuleShare
from flametap.model import (
    Clock,
    Frame,
    FrameKind,
    Function,
    Status,
    SymbolSource,
    ThreadInfo,
)
from flametap.recording.figures import duration
from flametap.recording.summary import summary_of
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.own_frames import NO_PYTHON_FUNCTION
from python_profiles import HANDLE, SERVE, python_profile


def test_summary_tells_trust_and_losses() -> None:
    status = Status(7, "demo", "ended", duration_ns=2_000_000_000, samples=1200)
    status.verdict_cpu_ns = {"COMPLETE": 900, "NO_UNWIND_INFO": 90, "NO_STACK": 10}
    status.verdict_modules = {"libold.so": 60, "": 30}
    status.counters = {"traces_lost": 2, "signals_late": 3, "parked_torn": 1, "ticks": 99}
    status.counters["signals_handled"] = 150
    threads = [
        ThreadInfo(1, 7, "demo", 1, 1, 0, False, ""),
        ThreadInfo(2, 8, "worker", 1, 1, 0, False, "", signals_blocked=True),
    ]
    assert summary_of(status, 1_500_000_000, threads, "") == [
        "recorded 2.0 s of 2 threads: 1.5 s of CPU time in 150 samples, and 1,050 looks at "
        "sleeping threads",
        "90.0% of it in complete stacks; the rest: 9.0% code without unwind information, "
        "1.0% without a stack",
        "1 thread blocked our signal, and is seen only while it waits where the kernel did not "
        "sample it: worker",
        "stacks were cut in: libold.so, code outside of any file (JIT)",
        "lost: stacks not kept: 2. The table of stacks was full; their time shows as "
        "[unattributed]",
        "skipped: 3 samples (the signal before had not arrived yet), "
        "1 sample (the thread woke up while its stack was read)",
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (OutputOptions(), "it slept nearly all the time: --clock wall shows where"),
        (OutputOptions(clock=Clock.WALL), "it slept nearly all the time"),
        (OutputOptions(clock=Clock.OFF_CPU), "it slept nearly all the time"),
        (
            OutputOptions(has_page=True),
            "it slept nearly all the time: the wall clock of the page shows where",
        ),
    ],
)
def test_summary_of_an_idle_process_points_to_another_clock(what: OutputOptions, said: str) -> None:
    status = Status(7, "demo", "ended", duration_ns=2_000_000_000, samples=1)
    status.verdict_cpu_ns = {"NO_STACK": 10}
    lines = summary_of(
        status, 310_000, [ThreadInfo(1, 7, "demo", 1, 1, 0, False, "")], what.waiting_is_shown_by
    )
    assert lines == [
        "recorded 2.0 s of 1 thread: 0.31 ms of CPU time in 0 samples, and 1 look at "
        "sleeping threads",
        said,
    ]


def test_recording_line() -> None:
    status = Status(7, "demo", "recording", rate_hz=100.0, samples=42, duration_ns=2_000_000_000)
    status.counters = {
        "handler_ns_total": 10_000_000,
        "sampler_cpu_ns": 10_000_000,
        "traces_lost": 2,
    }
    assert recording_line(status, 3, 2.0, 10.0) == (
        "recording 7 · 2.0 s of 10.0 s · 42 samples at 100 Hz · 3 threads · 2 lost · cost 1.0%"
    )


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.31, "310 ms"), (4.24, "4.2 s"), (187, "3:07 min"), (3723, "1:02:03 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_has_one_line_that_is_rewritten() -> None:
    out = Terminal()
    progress = Progress(stream=out)
    progress.step("one")
    progress.step("two")
    progress.say("done")
    assert out.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[Kdone\n"


def test_file_has_a_plain_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    out, now = io.StringIO(), 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    progress = Progress(stream=out)
    for second in range(25):
        now = 100.0 + second
        progress.step(f"at {second}")
    assert out.getvalue() == "at 10\nat 20\n"


def test_quiet_says_nothing() -> None:
    out = Terminal()
    progress = Progress(quiet=True, stream=out)
    progress.step("one")
    progress.warn("two")
    assert out.getvalue() == ""


def test_messages_are_made_printable() -> None:
    out = Terminal()
    progress = Progress(stream=out)
    progress.step("\x1b[2J")
    progress.warn("a\nflametap: forged")
    assert out.getvalue() == ("\r\x1b[K\\x1b[2J\r\x1b[Kwarning: a\\nflametap: forged\n")


def test_reader_that_left_does_not_stop_us(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        progress = Progress(stream=stream)
        progress.say("hello")
        progress.say("hello")
        assert progress.is_quiet
        os.dup2(os.open(os.devnull, os.O_WRONLY), write_end)  # where its buffer is flushed to


MAIN = Function("main", "demo", "demo.c")
STACKS = [
    ThreadStack(
        7,
        "demo",
        "epoll_wait",
        True,
        [
            Frame(Function("epoll_wait", "libc.so.6")),
            Frame(Function("loop", "demo", "demo.c", FrameKind.INLINED), 12),
            Frame(MAIN, 40),
        ],
    ),
    ThreadStack(
        8, "w", "", False, [Frame(Function("libx.so+0x10", "libx.so", "", FrameKind.UNKNOWN))]
    ),
    ThreadStack(9, "new", "", False, [], "", "it blocks"),
    ThreadStack(
        10,
        "copy",
        "",
        True,
        [
            Frame(Function("read", "libc.so.6")),
            Frame(Function("copy", "demo", "demo.c", FrameKind.TAIL_CALL), 9),
            Frame(MAIN, 41, "main.inc"),
        ],
        "read",
    ),
    ThreadStack(11, "next", FOR_A_CPU, True, [Frame(MAIN, 40)]),
    ThreadStack(12, "lock", FOR_THE_LOCK, True, [Frame(MAIN, 40)]),
]


def test_dump_as_text() -> None:
    assert (
        "\n".join(as_lines(7, "./demo", STACKS))
        == """\
process 7: ./demo

thread 7 "demo" waits in epoll_wait
    epoll_wait (libc.so.6)
    loop (demo) at demo.c:12 [inlined]
    main (demo) at demo.c:40

thread 8 "w" runs
    libx.so+0x10
    … the rest could not be unwound

thread 9 "new" was not seen: it blocks

thread 10 "copy" runs in read
    read (libc.so.6)
    copy (demo) at demo.c:9 [tail call]
    main (demo) at main.inc:41

thread 11 "next" is active, waiting for a CPU
    main (demo) at demo.c:40

thread 12 "lock" is waiting for the GIL
    main (demo) at demo.c:40"""
    )


def test_dump_of_a_python_process_as_text() -> None:
    stacks = [
        ThreadStack(7, "app", "poll", True, [Frame(MAIN, 3), Frame(HANDLE, 14), Frame(SERVE, 40)]),
        ThreadStack(8, "blas", "", False, [Frame(NO_PYTHON_FUNCTION)], "read"),
        ThreadStack(9, "new", "", False, [], "", "it blocks"),
        ThreadStack(10, "next", FOR_A_CPU, True, [Frame(HANDLE, 14)]),
        ThreadStack(11, "lock", FOR_THE_LOCK, True, [Frame(HANDLE, 14)]),
    ]
    assert (
        "\n".join(as_python_lines(7, "python app.py", stacks))
        == """\
process 7: python app.py

Thread 7 (idle in poll): "app"
    main (demo) at demo.c:3
    Handler.get (app/views.py:14)
    serve (app/main.py:40)

Thread 8 (active in read): "blas"
    [no Python frames]
    … the rest could not be unwound

Thread 9 (not seen: it blocks): "new"

Thread 10 (active, waiting for a CPU): "next"
    Handler.get (app/views.py:14)

Thread 11 (waiting for the GIL): "lock"
    Handler.get (app/views.py:14)"""
    )
    full = as_python_lines(7, "", stacks, full_filenames=True)
    assert "    Handler.get (/srv/app/views.py:14)" in full


def test_dump_reads_stacks_through_the_filter() -> None:
    profile, table = python_profile()
    capture: Any = SimpleNamespace(
        pid=101,
        profile=profile,
        names=table,
        status=lambda: SimpleNamespace(counters={}),
    )
    main, blas = read_stacks(capture, FrameFilter(Language.PYTHON))
    assert [each.function for each in main.frames] == [
        NO_PYTHON_FUNCTION
    ]  # the newest is a cut one
    assert (blas.waits_in, blas.is_complete) == ("poll", True)
    main, blas = read_stacks(capture, FrameFilter())
    assert [each.function.name for each in main.frames] == ["worker"]
    assert not main.is_complete


def test_summary_says_what_is_wrong_with_python_frames() -> None:
    status = Status(7, "demo", "ended", duration_ns=2_000_000_000)
    status.verdict_cpu_ns = {"COMPLETE": 1_000}
    status.languages = ["Python"]
    status.managed_verdict_cpu_ns = {"EXACT": 600, "REPAIRED": 100, "TORN": 60, "DEPTH": 40}
    assert summary_of(status, 1_500_000_000, [], "")[1] == (
        "87.5% of the Python time has all its Python functions; the rest: 7.5% read while they "
        "changed, 5.0% deeper than the limit"
    )
    status.managed_verdict_cpu_ns = {"EXACT": 600, "ENTERING": 100}
    assert len(summary_of(status, 1_500_000_000, [], "")) == 1


def test_dump_as_json() -> None:
    document = json.loads(json.dumps(as_object(7, "./demo", STACKS)))
    waits_in = [thread["waits_in"] for thread in document["threads"]]
    assert waits_in == ["epoll_wait", *[None] * 5]
    assert [(thread["state"], thread["gil"]) for thread in document["threads"]] == [
        *(("idle", None), ("active", None), ("not seen", None), ("active", None)),
        *(("active, waiting for a CPU", None), ("waiting for the GIL", "waits")),
    ]
    runs_in = [thread["runs_in"] for thread in document["threads"]]
    assert runs_in == [*[None] * 3, "read", None, None]
    assert document["threads"][2]["unseen_because"] == "it blocks"
    assert document["threads"][0]["frames_leaf_first"][1] == {
        "name": "loop",
        "module": "demo",
        "file": "demo.c",
        "line": 12,
        "function_file": "demo.c",
        "kind": "inlined",
    }
    main = document["threads"][3]["frames_leaf_first"][2]
    assert (main["file"], main["line"], main["function_file"]) == ("main.inc", 41, "demo.c")


def test_modules_say_their_share_and_what_they_lack() -> None:
    libc = SymbolSource(2, "libc.so.6", "dynsym", "stripped")
    report = SymbolReport(
        1_000,
        100,
        [
            ModuleSymbols(
                SymbolSource(1, "prog", "symcache", has_lines=True),
                ModuleShare(1, self_ns=800, total_ns=900, named_ns=800, lined_ns=600),
            ),
            ModuleSymbols(libc, ModuleShare(2, self_ns=0, total_ns=900, named_ns=0, lined_ns=0)),
        ],
    )
    assert symbol_lines(report, Clock.WALL) == [
        "symbols of prog: symcache, 80.0% of the wall time, 100.0% of that with function names, "
        "75.0% with lines",
        "symbols of libc.so.6: dynsym (stripped)",
    ]
