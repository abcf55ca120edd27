"""The handler needs no more stack than what decides whether a thread has room for it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from flametap.agent import machine_code, source

RED_ZONE_BYTES = 128
RETURN_ADDRESS_BYTES = 8
# Arguments that do not fit into registers are in no function's figure.
ARGUMENTS_BYTES = 64
NODE = re.compile(r'node: \{ title: "([^"]+)" label: "[^"]*?(\d+) bytes')
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def constant(name: str) -> int:
    found = re.search(rf"^#define {name} (\d+)", source(), re.MULTILINE)
    assert found
    return int(found[1])


@pytest.mark.needs("gcc")
def test_handler_has_room(tmp_path: Path) -> None:
    """By the frames of all functions that it may call, as gcc reports them."""
    text = tmp_path / "agent.c"
    text.write_text(source(), "utf-8")
    command = ["gcc", *machine_code.FLAGS, "-fcallgraph-info=su", "-c", text.name]
    subprocess.run(command, cwd=tmp_path, check=True)
    graph = (tmp_path / "agent.ci").read_text("utf-8")
    frames = {name: int(size) for name, size in NODE.findall(graph)}
    calls: dict[str, set[str]] = {}
    for caller, called in EDGE.findall(graph):
        calls.setdefault(caller, set()).add(called)
    deepest: dict[str, int] = {}

    def stack_bytes(function: str, callers: tuple[str, ...] = ()) -> int:
        assert function not in callers, f"a function of the handler calls itself: {callers}"
        if function not in deepest:
            below = [stack_bytes(each, (*callers, function)) for each in calls.get(function, ())]
            own = frames.get(function, 0) + RETURN_ADDRESS_BYTES
            deepest[function] = own + max(below, default=0)
        return deepest[function]

    (handler,) = (name for name in frames if name.endswith(":handle_signal_sigsafe"))
    needed = stack_bytes(handler) + ARGUMENTS_BYTES + RED_ZONE_BYTES
    assert 1000 < needed <= constant("HANDLER_STACK_BYTES")
    assert frames[handler] + RED_ZONE_BYTES < constant("ENTRY_STACK_BYTES")
