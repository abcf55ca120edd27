"""What users type: numbers with units, commands left out, mistakes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace

import click
import pytest

from flametap.agent import machine_code
from flametap.cli.main import NAMES, command_of, run
from flametap.cli.option_values import (
    parse_duration_s,
    parse_pid,
    parse_range,
    parse_rate_hz,
    parse_regex,
    parse_server,
)
from flametap.cli.options import pick_pid
from flametap.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10", 10), ("1.5", 1.5), ("500ms", 0.5), ("30s", 30), ("2m", 120), ("1h", 3600), (".5", 0.5)],
)
def test_duration(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "-1", "1d", "ten", "1e3", "inf", "nan", "1 2"])
def test_duration_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="duration"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "hz"), [("100", 100), ("1k", 1000), ("2.5kHz", 2500), ("1", 1), ("10000hz", 10_000)]
)
def test_rate(text: str, hz: float) -> None:
    assert parse_rate_hz(text) == hz


@pytest.mark.parametrize("text", ["0", "0.5", "10001", "1000000000", "11k", "-3", "fast", ""])
def test_rate_out_of_range(text: str) -> None:
    with pytest.raises(UsageError, match="between 1 and 10000 Hz"):
        parse_rate_hz(text)


@pytest.mark.parametrize("text", ["", "0", "-5", "abc", "1.5", "12345678901", "١٢"])
def test_text_that_is_no_pid(text: str) -> None:
    with pytest.raises(UsageError, match="not a process id"):
        parse_pid(text)


@pytest.mark.parametrize(
    "text", ["", "1234", "localhost:8002", "file:///etc", "https://", "http:// x"]
)
def test_text_that_is_no_server(text: str) -> None:
    assert parse_server("http://localhost:8002/x") == "http://localhost:8002/x"
    with pytest.raises(UsageError, match="not a server's address"):
        parse_server(text)


def test_bad_regex_says_where() -> None:
    with pytest.raises(UsageError, match="position"):
        parse_regex("worker-(")


def test_process_is_named_once() -> None:
    assert pick_pid(5, None) == pick_pid(None, 5) == pick_pid(5, 5) == 5
    with pytest.raises(UsageError, match="two different"):
        pick_pid(5, 6)
    with pytest.raises(UsageError, match="no process"):
        pick_pid(None, None)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "Usage: flametap"),
        (["recrod"], 2, "did you mean `flametap record`"),
        (["nonsense"], 2, "neither a command nor a process id"),
        (["attach", "--pid", "1"], 2, "`flametap PID` attaches, and shows a live page"),
        (["top"], 2, "no process is named"),
        (["record", "-p", "1", "-d", "unlimited"], 2, "until Ctrl-C"),
        (["0"], 2, "'0' is not a process id"),
        (["--pid", "x"], 2, "'x' is not a process id"),
        (["9999999999"], 3, "no process 9999999999"),
        (["-p", "9999999999"], 3, "no process 9999999999"),
        (["live", "9999999999"], 3, "no process 9999999999"),
        (["dump", "9999999999", "--json"], 3, "no process 9999999999"),
        (["record", "-p", "9999999999", "-o", "-"], 3, "no process 9999999999"),
        (["record", "9999999999", "-o", "-"], 3, "no process 9999999999"),
        (["record", "-o", "-"], 2, "no process is named"),
        (["record", "-p", "1", "-o", "-", "--", "true"], 2, "both a process and a command"),
        (["record", "-p", "1", "--bogus"], 2, "--bogus"),
        (["record", "-p", "1", "--clock", "sun"], 2, "sun"),
        (["record", "-p", "1", "-i", "--clock", "off-cpu", "-o", "-"], 2, "contradict"),
        (["record", "-p", "1", "-d", "x"], 2, "not a duration"),
        (["record", "-p", "1", "--thread", "("], 2, "regular expression"),
        (["live", "1", "--port", "99999"], 2, "port"),
        (["doctor", "12", "-p", "13"], 2, "two different"),
        # The names that the rate has in perf.
        (["-F", "99999", "-p", "1"], 2, "the rate '99999' is not between"),
        (["record", "--frequency=0", "-p", "1", "-o", "-"], 2, "the rate '0' is not between"),
    ],
)
def test_mistakes_are_one_line_and_a_hint(
    capfd: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    assert run(arguments) == code
    out, err = capfd.readouterr()
    assert out == ""
    assert message in err
    if arguments:
        first, second = err.splitlines()
        assert first.startswith("flametap: ")
        assert second.startswith("hint: ")


def test_doctor_tells_the_exit_code_of_the_attach(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "9999999999"]) == 3
    assert "no process 9999999999" in capfd.readouterr().out


@pytest.mark.parametrize("is_installed", [True, False])
def test_doctor_tells_how_the_agent_was_built(
    is_installed: bool, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = machine_code.read()

    def read() -> machine_code.MachineCode:
        if not is_installed:
            raise machine_code.UnusableError("the machine code of the agent is missing")
        return replace(made, compiler="gcc 12")

    monkeypatch.setattr(machine_code, "read", read)
    code = run(["doctor", str(os.getpid())])
    out = capfd.readouterr().out
    assert ("built by gcc 12" in out) == is_installed
    assert ("the machine code of the agent is missing" in out) == (not is_installed)
    assert (machine_code.REMEDY in out) == (not is_installed)
    if not is_installed:
        assert code != 0


def test_unexpected_error_is_one_line_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("out of\ncheese")

    monkeypatch.setattr("flametap.safety.preflight.findings", broken)
    assert run(["doctor", "1"]) == 1
    assert "internal error: RuntimeError: out of cheese" in capfd.readouterr().err
    monkeypatch.setenv("FLAMETAP_DEBUG", "1")
    with pytest.raises(RuntimeError):
        run(["doctor", "1"])


def test_closed_pipe_is_not_worth_a_word() -> None:
    command = f"{sys.executable} -m flametap ps | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_help_leaves_out_the_names_of_other_profilers(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["record", "--help"]) == 0
    out = capfd.readouterr().out
    assert "-r, --rate RATE" in out
    assert "--frequency" not in out


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_a_help_of_its_own(name: str) -> None:
    for param in command_of(name).params:
        if isinstance(param, click.Option):
            assert len((param.help or "").split()) > 2, param.opts


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom flametap.cli.main import run\nrun(['--help'])\n"
        "print(sorted({'frida', 'numpy', 'flask', 'symbolic', 'elftools'} & set(sys.modules)))"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout.splitlines()[-1] == "[]"
    # 0.1 s on a quiet machine; the promise is 0.2 s. CPU time: how long it waits for a CPU is not
    # ours to promise.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2-5", (2, 5)), (" 0.5-1.25 ", (0.5, 1.25)), ("10-", (10, None)), ("-3", (0, 3))],
)
def test_range_is_in_seconds(text: str, expected: tuple[float, float | None]) -> None:
    assert parse_range(text) == expected


@pytest.mark.parametrize("text", ["", "-", "5", "5-2", "2-2", "a-b", "1-2-3", "2s-5s"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a range"):
        parse_range(text)
