"""A Ruby program that makes methods, calls each once, throws them away, and compacts its heap."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.model import Clock
from recording import record
from running import Target

# outer_N calls inner_N, line N. New ones get the memory of old ones.
SCRIPT = """
$stdout.sync = true
puts "ready"
n = 0
loop do
  n += 1
  line = n % 1000 + 1
  made = Class.new do
    class_eval("def outer_#{n}; 6.times { inner_#{n} }; end", "outer_#{n}.rb", line)
    body = "x = 0; i = 0\\n while i < 300; x += i; i += 1; end\\n x"
    class_eval("def inner_#{n}\\n #{body}\\nend", "inner_#{n}.rb", line)
  end
  Object.const_set("Made_#{n}", made) if n.odd?
  made.new.send("outer_#{n}")
  eval("3.times { i = 0; i += 1 while i < 300 }", nil, "eval_#{n}.rb", line)
  Object.send(:remove_const, "Made_#{n}") if n.odd?
  GC.start if n % 200 == 0
  GC.compact if n % 1000 == 0
end
"""
UNKNOWN = "[unknown Ruby function]"


@pytest.mark.needs("attach")
@pytest.mark.needs("ruby")
def test_methods_that_live_for_microseconds_never_have_the_name_of_others(
    adopt: Callable[[Target], Target], tmp_path: Path
) -> None:
    script = tmp_path / "churn.rb"
    script.write_text(SCRIPT)
    target = adopt(Target(["ruby", script]))
    capture = record(target.pid, 0.5, rate_hz=1000.0, cpu_s=1.5)
    try:
        trie = capture.profile.trie()
        weights = capture.profile.leaf_weights(Clock.CPU)
        lost = classes = evals = 0
        pairs: list[tuple[str, str]] = []
        for node, weight in zip(weights.node.tolist(), weights.weight.tolist(), strict=True):
            frames = []
            while node > 0:
                address = int(trie.address[node])
                if address >= 0:
                    frames += capture.names.frames(address)
                node = int(trie.parent[node])
            names = [frame.function.name for frame in frames]
            lost += weight * (UNKNOWN in names)
            pairs += re.findall(
                r"\binner_(\d+) (?:.* )?(?:Made_\d+#)?outer_(\d+)\b", " ".join(names)
            )
            for frame in frames:
                evaluated = re.fullmatch(r"eval_(\d+)\.rb", frame.function.file)
                if evaluated is not None:
                    evals += 1
                    assert frame.line in (0, int(evaluated[1]) % 1000 + 1), frame
                made = re.fullmatch(r".*\b(inner|outer)_(\d+)", frame.function.name)
                if made is None:
                    continue
                owner = re.search(r"Made_(\d+)#", frame.function.name)
                assert owner is None or owner[1] == made[2], frame
                classes += owner is not None
                assert frame.function.file == f"{made[1]}_{made[2]}.rb", frame
                first = int(made[2]) % 1000 + 1
                assert frame.line == 0 or first <= frame.line <= first + 4, frame
        assert len(pairs) > 10
        assert classes > 10
        assert evals > 20
        assert [pair for pair in pairs if pair[0] != pair[1]] == []
        assert lost <= 0.05 * weights.weight.sum()
    finally:
        capture.close()
