"""Firefox Profiler's own reader finds our threads, functions and weights in what we export."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cli
import registry
from running import Start

# The reader comes from a registry.
pytestmark = [pytest.mark.needs("attach", "gcc", "npm"), pytest.mark.nightly]

VERSION = "0.10.0"


@pytest.fixture(scope="session")
def reader_app(
    require_capability: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The command line of Firefox Profiler, from npm."""
    npm = require_capability("npm")
    folder = tmp_path_factory.mktemp("firefox")
    package = registry.unpacked(npm, "@firefox-devtools/profiler-cli", VERSION, folder)
    return package / "dist" / "profiler-cli.js"


@pytest.fixture
def ask(reader_app: Path, tmp_path: Path) -> Iterator[Callable[..., str]]:
    """Run a command of the reader, whose process keeps the file that was loaded."""
    node = shutil.which("node")
    assert node, "npm has come without node"
    environment = {**os.environ, "PROFILER_CLI_SESSION_DIR": str(tmp_path / "session")}

    def run(*words: object) -> str:
        command = [node, str(reader_app), *map(str, words)]
        said: subprocess.CompletedProcess[str] = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert said.returncode == 0, said.stdout + said.stderr
        return said.stdout

    yield run
    run("stop", "--all")


def stacks_of(node: dict[str, Any], above: str = "") -> dict[str, float]:
    """Stacks of the reader's call tree → their own milliseconds."""
    found = {}
    for child in node.get("children", ()):
        path = f"{above};{child['name']}" if above else child["name"]
        if child["selfSamples"]:
            found[path] = child["selfSamples"]
        found.update(stacks_of(child, path))
    return found


def test_reader_finds_our_stacks(start: Start, ask: Callable[..., str], tmp_path: Path) -> None:
    target = start("inlines")
    out, folded = tmp_path / "out.firefox.json", tmp_path / "out.folded"
    cli.run("record", "-p", target.pid, "-d", 1, "-o", out, "-o", folded).assert_saved()
    target.finish()

    ask("load", out)
    threads = json.loads(ask("thread", "list", "--json"))["threads"]
    assert {thread["pid"] for thread in threads} == {str(target.pid)}
    found: dict[str, float] = {}
    for thread in threads:
        words = ("--thread", thread["threadHandle"], "--max-lines", 100_000, "--json")
        said = json.loads(ask("thread", "samples-top-down", *words))
        for stack, ms in stacks_of(said["regularCallTree"]).items():
            found[stack] = found.get(stack, 0) + ms
    expected: dict[str, float] = {}
    for line in folded.read_text().splitlines():
        stack, _, weight_us = line.rpartition(" ")
        expected[stack] = int(weight_us) / 1000
    assert found.keys() == expected.keys()
    assert all(found[stack] == pytest.approx(ms, abs=0.01) for stack, ms in expected.items())
    assert any("shapes::Mixer<5>::run" in stack for stack in found)
