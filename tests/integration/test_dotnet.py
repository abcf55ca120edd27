"""The methods of a .NET program, through the perf map that it writes on request."""

from __future__ import annotations

import contextlib
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cli

pytestmark = pytest.mark.needs("attach", "dotnet")

OPTION = "--enable-perf-map"


class Server:
    """A server of the Model Context Protocol: JSON, a line each, on its standard input."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child
        self._stopped = threading.Event()
        self._number = 0
        self.answers = 0
        version = "2024-11-05"
        self._ask(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self._say({"method": "notifications/initialized"})
        self._thread = threading.Thread(target=self._work)

    @property
    def pid(self) -> int:
        return self._child.pid

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Have it list its tools again and again."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            self._thread.join()

    def _work(self) -> None:
        while not self._stopped.is_set():
            assert "tools" in self._ask("tools/list", {})
            self.answers += 1

    def _ask(self, method: str, params: dict[str, object]) -> dict[str, object]:
        self._number += 1
        self._say({"id": self._number, "method": method, "params": params})
        assert self._child.stdout is not None
        for line in self._child.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number:
                return dict(answer["result"])
        raise AssertionError("the server has ended")

    def _say(self, message: dict[str, object]) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._child.stdin.flush()


@pytest.fixture
def server(require_capability: Callable[[str], str], tmp_path: Path) -> Iterator[Server]:
    env = {"HOME": str(tmp_path), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    env["AZURE_MCP_COLLECT_TELEMETRY"] = "false"
    argv = [require_capability("dotnet"), "server", "start"]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=env
    ) as child:
        try:
            yield Server(child)
            assert child.stdin is not None
            child.stdin.close()
            assert child.wait(60) == 0
        finally:
            child.kill()


def test_methods_have_names_and_the_program_stops_writing_them(
    server: Server, tmp_path: Path
) -> None:
    out = tmp_path / "out.folded"
    perf_map = Path(f"/tmp/perf-{server.pid}.map")
    with server.at_work():
        done = cli.run("record", server.pid, "-d", 4, OPTION, "--verify-detach", "-o", out)
        done.assert_saved()
        before = server.answers
    assert not perf_map.exists()
    assert server.answers > before > 0
    weights: dict[bool, int] = {True: 0, False: 0}
    for line in out.read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        if "[jit]" in stack or "System.Text.Json." in stack:
            weights["[jit]" not in stack] += int(weight)
    assert weights[False] < weights[True] / 10


def test_what_is_missing_without_the_option_is_said(server: Server, tmp_path: Path) -> None:
    with server.at_work():
        result = cli.run("record", server.pid, "-d", 2, "-v", "-o", tmp_path / "out.folded")
    result.assert_saved()
    assert OPTION in result.stderr
