"""Stacks of JavaScript programs: as the engine itself sees them (Error.stack), without its help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import receipt
from flametap.model import ManagedVerdict
from js_stacks import Frame, of_capture, of_error
from nightly import nightly
from recording import capturing, record, stacks
from running import Target, wait_until

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("node")]

Adopt = Callable[[Target], Target]
Require = Callable[[str], str]

TARGETS = Path(__file__).parents[1] / "targets"
WORDS = """
const text = "word12 another_345 third-".repeat(300);
let found = 0;
function countWords() {
  for (const word of text.matchAll(/([a-z_]+)\\d+/g)) found += word[1].length;
}
(function turn() { for (let i = 0; i < 20; i++) countWords(); setImmediate(turn); })();
process.stdin.resume().on("end", () => { console.log("done"); process.exit(0); });
console.log("ready ");
"""
# work(n), a loop of n turns.
WASM = """
const text = "AGFzbQEAAAABBgFgAX8BfwMCAQAHCAEEd29yawAA" +
  "CiABHgEBfwNAIAEgAGpBzZsEbCEBIABBAWsiAA0ACyABCw==";
const code = Buffer.from(text, "base64");
const { work } = new WebAssembly.Instance(new WebAssembly.Module(code)).exports;
function workForLong() { return work(3000000); }
(function turn() { for (let i = 0; i < 10; i++) workForLong(); setImmediate(turn); })();
process.stdin.resume().on("end", () => { console.log("done"); process.exit(0); });
console.log("ready ");
"""
CPU_S = 0.8
WORKERS, DEPTH, WARM_UP = 6, 30, 6000


def differences(ours: tuple[Frame, ...], theirs: tuple[Frame, ...]) -> list[tuple[Frame, Frame]]:
    """Pairs of frames that are not the same.

    Where one has no name, the place is enough: the engine makes some names from the receiver.
    """
    return [
        (our, their)
        for our, their in zip(ours, theirs, strict=False)
        if our.place != their.place or (our.name and their.name and our.name != their.name)
    ]


@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("node", ()),
        *nightly(
            ("node", ("--no-opt", "--no-sparkplug")),
            ("node", ("--always-sparkplug", "--no-opt")),
            ("node", ("--always-turbofan",)),
            ("node", ("--interpreted-frames-native-stack",)),
            ("node16", ()),
            ("node18", ()),
            ("node22", ()),
            ("node22", ("--maglev",)),
            ("node24", ()),
        ),
    ],
)
def test_sleeping_threads_have_the_frames_that_the_engine_sees(
    adopt: Adopt,
    tmp_path: Path,
    require_capability: Require,
    version: str,
    options: tuple[str, ...],
) -> None:
    node = require_capability(version)
    said = tmp_path / "stacks"
    arguments = [str(TARGETS / "stacks.js"), str(WORKERS), str(DEPTH), str(WARM_UP), str(said)]
    target = adopt(Target([node, *options, *arguments]))
    blocks = said.read_text().split("#")[1:]
    theirs = {of_error(block) for block in blocks}
    assert len(theirs) == WORKERS
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(
            lambda: sum(each.wall_ns > 0 for each in capture.profile.thread_infos()) > WORKERS,
            "a stack of each worker",
        )
        capture.stop()
        capture.finish_symbols(60)
        workers = (each for each in capture.profile.thread_infos() if each.tid != target.pid)
        ours = [of_capture(capture, each.thread_id) for each in workers]
        verdicts = capture.status().managed_verdict_cpu_ns
    deep = [stack for stack in ours if len(stack) > DEPTH]
    assert len(deep) == WORKERS
    for their in theirs:
        our = min(deep, key=lambda stack: len(differences(stack[1:], their[1:])))
        assert differences(our[1:], their[1:]) == []
        assert len(our) == len(their)
        assert our[0].name == their[0].name == "park"
    assert verdicts.get(ManagedVerdict.TORN.name, 0) == 0
    assert receipt.harm_after_settling(target.pid, before, has_jit=True) == []
    assert target.finish() == ["done"]


@pytest.mark.parametrize("version", ["node", *nightly("node16", "node18", "node22", "node24")])
def test_code_of_regular_expressions_is_told_from_other_code(
    adopt: Adopt, require_capability: Require, version: str
) -> None:
    target = adopt(Target([require_capability(version), "-e", WORDS]))
    seen = stacks(record(target.pid, 0.5, cpu_s=CPU_S))
    in_words = seen.where(lambda stack: "countWords" in stack)
    assert in_words.share("(regular expression)") > 0.05, seen.heaviest()
    assert seen.share("[jit]") < 0.02, seen.heaviest()
    assert target.finish() == ["done"]


def test_webassembly_is_not_harmed(adopt: Adopt) -> None:
    """Where the CPU has protection keys, its code has one: a handler may read it by permission."""
    target = adopt(Target(["node", "-e", WASM]))
    before = receipt.take(target.pid)
    seen = stacks(record(target.pid, 1.0, cpu_s=CPU_S))
    in_work = seen.where(lambda stack: "workForLong" in stack and stack[-1] == "[jit]")
    assert in_work.total > 0.9 * seen.total, seen.heaviest()
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish() == ["done"]
