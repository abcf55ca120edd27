"""Watching, naming, saving and summing up, with a capture that is played."""

from __future__ import annotations

import io
import os
import re
import signal
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

import wire
from flametap.cli.frame_options import FrameOptions
from flametap.cli.heaviest import heaviest_lines, nameless_lines
from flametap.cli.output_options import OutputOptions
from flametap.cli.outputs import Output
from flametap.cli.progress import Progress
from flametap.cli.recording import finish, watch
from flametap.cli.signals import Interrupted, Interrupts
from flametap.cli.start import start
from flametap.errors import NoSamplesError, OutputError
from flametap.model import Clock, Frame, FrameKind, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.tree.calltree import CallTree
from profiles import apply
from python_profiles import named

START_NS = 10**9
# main (1 ns of its own) ─┬─ crunch (6)
#                         └─ idle (0) ── libx.so+0x10 (3)
TREE = CallTree(
    parent=np.array([-1, 0, 1, 1, 3], np.int32),
    function=np.array([-1, 0, 1, 2, 3], np.int32),
    self_ns=np.array([0, 1, 6, 0, 3]),
    total_ns=np.array([10, 10, 6, 3, 3]),
    line=np.zeros(5, np.int32),
    line_file=np.zeros(5, np.int32),
    depth=np.array([0, 1, 2, 2, 3], np.int32),
    functions=[
        Function("main", "demo"),
        Function("crunch", "demo"),
        Function("idle", "demo"),
        Function("libx.so+0x10", "libx.so", kind=FrameKind.UNKNOWN),
    ],
    line_files=[""],
)
HEAVIEST = [
    "most cpu time of their own:",
    "  60.0%  crunch        demo",
    "  30.0%  libx.so+0x10  libx.so",
    "  10.0%  main          demo",
]


NAMELESS = [
    "14% of all frames have no name, most of them in libx.so: 'flametap symbols 7' says what helps"
]


def played(cpu_ns: int) -> tuple[Profile, SymbolTable]:
    """What TREE is made of, in two threads; without CPU time, both only wait."""
    profile = Profile()
    places = [wire.frame(1, 0x1000 * at) for at in range(1, 5)]
    main, crunch, idle, unknown = places
    shares = [(1, 1, 1), (1, 2, 6), (2, 3, 3)] if cpu_ns else []
    waits = [] if cpu_ns else [(1, 1), (2, 1)]
    apply(
        profile,
        START_NS + 10**9,
        modules=[wire.module(1, "/opt/demo")],
        threads=[wire.thread(1, 7, "demo"), wire.thread(2, 8, "x")],
        traces=[
            wire.trace(1, [main]),
            wire.trace(2, [crunch, main]),
            wire.trace(3, [unknown, idle, main]),
        ],
        intervals=[
            *(
                wire.interval(thread, trace, START_NS, cpu_ns * part // 10, cpu_ns * part // 10)
                for thread, trace, part in shares
            ),
            *(
                wire.interval(thread, trace, START_NS, 10**9, 0, wire.PARKED)
                for thread, trace in waits
            ),
        ],
    )
    names = {place: [Frame(each)] for place, each in zip(places, TREE.functions, strict=True)}
    return profile, named(profile, names)


class PlayedCapture:
    """Does what the command line asks of a capture, and keeps a diary."""

    pid, command = 7, "demo"

    keeper = None

    def __init__(self, *, cpu_ns: int = 500_000_000, ends: bool = False) -> None:
        self.profile, self.names = played(cpu_ns)
        self.recording = Recording(self.profile, self.names, self.status)
        self.diary: list[str] = []
        self.ends = ends
        self.unnamed_polls = 2
        self.at: dict[str, Callable[[], None]] = {}

    def _note(self, what: str) -> None:
        self.diary.append(what)
        self.at.get(what, lambda: None)()

    def start(self, _: object = None) -> None:
        self._note("start")

    def wait(self, timeout_s: float) -> bool:
        self._note("wait")
        return self.ends

    def stop(self) -> None:
        self._note("stop")

    def what_is_left(self) -> str:
        return "naming functions"

    def finish_symbols(self, timeout_s: float) -> bool:
        self._note("name")
        self.unnamed_polls -= 1
        return self.unnamed_polls < 0

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
    capture: PlayedCapture,
    interrupts: Interrupts,
    out: io.StringIO,
    what: OutputOptions | None = None,
) -> int:
    return finish(
        cast(Any, capture),
        [Output("o.folded", "folded")],
        what or OutputOptions(),
        interrupts,
        Progress(stream=out),
    )


