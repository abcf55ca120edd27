"""perf.data: read through perf, or refused with a remedy; what perf does wrong."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from flametap.errors import InputError
from flametap.foreign import perf_data
from flametap.foreign.opening import check_file, open_file
from foreign_files import stacks
from foreign_text import kept

SAMPLE = "a 1 2.5: 3 cycles:\n\tffff f (x)\n\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "-i"  # no name may be an option
    path.write_bytes(kept("perf.data"))
    return path


@pytest.fixture
def perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A perf of our own, the only one there is."""
    path = tmp_path / "bin" / "perf"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}:/usr/bin:/bin")
    return path


def write(perf: Path, script: str) -> None:
    perf.write_text(f"#!/bin/sh\n{script}\n")
    perf.chmod(0o755)


def error(data: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        open_file(str(data))
    assert "\n" not in caught.value.message
    return caught.value


def test_perf_itself_reads_it(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("perf") is None:
        pytest.skip("needs perf (linux-perf)")
    monkeypatch.chdir(data.parent)
    check_file("-i")
    recording = open_file("-i")
    status = recording.status()
    assert (status.source, status.weights, status.samples) == ("perf.data", "page-faults", 5)
    assert sum(stacks(recording).values()) == 219
    data.write_bytes(data.read_bytes()[:3000])
    assert "perf cannot read -i: 0x" in error(Path("-i")).message


def test_without_perf_there_is_a_remedy(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = error(data)
    assert found.message.endswith("is a perf.data")
    assert "perf script -i" in found.hint


def test_its_arguments_and_output(data: Path, perf: Path) -> None:
    write(perf, f'[ "$*" = "script -i {data}" ] && printf "{SAMPLE}"; cat')
    assert stacks(open_file(str(data))) == {("f",): 3}


def test_errors_are_its_last_line(data: Path, perf: Path) -> None:
    write(perf, f'printf "{SAMPLE}"; printf "one\\ntwo \\033[1m\\n\\n" >&2; exit 3')
    assert error(data).message == f"perf cannot read {data}: two ?[1m"
    write(perf, "exit 3")
    assert error(data).message.endswith("it ended with 3")
    perf.write_text("#!/no/such/interpreter\n")
    assert "it cannot be started (No such file or directory)" in error(data).message


def test_many_errors_stop_nothing(data: Path, perf: Path) -> None:
    write(perf, f'head -c 3000000 /dev/zero | tr "\\0" x >&2; printf "{SAMPLE}"')
    assert stacks(open_file(str(data))) == {("f",): 3}


def test_it_is_ended_when_reading_fails(
    data: Path, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pid = data.parent / "pid"
    write(perf, f'echo $$ > {pid}; printf "{SAMPLE}"; yes "$(printf "{SAMPLE}")"')
    monkeypatch.setattr("flametap.foreign.perf_script._MAX_FRAMES", 0)
    assert "more functions than fit" in error(data).message
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


def test_it_is_ended_when_it_does_not_end(
    data: Path, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_data, "_END_S", 0.05)
    write(perf, f'printf "{SAMPLE}"; exec >&-; sleep 60')
    assert "it ended with -9" in error(data).message


def test_it_is_ended_when_it_prints_nothing(
    data: Path, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_data, "_SILENT_S", 0.1)
    write(perf, f'printf "{SAMPLE}"; sleep 60')
    assert "it has printed nothing for 0.1 s" in error(data).message


def test_what_it_has_started_may_keep_its_errors(
    data: Path, perf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf_data, "_ERRORS_S", 0.05)
    write(perf, f'printf "{SAMPLE}"; setsid sleep 1 >&- & sleep 0.1')
    began = time.monotonic()
    assert stacks(open_file(str(data))) == {("f",): 3}
    assert time.monotonic() - began < 0.9


def test_remedies_can_be_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    path = tmp_path / "a; b"
    path.write_bytes(kept("perf.data"))
    assert f"perf script -i '{path}' >" in error(path).hint
