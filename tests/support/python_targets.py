"""Pythons of all versions, with threads that wait at known places."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from running import Target

SCRIPT = Path(__file__).parents[1] / "targets" / "python_stacks.py"
STATE = SCRIPT.with_name("python_state.py")
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15", "debian")
# Built without a global lock; of these, variables and tasks are not read.
FREE_THREADED = ("3.13t", "3.14t")
ALL = (*VERSIONS, *FREE_THREADED)


def python_of(version: str, require_capability: Callable[[str], str]) -> str:
    """The program of one of ``ALL``; the test is skipped where there is none."""
    return require_capability("python" if version == "debian" else f"python{version}")


@dataclass
class PythonTarget:
    """A running Python."""

    name: str  # of ALL
    program: str
    target: Target
    # pthread_self → frames, leaf first: name, qualified name or None, file, line, first line
    stacks: dict[int, list[tuple[str, str | None, str, int, int]]]

    @property
    def pid(self) -> int:
        """Its process."""
        return self.target.pid


@pytest.fixture(scope="session", params=VERSIONS)
def waiting_python(
    request: pytest.FixtureRequest,
    require_capability: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PythonTarget]:
    """A Python of each version."""
    version = request.param
    program = python_of(version, require_capability)
    report = tmp_path_factory.mktemp("python") / "stacks.json"
    target = Target([program, SCRIPT, report])
    try:
        stacks = json.loads(report.read_text("utf-8"))
        found = {int(i): [tuple(frame) for frame in frames] for i, frames in stacks.items()}
        yield PythonTarget(version, program, target, found)
    finally:
        target.close()


@dataclass
class PythonState:
    """A running Python, and what it says of itself; see ``targets/python_state.py``."""

    name: str  # of VERSIONS
    target: Target
    names: dict[int, str]
    variables: dict[int, list[tuple[str, dict[str, str] | None]]]
    tasks: dict[str, dict[str, Any]]

    @property
    def pid(self) -> int:
        """Its process."""
        return self.target.pid


@pytest.fixture(scope="session", params=VERSIONS)
def python_state(
    request: pytest.FixtureRequest,
    require_capability: Callable[[str], str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[PythonState]:
    """A Python of each version."""
    version = request.param
    program = python_of(version, require_capability)
    report = tmp_path_factory.mktemp("python") / "state.json"
    target = Target([program, STATE, report])
    try:
        said = json.loads(report.read_text("utf-8", "surrogatepass"))
        yield PythonState(
            version,
            target,
            {int(tid): name for tid, name in said["names"].items()},
            {
                int(tid): [(name, variables) for name, variables in frames]
                for tid, frames in said["variables"].items()
            },
            said["tasks"],
        )
    finally:
        target.close()