def test_watch_ends_with_the_target(out: io.StringIO) -> None:
    with Interrupts() as interrupts:
        watch(cast(Any, PlayedCapture(ends=True)), interrupts, Progress(stream=out), None)


def test_watch_tells_once_that_the_file_is_written_no_further(out: io.StringIO) -> None:
    capture: Any = PlayedCapture()
    capture.keeper = types.SimpleNamespace(error=OutputError("cannot write x any further", "hint"))
    with Interrupts() as interrupts:
        watch(capture, interrupts, Progress(stream=out), 0.5)
    assert out.getvalue().count("cannot write x any further; hint") == 1


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


@pytest.mark.parametrize(("is_quiet", "polls"), [(False, 3), (True, 0)])
def test_finish_names_what_a_page_leaves_behind(
    out: io.StringIO, is_quiet: bool, polls: int
) -> None:
    capture, what = PlayedCapture(), OutputOptions(has_page=True)
    with Interrupts() as interrupts:
        progress = Progress(quiet=is_quiet, stream=out)
        assert finish(cast(Any, capture), [], what, interrupts, progress) == 0
    assert capture.diary.count("name") == polls


def test_record_ends_with_the_heaviest_functions(out: io.StringIO, written: list[str]) -> None:
    with Interrupts() as interrupts:
        conclude(PlayedCapture(), interrupts, out)
        assert out.getvalue().splitlines()[-5:] == [*HEAVIEST, *NAMELESS]
        out.truncate(0)
        conclude(PlayedCapture(), interrupts, out, OutputOptions(clock=Clock.WALL))
        assert "most wall time of their own:" in out.getvalue()


def test_heaviest_functions_are_few_and_fit_a_line() -> None:
    assert heaviest_lines(TREE, Clock.CPU) == HEAVIEST
    assert heaviest_lines(TREE, Clock.CPU, 1) == [*HEAVIEST[:1], "  60.0%  crunch  demo"]
    functions = [Function("f" * 500, "m" * 500), *TREE.functions[1:]]
    lines = heaviest_lines(replace(TREE, functions=functions), Clock.CPU)
    assert max(map(len, lines)) < 120
    nothing = replace(TREE, self_ns=TREE.self_ns * 0, total_ns=TREE.total_ns * 0)
    assert heaviest_lines(nothing, Clock.CPU) == []


def test_frames_without_names_are_told_if_they_matter() -> None:
    assert nameless_lines(TREE, 7) == NAMELESS
    few = replace(TREE, total_ns=np.array([30, 30, 26, 3, 3]))
    assert nameless_lines(few, 7) == []
    unknown = Function("[jit]", "", kind=FrameKind.UNKNOWN)
    jit = replace(TREE, functions=[*TREE.functions[:3], unknown])
    assert "most of them in generated code: 'flametap" in nameless_lines(jit, 7)[0]


def test_page_and_quiet_have_no_table(
    out: io.StringIO, written: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Interrupts() as interrupts:
        conclude(PlayedCapture(), interrupts, out, OutputOptions(has_page=True))
        assert "of their own" not in out.getvalue()
        capture = PlayedCapture()
        output = [Output("o.folded", "folded")]
        monkeypatch.setattr("flametap.analysis.views.views_of", None)  # it makes no tree
        finish(cast(Any, capture), output, OutputOptions(), interrupts, Progress(quiet=True))


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
        assert (
            conclude(PlayedCapture(cpu_ns=0), interrupts, out, OutputOptions(clock=Clock.WALL)) == 0
        )


def test_thread_that_is_not_there(out: io.StringIO, written: list[str]) -> None:
    with Interrupts() as interrupts, pytest.raises(NoSamplesError, match="no thread matches"):
        conclude(PlayedCapture(), interrupts, out, OutputOptions(tids=(99,)))
    assert written == []


def test_process_without_a_gil(out: io.StringIO, written: list[str]) -> None:
    what = OutputOptions(shown=FrameOptions(only_gil=True))
    with Interrupts() as interrupts, pytest.raises(NoSamplesError, match="held a GIL") as raised:
        conclude(PlayedCapture(), interrupts, out, what)
    assert (raised.value.hint, written) == ("leave out --gil", [])


def test_threads_are_chosen_by_id_or_name() -> None:
    capture = PlayedCapture().recording
    assert OutputOptions().thread_ids(capture) is None
    assert OutputOptions(tids=(8,)).thread_ids(capture) == frozenset({2})
    assert OutputOptions(thread_name=re.compile("^de")).thread_ids(capture) == frozenset({1})
    assert OutputOptions(tids=(8,), thread_name=re.compile("^de")).thread_ids(capture) == frozenset(
        {1, 2}
    )


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
