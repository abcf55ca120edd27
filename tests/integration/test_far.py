"""``--via``: what runs elsewhere is recorded there and shown here, whatever the connection does."""

from __future__ import annotations

import os
import shlex
import signal
import sys
from pathlib import Path

import pytest

import cli
import receipt
from flametap.errors import UsageError
from flametap.model import Clock, Function
from flametap.recording.opened import open_recording
from flametap.recording.recording import Recording
from flametap.remote.far_capture import FarCapture
from flametap.remote.far_group import FarGroup
from running import Start, wait_until

pytestmark = pytest.mark.needs("attach", "gcc")

SHAPED = Path(__file__).parents[1] / "support" / "shaped_line.py"
# As a login's PATH has it there.
THERE = f"env PATH={shlex.quote(str(Path(sys.executable).parent))}:{os.environ['PATH']}"


def via(*shape: object) -> str:
    """A command that leads to this machine, by a connection that is as bad as that."""
    words = [sys.executable, SHAPED, *shape] if shape else []
    return " ".join([shlex.join(map(str, words)), THERE])


def sessions(pid: int) -> list[int]:
    """The processes that record a process for somebody elsewhere."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
        except OSError:
            continue
        if any(b"cli.serving" in word for word in words):
            found.append(int(each.parent.name))
    return [each for each in found if holds_ring_of(each, pid)]


def holds_ring_of(host: int, pid: int) -> bool:
    def rings(process: int) -> set[str]:
        try:
            lines = Path(f"/proc/{process}/maps").read_text().splitlines()
        except OSError:
            return set()
        return {line.split()[4] for line in lines if "flametap-ring" in line}

    return bool(rings(host) & rings(pid))


def heavy_share(recording: Recording) -> float:
    from flametap.analysis.views import views_of
    from flametap.tree.selection import Selection

    tree = views_of(recording).tree(Selection(Clock.CPU))
    own_ns = dict.fromkeys(("heavy", "light"), 0)
    for function, weight in zip(tree.function, tree.self_ns, strict=True):
        name = tree.functions[function].name if function >= 0 else ""
        if name in own_ns:
            own_ns[name] += int(weight)
    return own_ns["heavy"] / sum(own_ns.values())


def recorded(
    start: Start, folder: Path, *shape: object, duration_s: float
) -> tuple[Recording, str]:
    target = start("ratio")
    before = receipt.take_at_rest(target.pid)
    out = folder / "out.flametap"
    result = cli.run(
        *("record", "--via", via(*shape), target.pid, "-d", duration_s, "-r", 250, "-o", out)
    )
    result.assert_saved()
    assert receipt.harm_after_settling(target.pid, before) == []
    wait_until(lambda: not sessions(target.pid), "the recording there to end")
    target.finish()
    return open_recording(str(out)), result.stderr


def test_shares_are_those_of_the_program(start: Start, tmp_path: Path) -> None:
    recording, _ = recorded(start, tmp_path, duration_s=4)
    assert heavy_share(recording) == pytest.approx(0.75, abs=0.08)
    status = recording.status()
    assert status.state == "ended"
    assert status.program == "ratio"
    assert recording.meta["host"] == status.host == os.uname().nodename
    assert any(function.file for function in recording.functions)


def test_connection_that_is_cut_loses_nothing(start: Start, tmp_path: Path) -> None:
    shape = ("--cut", 2.5, "--state", tmp_path / "was-cut")
    recording, told = recorded(start, tmp_path, *shape, duration_s=4)
    assert "connecting again" in told
    profile = recording.profile
    assert profile.duration_ns == pytest.approx(4e9, rel=0.2)
    walls_ns = [each.wall_ns for each in profile.thread_infos()]
    assert max(walls_ns) == pytest.approx(profile.duration_ns, rel=0.05)
    assert heavy_share(recording) == pytest.approx(0.75, abs=0.08)


def on_host(name: str) -> str:
    """A command that leads to a machine of that name: this one, called otherwise."""
    script = f'hostname {name}; exec "$@"'
    return f"unshare --uts --fork sh -c {shlex.quote(script)} sh {THERE}"


@pytest.mark.needs("unshare")
def test_several_machines_are_one_recording(start: Start, tmp_path: Path) -> None:
    """The recording of one ends early: that of the other goes on."""
    targets = [start("ratio"), start("ratio")]
    before = [receipt.take_at_rest(each.pid) for each in targets]
    captures = [
        FarCapture(
            on_host(f"web{at}"),
            {"words": [str(each.pid)], "rate_hz": 250, "budget_ppm": 0},
            lambda text: None,
        )
        for at, each in enumerate(targets)
    ]
    group = FarGroup(captures)
    out = tmp_path / "out.flametap"
    try:
        group.keep_in(out.open("wb"), str(out))
        group.start()
        wait_until(lambda: len(group.profile.processes) == 2, "the processes of both")
        wait_until(lambda: group.status().samples > 100, "samples")
        captures[1].stop()
        assert captures[1].wait(30)
        assert not group.wait(0)
        n_samples = group.status().samples
        wait_until(lambda: group.status().samples > n_samples + 100, "samples of the other")
        group.set_paused(True)
        wait_until(lambda: group.status().state == "paused", "the pause")
        group.stop()
        wait_until(lambda: group.finish_symbols(0.1), "all names")
        assert group.keeper is not None
        group.keeper.finish()
    finally:
        group.close()
    assert group.error is None
    recording = open_recording(str(out))
    assert recording.status().state == "ended"
    assert recording.status().host == "web0, web1"
    processes = recording.profile.processes
    assert sorted(each.host for each in processes.values()) == ["web0", "web1"]
    wall_ns = {
        processes[each.process].host: next(
            info.wall_ns
            for info in recording.profile.thread_infos()
            if info.thread_id == each.thread_id
        )
        for each in recording.profile.plain_threads.values()
    }
    assert wall_ns["web1"] < wall_ns["web0"]
    assert heavy_share(recording) == pytest.approx(0.75, abs=0.1)
    wait_until(
        lambda: not any(sessions(each.pid) for each in targets), "the recordings there to end"
    )
    for target, was in zip(targets, before, strict=True):
        assert receipt.harm_after_settling(target.pid, was) == []
        target.finish()


def test_machine_that_cannot_be_reached_keeps_no_other_from_being_recorded(
    start: Start, tmp_path: Path
) -> None:
    target = start("ratio")
    out = tmp_path / "out.flametap"
    result = cli.run(
        *("record", "--via", "sh -c 'echo no such host >&2; exit 255' sh", "--via", via()),
        *(target.pid, "-d", 2, "-o", out),
    )
    assert result.exit_code == 1
    assert "no such host" in result.stderr
    recording = open_recording(str(out))
    assert recording.profile.total_ns(Clock.CPU) > 0
    assert any("no such host" in each for each in recording.status().notes)
    target.finish()


def test_what_a_page_asks_for_is_answered_there(start: Start) -> None:
    """Source lines, pause and rate, while it is recorded."""
    target = start("ratio", variant="debug")
    wish = {"words": [str(target.pid)], "rate_hz": 250, "budget_ppm": 0}
    capture = FarCapture(via(), wish, lambda text: None)
    try:
        assert capture.recording.code.sources() == []  # as a page that is open from the start asks
        capture.start()

        def heavy() -> Function | None:
            named = capture.recording.functions
            return next((each for each in named if each.name == "heavy" and each.file), None)

        wait_until(lambda: heavy() is not None, "the name and its file")
        function = heavy()
        assert function is not None
        code = capture.recording.code
        wait_until(lambda: any(each.module == "ratio-debug" for each in code.sources()), "sources")
        lines = code.text(function, function.file).lines
        assert lines is not None
        assert any("heavy(" in line for line in lines)
        capture.set_paused(True)
        wait_until(lambda: capture.status().state == "paused", "the pause")
        capture.set_paused(False)
        capture.set_sampling(50, 0)
        wait_until(lambda: capture.status().asked_rate_hz == 50, "the rate")
        with pytest.raises(UsageError, match="rate"):
            capture.set_sampling(10**9, 0)
        assert capture.children() == []
    finally:
        capture.close()
    wait_until(lambda: not sessions(target.pid), "the recording there to end")
    target.finish()


def test_program_is_left_when_nobody_is_there_any_more(start: Start, tmp_path: Path) -> None:
    target = start("ratio")
    before = receipt.take_at_rest(target.pid)
    arguments = ("record", "--via", via(), target.pid, "-d", 600, "-o", tmp_path / "out.flametap")
    with cli.Running(str(tmp_path), *arguments) as run:
        wait_until(lambda: bool(sessions(target.pid)), "the recording there")
        (session,) = sessions(target.pid)
        run.process.kill()
    # It waits a minute for a connection; that is over at once when it is told to end.
    os.kill(session, signal.SIGTERM)
    wait_until(lambda: not sessions(target.pid), "the end there", 90)
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


@pytest.mark.parametrize("whom", ["session", "target", "user"])
def test_end_is_said_and_what_was_recorded_is_kept(start: Start, tmp_path: Path, whom: str) -> None:
    """The recording there is killed, the program dies of a fault, or the user presses Ctrl-C."""
    target = start("ratio")
    out = tmp_path / "out.flametap"
    arguments = ("record", "--via", via(), target.pid, "-d", 600, "-r", 250, "-o", out)
    with cli.Running(str(tmp_path), *arguments) as run:
        wait_until(lambda: out.exists() and out.stat().st_size > 3_000, "samples")
        (session,) = sessions(target.pid)
        if whom == "user":
            run.interrupt()
        elif whom == "target":
            os.kill(target.pid, signal.SIGSEGV)
        else:
            os.kill(session, signal.SIGKILL)
        result = run.result(100)
    assert "Traceback" not in result.stderr
    code, what = {
        "session": (1, "is lost"),
        "target": (7, "SIGSEGV"),
        "user": (0, "wrote "),
    }[whom]
    assert result.exit_code == code, result.stderr
    assert what in result.stderr
    assert open_recording(str(out)).profile.total_ns(Clock.CPU) > 0
    wait_until(lambda: not sessions(target.pid), "the end there")
    target.finish(-signal.SIGSEGV if whom == "target" else 0)


def test_what_runs_there_is_listed(start: Start) -> None:
    target = start("ratio")
    result = cli.run("ps", "--via", via(), "ratio", "--json")
    assert f'"pid": {target.pid},' in result.stdout
    result = cli.run("dump", "--via", via(), target.pid)
    assert "cycle (ratio)" in result.stdout
    target.finish()


@pytest.mark.parametrize(
    ("command", "code", "what"),
    [
        ("no-such-command", 2, "cannot run --via no-such-command: no such command"),
        ("sh -c 'echo nobody knows >&2; exit 3'", 1, "ended with 3: nobody knows"),
        ("env PATH=/nowhere", 1, "there is no flametap at 'env PATH=/nowhere'"),
        ("'", 2, "--via ': No closing quotation"),
        ("", 2, "--via names no command"),
        ("sh -c 'cat /dev/zero'", 1, "bytes that are no message of flametap"),
        (f"sh -c 'echo Welcome; echo; exec \"$@\"' - {THERE}", 3, "there is no process 4194305"),
    ],
)
def test_connection_that_leads_nowhere_is_said(command: str, code: int, what: str) -> None:
    result = cli.run("record", "--via", command, 2**22 + 1, "-d", 1, "-o", os.devnull, "-f", "svg")
    assert result.exit_code == code, result.stderr
    assert what in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 2
