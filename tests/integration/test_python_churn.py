"""A program that makes functions, calls each once, and throws them away."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.model import Clock
from python_targets import ALL, python_of
from recording import record
from running import Target

# Some 50 000 pairs a second: outer_N calls inner_N. New ones get the memory of old ones.
SCRIPT = """
def outer(inner):
    for _ in range(6):
        inner()
def inner():
    x = 0
    for i in range(12):
        x += i
def renamed(function, name):
    code = function.__code__
    names = {"co_name": name}
    if hasattr(code, "co_qualname"):
        names["co_qualname"] = name
    return type(function)(code.replace(**names), {"range": range})
print("ready", flush=True)
n = 0
while True:
    n += 1
    renamed(outer, f"outer_{n}")(renamed(inner, f"inner_{n}"))
"""


@pytest.mark.needs("attach")
@pytest.mark.parametrize("version", ALL)
def test_functions_that_live_for_microseconds_have_their_names(
    version: str,
    adopt: Callable[[Target], Target],
    require_capability: Callable[[str], str],
    tmp_path: Path,
) -> None:
    script = tmp_path / "churn.py"
    script.write_text(SCRIPT)
    target = adopt(Target([python_of(version, require_capability), script]))
    capture = record(target.pid, 0.3, rate_hz=100.0, cpu_s=1.0)
    try:
        trie = capture.profile.trie()
        weights = capture.profile.leaf_weights(Clock.CPU)
        lost = 0
        pairs: list[tuple[str, str]] = []
        for node, weight in zip(weights.node.tolist(), weights.weight.tolist(), strict=True):
            names = []
            while node > 0:
                address = int(trie.address[node])
                if address >= 0:
                    names += [frame.function.name for frame in capture.names.frames(address)]
                node = int(trie.parent[node])
            lost += weight * ("[python code gone]" in names)
            text = " ".join(names)
            pairs += re.findall(r"\binner_(\d+) (?:.* )?outer_(\d+)\b", text)
        assert len(pairs) > 0
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert lost <= 0.02 * weights.weight.sum()
    finally:
        capture.close()
