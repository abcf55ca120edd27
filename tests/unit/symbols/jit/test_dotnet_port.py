"""The request to a .NET program for its perf map, and what becomes of the file."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from flametap.errors import FlametapError, UsageError
from flametap.symbols.jit.dotnet_port import DotnetPerfMap

PROGRAM = Path(__file__).parents[3] / "targets/dotnet_port.py"


class Target(NamedTuple):
    """A program with a port."""

    child: subprocess.Popen[str]
    map: Path
    port: Path

    def asked(self) -> list[str]:
        """Return the commands that it was given so far; it ends."""
        self.child.kill()
        assert self.child.stdout is not None
        return self.child.stdout.read().split()


@contextlib.contextmanager
def program(way: str) -> Iterator[Target]:
    argv = [sys.executable, str(PROGRAM), "/tmp", way]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        port = Path(f"/tmp/dotnet-diagnostic-{child.pid}-12345-socket")
        target = Target(child, Path(f"/tmp/perf-{child.pid}.map"), port)
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            yield target
        finally:
            child.kill()
            for path in (port, target.map):
                path.unlink(missing_ok=True)


def test_map_is_there_from_enable_to_close() -> None:
    with program("writes") as target:
        perf_map = DotnetPerfMap(target.child.pid)
        perf_map.enable()
        assert target.map.exists()
        perf_map.disable()
        assert target.map.exists()  # the last names are read from it
        perf_map.close()
        perf_map.close()
        assert not target.map.exists()
        assert target.asked() == ["enable", "disable"]


def test_nothing_is_asked_that_nobody_wants() -> None:
    with program("writes") as target:
        perf_map = DotnetPerfMap(target.child.pid, is_wanted=False)
        perf_map.enable()
        perf_map.close()
        assert target.asked() == []


def test_map_of_the_programs_own_stays() -> None:
    with program("writes") as target:
        target.map.write_text("1000 10 f\n")
        perf_map = DotnetPerfMap(target.child.pid)
        perf_map.enable()
        perf_map.close()
        assert target.map.read_text() == "1000 10 f\n"
        assert target.asked() == []


def test_map_of_a_process_before_with_the_same_number_is_replaced() -> None:
    with program("writes") as target:
        target.map.write_text("1000 10 f\n")
        os.utime(target.map, (1, 1))
        perf_map = DotnetPerfMap(target.child.pid)
        perf_map.enable()
        assert "Primes" in target.map.read_text()
        perf_map.close()
        assert not target.map.exists()


def test_file_that_took_the_maps_place_stays() -> None:
    with program("writes") as target:
        perf_map = DotnetPerfMap(target.child.pid)
        perf_map.enable()
        other = target.map.with_suffix(".other")
        other.write_text("mine")
        other.replace(target.map)
        perf_map.close()
        assert target.map.read_text() == "mine"


def test_program_that_ended_meanwhile_leaves_no_file() -> None:
    with program("writes") as target:
        perf_map = DotnetPerfMap(target.child.pid)
        perf_map.enable()
        target.child.kill()
        target.child.wait()
        perf_map.close()
        assert not target.map.exists()


@pytest.mark.parametrize(
    ("way", "error", "says", "asked"),
    [
        ("old", UsageError, "older than .NET 8", ["enable"]),
        ("refuses", FlametapError, "refuses (0x80131388)", ["enable"]),
        ("hangs up", FlametapError, "does not answer", ["enable"]),
        ("garbage", FlametapError, "does not answer", ["enable"]),
        ("elsewhere", UsageError, "elsewhere", ["enable", "disable"] * 2),
    ],
)
def test_other_answers_are_errors(
    way: str, error: type[FlametapError], says: str, asked: list[str]
) -> None:
    with program(way) as target:
        perf_map = DotnetPerfMap(target.child.pid)
        with pytest.raises(error) as raised:
            perf_map.enable()
        assert says in raised.value.message
        assert raised.value.hint
        perf_map.close()
        assert target.asked() == asked


def test_program_without_a_port_is_refused() -> None:
    perf_map = DotnetPerfMap(os.getpid())
    with pytest.raises(UsageError, match=r"no \.NET program"):
        perf_map.enable()
    perf_map.close()


@pytest.mark.parametrize("kind", ["socket", "link"])
def test_port_of_another_program_is_not_asked(tmp_path: Path, kind: str) -> None:
    """A hostile target leads flametap, perhaps root, to a socket that it may not open itself."""
    with program("writes") as target, socket.socket(socket.AF_UNIX) as other:
        target.port.unlink()
        place = target.port if kind == "socket" else tmp_path / "socket"
        other.bind(str(place))
        other.listen()
        if kind == "link":
            target.port.symlink_to(place)
        other.settimeout(0.0)
        perf_map = DotnetPerfMap(target.child.pid)
        with pytest.raises(UsageError, match=r"no \.NET program"):
            perf_map.enable()
        perf_map.close()
        with contextlib.suppress(BlockingIOError):
            connection, _ = other.accept()
            assert connection.recv(1) == b""
            connection.close()
        assert target.asked() == []
