"""Watching, naming, saving and summing up, with a capture that is played."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from flametap.analysis.annotation import ModuleSymbols, SymbolReport
from flametap.analysis.module_shares import ModuleShare
from flametap.cli import recording
from flametap.cli.commands.dump import ThreadStack, as_json_text, as_plain_text
from flametap.cli.outputs import Output
from flametap.cli.progress import Progress, duration, recording_line
from flametap.cli.recording import What, finish, summary, symbol_lines, watch
from flametap.cli.signals import Interrupted, Interrupts
from flametap.cli.start import start
from flametap.errors import NoSamplesError
from flametap.model import (
    Clock,
    Frame,
    FrameKind,
    Function,
    Status,
    SymbolSource,
    ThreadInfo,
    Verdict,
)


class PlayedProfile:
    def __init__(self, cpu_ns: int) -> None:
        self.cpu_ns = cpu_ns

    def total_ns(self, clock: Clock) -> int:
        return self.cpu_ns if clock is Clock.CPU else 1_000_000_000

    def leaf_weights(self, clock: Clock, thread_ids: frozenset[int] | None) -> Any:
        weight = self.total_ns(clock) if thread_ids is None or thread_ids else 0
        return type("Leaves", (), {"total": weight})


class PlayedCapture:
    """Does what the command line asks of a capture, and keeps a diary."""

    pid, command, table = 7, "demo", None

    def __init__(self, *, cpu_ns: int = 500_000_000, ends: bool = False) -> None:
        self.profile = PlayedProfile(cpu_ns)
        self.diary: list[str] = []
        self.ends = ends
        self.unnamed_polls = 2
        self.at: dict[str, Callable[[], None]] = {}

    def _note(self, what: str) -> None:
        self.diary.append(what)
        self.at.get(what, lambda: None)()

    def start(self) -> None:
        self._note("start")

    def wait(self, timeout_s: float) -> bool:
        self._note("wait")
        return self.ends

    def stop(self) -> None:
        self._note("stop")

    def finish_symbols(self, timeout_s: float) -> bool:
        self._note("name")
        self.unnamed_polls -= 1
        return self.unnamed_polls < 0

    def threads(self) -> list[ThreadInfo]:
        return [
            ThreadInfo(1, 7, "demo", 1, 1, 0, False, ""),
            ThreadInfo(2, 8, "x", 1, 1, 0, True, ""),
        ]

    def status(self) -> Status:
        return Status(7, "demo", "recording", reason="the target exited" if self.ends else "")


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    paths: list[str] = []
    monkeypatch.setattr("flametap.export.write_file", lambda path, *_, **__: paths.append(path))
    return paths


def conclude(
    capture: PlayedCapture, interrupts: Interrupts, out: io.StringIO, what: What | None = None
) -> int:
    return finish(
        cast(Any, capture),
        [Output("o.folded", "folded")],
        what or What(),
        interrupts,
        Progress(stream=out),
    )


def test_watch_ends_with_the_target(out: io.StringIO) -> None:
    with Interrupts() as interrupts:
        watch(cast(Any, PlayedCapture(ends=True)), interrupts, Progress(stream=out), None)


def test_watch_ends_when_time_is_up(out: io.StringIO) -> None:
    with Interrupts() as interrupts:
        watch(cast(Any, PlayedCapture()), interrupts, Progress(stream=out), 0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_watch_ends_with_a_signal(out: io.StringIO, number: int) -> None:
    capture = PlayedCapture()
    capture.at["wait"] = lambda: os.kill(os.getpid(), number)
    with Interrupts() as interrupts:
        watch(cast(Any, capture), interrupts, Progress(stream=out), None)
        assert interrupts.stop


def test_signal_during_the_attach_waits_for_it(
    out: io.StringIO, capfd: pytest.CaptureFixture[str]
) -> None:
    capture = PlayedCapture()
    capture.at["start"] = interrupt
    with Interrupts() as interrupts, pytest.raises(Interrupted):
        start(cast(Any, capture), interrupts, Progress(stream=out))
    assert capture.diary == ["start"]
    assert "waiting for the attach" in capfd.readouterr().err


def test_signal_before_the_attach_prevents_it(out: io.StringIO) -> None:
    capture = PlayedCapture()
    with Interrupts() as interrupts:
        interrupt()
        with pytest.raises(Interrupted):
            start(cast(Any, capture), interrupts, Progress(stream=out))
    assert capture.diary == []


def test_finish_names_everything_and_writes(out: io.StringIO, written: list[str]) -> None:
    capture = PlayedCapture()
    with Interrupts() as interrupts:
        assert conclude(capture, interrupts, out) == 0
    assert capture.diary == ["stop", "name", "name", "name"]
    assert written == ["o.folded"]
    assert "wrote o.folded" in out.getvalue()


def test_first_signal_ends_second_saves_at_once(out: io.StringIO, written: list[str]) -> None:
    capture = PlayedCapture()
    capture.unnamed_polls = 1000
    with Interrupts() as interrupts:
        interrupt()
        capture.at["name"] = interrupt
        assert conclude(capture, interrupts, out) == 130
    assert capture.diary == ["stop", "name"]
    assert written == ["o.folded"]


def test_impatience_during_the_detach_counts(out: io.StringIO, written: list[str]) -> None:
    capture = PlayedCapture()
    capture.unnamed_polls = 1000
    capture.at["stop"] = interrupt
    with Interrupts() as interrupts:
        interrupt()
        assert conclude(capture, interrupts, out) == 130
    assert written == ["o.folded"]


def test_one_signal_during_the_naming_is_enough_if_time_was_up(
    out: io.StringIO, written: list[str]
) -> None:
    capture = PlayedCapture()
    capture.unnamed_polls = 1000
    capture.at["name"] = interrupt
    with Interrupts() as interrupts:
        assert conclude(capture, interrupts, out) == 130
    assert written == ["o.folded"]


def test_signal_while_saving_does_not_stop_it(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flametap.export.write_file", lambda *_, **__: interrupt())
    with Interrupts() as interrupts:
        assert conclude(PlayedCapture(), interrupts, out) == 0


def test_end_of_the_target_is_told(out: io.StringIO, written: list[str]) -> None:
    with Interrupts() as interrupts:
        conclude(PlayedCapture(ends=True), interrupts, out)
    assert "the target exited" in out.getvalue()


def test_idle_process_has_no_cpu_samples_but_a_hint(out: io.StringIO, written: list[str]) -> None:
    with Interrupts() as interrupts:
        with pytest.raises(NoSamplesError) as raised:
            conclude(PlayedCapture(cpu_ns=0), interrupts, out)
        assert "--clock wall" in raised.value.hint
        assert conclude(PlayedCapture(cpu_ns=0), interrupts, out, What(clock=Clock.WALL)) == 0


def test_thread_that_is_not_there(out: io.StringIO, written: list[str]) -> None:
    with Interrupts() as interrupts, pytest.raises(NoSamplesError, match="no thread matches"):
        conclude(PlayedCapture(), interrupts, out, What(tids=(99,)))
    assert written == []


def test_threads_are_chosen_by_id_or_name() -> None:
    capture = cast(Any, PlayedCapture())
    assert What().thread_ids(capture) is None
    assert What(tids=(8,)).thread_ids(capture) == frozenset({2})
    assert What(thread_name=re.compile("^de")).thread_ids(capture) == frozenset({1})
    assert What(tids=(8,), thread_name=re.compile("^de")).thread_ids(capture) == frozenset({1, 2})


def test_handlers_are_put_back_and_ignored_signals_stay_ignored() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        before = signal.getsignal(signal.SIGTERM)
        with Interrupts():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not before
        assert signal.getsignal(signal.SIGTERM) is before
    finally:
        signal.signal(signal.SIGHUP, former)


# --- what is printed


def test_summary_tells_trust_and_losses() -> None:
    status = Status(7, "demo", "ended", duration_ns=2_000_000_000, samples=1200)
    status.verdict_cpu_ns = {"COMPLETE": 900, "NO_UNWIND_INFO": 90, "NO_STACK": 10}
    status.verdict_modules = {"libold.so": 60, "": 30}
    status.counters = {"traces_lost": 2, "modules_lost": 1, "signals_late": 3, "ticks": 99}
    threads = [
        ThreadInfo(1, 7, "demo", 1, 1, 0, False, ""),
        ThreadInfo(2, 8, "worker", 1, 1, 0, False, "", signals_blocked=True),
    ]
    assert summary(status, 1_500_000_000, threads, What()) == [
        "recorded 2.0 s: 1,200 samples of 2 threads, 1.5 s of CPU time",
        "90.0% of it in complete stacks; the rest: 9.0% code without unwind information, "
        "1.0% never seen with a stack",
        "1 thread blocked signals and could be seen only while waiting: worker",
        "stacks were cut in: libold.so, code outside of any file (JIT)",
        "lost: stacks without room: 2. The table of stacks was full; their time shows as "
        "[unattributed]",
        "lost: files without a number: 1. More different files were mapped than can be numbered; "
        "frames in them have no names",
        "skipped: 3 signals late",
    ]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (What(), "it was nearly always asleep: --clock wall shows where"),
        (What(clock=Clock.WALL), "it was nearly always asleep"),
        (What(clock=Clock.OFF_CPU), "it was nearly always asleep"),
        (
            What(has_page=True),
            "it was nearly always asleep: the wall clock of the page shows where",
        ),
    ],
)
def test_summary_of_an_idle_process_points_to_another_clock(what: What, said: str) -> None:
    status = Status(7, "demo", "ended", duration_ns=2_000_000_000, samples=1)
    status.verdict_cpu_ns = {"NO_STACK": 10}
    lines = summary(status, 310_000, PlayedCapture().threads()[:1], what)
    assert lines == ["recorded 2.0 s: 1 sample of 1 thread, 0.31 ms of CPU time", said]


def test_recording_line() -> None:
    status = Status(7, "demo", "recording", rate_hz=100.0, samples=42, duration_ns=2_000_000_000)
    status.counters = {
        "handler_ns_total": 10_000_000,
        "sampler_cpu_ns": 10_000_000,
        "traces_lost": 2,
    }
    assert recording_line(status, 3, 2.0, 10.0) == (
        "recording 7 · 2.0 s of 10.0 s · 42 samples at 100 Hz · 3 threads · 2 lost · cost 1 %"
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


def test_reader_that_left_does_not_stop_us(tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "w") as stream:
        progress = Progress(stream=stream)
        progress.say("hello")
        progress.say("hello")
        assert progress.is_quiet
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), write_end
        )  # what is left in its buffer goes there


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
]


def test_dump_as_text() -> None:
    assert (
        as_plain_text(7, "./demo", STACKS)
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
    main (demo) at main.inc:41"""
    )


def test_dump_as_json() -> None:
    document = json.loads(as_json_text(7, "./demo", STACKS))
    assert [thread["waits_in"] for thread in document["threads"]] == ["epoll_wait", *[None] * 3]
    assert [thread["runs_in"] for thread in document["threads"]] == [*[None] * 3, "read"]
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


def test_cut_reasons_cover_every_verdict_that_is_not_whole() -> None:
    assert {v for v in Verdict if not v.root_reached} == set(recording.CUT_BY)


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
