"""How much stack a function needs, by gcc's call graph."""

from __future__ import annotations

import pytest

from flametap.agent.stack_use import deepest_bytes

GRAPH = r"""graph: { title: "agent.c"
node: { title: "agent.c:handle" label: "handle\nagent.c:3:1\n48 bytes (static)\n0 dynamic objects" }
node: { title: "agent.c:step" label: "step\nagent.c:2:1\n104 bytes (dynamic,bounded)" }
node: { title: "look" label: "look\nagent.c:1:1\n16 bytes (static)\n0 dynamic objects" }
node: { title: "__indirect_call" label: "Indirect Call Placeholder" shape : ellipse }
edge: { sourcename: "agent.c:handle" targetname: "agent.c:step" label: "agent.c:4:1" }
edge: { sourcename: "agent.c:handle" targetname: "look" label: "agent.c:5:1" }
edge: { sourcename: "agent.c:step" targetname: "look" }
edge: { sourcename: "look" targetname: "__indirect_call" }
}"""


def test_deepest_way_counts() -> None:
    assert deepest_bytes(GRAPH, "handle") == 48 + 104 + 16
    assert deepest_bytes(GRAPH, "look") == 16


def test_function_that_calls_itself_has_no_depth() -> None:
    edge = '\nedge: { sourcename: "look" targetname: "agent.c:step" }'
    with pytest.raises(ValueError, match="may call itself"):
        deepest_bytes(GRAPH + edge, "handle")


def test_absent_function() -> None:
    with pytest.raises(ValueError, match="0 functions are called handler"):
        deepest_bytes(GRAPH, "handler")
