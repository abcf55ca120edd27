"""Stacks of Ruby programs: as the interpreter itself sees them, without its help."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import receipt
from flametap.analysis.calltree import build
from flametap.analysis.frame_filter import FrameFilter, Language
from flametap.analysis.selection import Selection
from flametap.capture.live import Capture
from flametap.model import Clock, FrameKind, ManagedVerdict
from recording import capturing, complete_share, record
from running import Target, wait_until
from stacks import of_tree

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("ruby")]

Adopt = Callable[[Target], Target]
TARGETS = Path(__file__).parents[1] / "targets"
# Methods that are written in C: their frames are native.
IN_C = {
    *(
        "sleep",
        "each",
        "each_pair",
        "map",
        "times",
        "new",
        "initialize",
        "instance_eval",
        "sort_by",
        "eval",
    ),
    *(
        "resume",
        "call",
        "first",
        "next",
        "gsub",
        "catch",
        "class_eval",
        "send",
        ">",
        "select",
        "each_key",
    ),
    *("yield", "<<"),
}


CPU_S = 2.0
# Six standard errors of the largest share at CPU_S and 1 kHz; the interpreter's handling of its
# lock adds a little.
SHARE_ERROR = 0.05


class Frame(NamedTuple):
    """A frame of a Ruby method or block."""

    path: str
    line: int
    label: str


def ruby_stack(capture: Capture, thread_id: int) -> list[Frame]:
    """The one stack of a thread that waits, leaf first: its Ruby frames."""
    tree = build(
        capture.profile,
        capture.table,
        Clock.WALL,
        frozenset({thread_id}),
        frames=FrameFilter(Language.PYTHON),
    )
    frames: list[Frame] = []
    for node in range(1, len(tree.parent)):
        function = tree.functions[tree.function[node]]
        assert tree.parent[node] == node - 1, "the thread has more than one stack"
        if function.kind is FrameKind.RUBY:
            frames.append(Frame(function.file, int(tree.line[node]), function.name))
    return frames[::-1]


def without_c(frames: list[Frame]) -> list[Frame]:
    """A stack without the methods in C: Ruby shows those at the place of their caller."""
    return [
        each
        for each, caller in zip(frames, [*frames[1:], None], strict=True)
        if each.label not in IN_C or (caller and each[:2] != caller[:2])
    ]


def test_waiting_threads_have_the_frames_that_ruby_sees(adopt: Adopt) -> None:
    target = adopt(Target(["ruby", TARGETS / "ruby_stacks.rb"]))
    wait_until(lambda: len(target.lines) > 1, "the stacks")
    theirs = {
        int(tid): [Frame(*each) for each in frames]
        for tid, frames in json.loads(target.lines[1]).items()
    }
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(
            lambda: (
                sum(each.tid in theirs and each.wall_ns > 0 for each in capture.threads())
                == len(theirs)
            ),
            "a stack of each thread",
        )
        capture.stop()
        capture.finish_symbols(60)
        ours = {
            each.tid: ruby_stack(capture, each.thread_id)
            for each in capture.threads()
            if each.tid in theirs
        }
        managed = capture.profile.verdicts().managed
    assert ours.keys() == theirs.keys()
    for tid, frames in theirs.items():
        assert ours[tid] == without_c(frames), tid
    assert managed.keys() <= {ManagedVerdict.EXACT.name}
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_shares_are_those_that_the_program_measures(adopt: Adopt) -> None:
    target = adopt(Target(["ruby", TARGETS / "ruby_split.rb"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S)
    spent = {
        name: float(value)
        for name, value in (part.split("=") for part in target.finish()[-1].split())
    }
    shown = of_tree(capture.tree(Selection(Clock.CPU)))
    # A fiber has a stack of its own.
    seen = {
        name: shown.where(lambda stack, name=name: any(each.endswith(name) for each in stack)).total  # type: ignore[misc]
        for name in spent
    }
    total = sum(seen.values())
    assert total >= 0.9 * shown.total, shown.heaviest()  # the rest is the program's bookkeeping
    for name, seconds in spent.items():
        share = seconds / sum(spent.values())
        assert seen[name] / total == pytest.approx(share, abs=SHARE_ERROR), name
    # Blocks stand below those who called what calls them, and what a fiber runs in the fiber.
    in_sort = shown.where(lambda stack: "in_sort" in stack and "work" in stack)
    assert in_sort.share("block in in_sort") == 1.0
    in_fiber = shown.where(lambda stack: "block in in_fiber" in stack and "work" in stack)
    assert in_fiber.share("block (2 levels) in in_fiber") == 1.0
    managed = capture.profile.verdicts().managed
    bad = [ManagedVerdict.TORN.name, ManagedVerdict.MISPLACED.name, ManagedVerdict.DEPTH.name]
    assert sum(managed.get(name, 0) for name in bad) <= 0.002 * sum(managed.values()), managed
    assert sum(managed.values()) >= 0.98 * capture.profile.total_ns(Clock.CPU), managed
    assert complete_share(capture) > 0.995
