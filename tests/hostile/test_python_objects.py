"""A Python whose own objects are damaged: dump shows what is whole, marks the rest, and ends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import cli
from flametap.capture.python_look import look_at_python
from flametap.symbols.interpreters.search import find_interpreters
from python_targets import VERSIONS
from running import Target

pytestmark = pytest.mark.needs("attach")

SCRIPT = Path(__file__).parents[1] / "targets" / "python_damage.py"
WHOLE = {"good": "['whole', 1]", "last": "{'whole': (2,)}", "endless_int": "<a long int>"}
CUT = {"deep", "loop", "list_of_itself"}


@pytest.fixture
def damaged(
    request: pytest.FixtureRequest, require_capability: Callable[[str], str]
) -> Iterator[Target]:
    """A Python of the version that a test names."""
    name = "python" if request.param == "debian" else f"python{request.param}"
    target = Target([require_capability(name), SCRIPT])
    yield target
    target.close()


def assert_marked(variables: dict[str, str]) -> None:
    """What is whole is shown; the rest is marked, or cut."""
    assert {name: variables[name] for name in WHOLE} == WHOLE
    assert len(variables) > 20
    for name in variables.keys() - WHOLE.keys() - CUT:
        assert variables[name] == "<damaged>", name
    assert all(len(text) < 250 for text in variables.values())


@pytest.mark.parametrize("damaged", VERSIONS, indirect=True)
def test_look_at_damaged_objects_ends(damaged: Target) -> None:
    began = time.monotonic()
    look = look_at_python(damaged.pid, find_interpreters(damaged.pid), with_locals=True)
    assert time.monotonic() - began < 15
    frames = [f for looks in look.threads.values() for each in looks for f in each.frames]
    (waits,) = (frame for frame in frames if frame.name == "waits")
    assert_marked({each.name: each.text for each in waits.variables})
    (loop,) = look.loops
    by_name = {task.name: (task.state, task.is_cut) for task in loop.tasks}
    assert by_name == {
        "Task-1": ("running", False),
        "Task-2": ("waiting", True),
        "Task-4": ("waiting", False),
    }
    (running,) = (task for task in loop.tasks if task.state == "running")
    assert [frame.name for frame in running.frames] == ["tasks"]


@pytest.mark.parametrize("damaged", ["3.9", "3.12"], indirect=True)
def test_dump_of_damaged_objects_harms_neither_side(damaged: Target) -> None:
    result = cli.run("dump", "--locals", "--json", damaged.pid)
    result.assert_saved()
    document = json.loads(result.stdout)
    frames = [frame for each in document["threads"] for frame in each["frames_leaf_first"]]
    (waits,) = (frame for frame in frames if frame["name"] == "waits")
    assert_marked({each["name"]: each["value"] for each in waits["locals"]})
    assert {"loop", "MainThread"} <= {each["name"] for each in document["threads"]}
    text = cli.run("dump", "-l", "--python-only", damaged.pid)
    text.assert_saved()
    assert "            good: ['whole', 1]" in text.stdout
    assert damaged.alive
    damaged.close_input()
