"""Stacks of Ruby programs: as the interpreter itself sees them, without its help."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import receipt
from flametap.analysis.views import views_of
from flametap.capture.live import Capture
from flametap.linux.maps import read_maps
from flametap.linux.process_memory import ProcessMemory
from flametap.model import Clock, FrameKind, ManagedVerdict
from flametap.symbols.interpreters.ruby import recipes
from flametap.symbols.interpreters.ruby.layout import layout_of
from flametap.symbols.interpreters.ruby.stripped import find_loop, find_machine
from flametap.symbols.locate.loaded_symbols import LoadedElf
from flametap.symbols.locate.mapped_files import mapped_files
from flametap.symbols.object.elf import from_bytes
from flametap.tree.calltree import build
from flametap.tree.frame_filter import FrameFilter, Language
from flametap.tree.selection import Selection
from nightly import nightly
from recording import capturing, complete_share, record
from running import Target, wait_until
from stacks import of_tree

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("ruby")]

YJIT = "ruby3.3-yjit"
Adopt = Callable[[Target], Target]
TARGETS = Path(__file__).parents[1] / "targets"
# Methods and the classes that have them, as they are shown.
OWNERS = {
    *("Object#deep", "Object#park", "Shape#initialize", "Shape#area", "Shape.scaled"),
    *("Shape#method_missing", "Shape#<=>", "Outer::Mixed#mixed", "Outer::Inner.single"),
    *("Outer::Inner#hidden", "Set#each", "Kernel#tap", "Object#evaluated"),
    *(
        "Array#each",
        "Array#map",
        "Integer#times",
        "Hash#each_pair",
        "Hash#each_key",
        "Kernel#sleep",
    ),
    *("BasicObject#instance_eval", "Kernel#eval", "Enumerable#sort_by", "Class#new", "String#gsub"),
    *("Kernel#catch", "Comparable#>", "Enumerator#each", "Enumerator::Generator#each"),
}
CPU_S = 1.5
# Five standard errors of the largest share at CPU_S and 1 kHz; the interpreter's handling of its
# lock adds a little.
SHARE_ERROR = 0.05


class Frame(NamedTuple):
    """A frame of a Ruby method or block. A method in C is where its caller is."""

    path: str | None
    line: int
    label: str


class Seen(NamedTuple):
    """A stack, leaf first: as Ruby has it, and the names as they are shown."""

    frames: list[Frame]
    names: list[str]


def ruby_stack(capture: Capture, thread_id: int) -> Seen:
    """The one stack of a thread that waits: its Ruby frames."""
    tree = build(
        capture.profile,
        capture.names,
        Clock.WALL,
        frozenset({thread_id}),
        frames=FrameFilter(Language.PYTHON),
    )
    frames: list[Frame] = []
    names: list[str] = []
    for node in range(1, len(tree.parent)):
        function = tree.functions[tree.function[node]]
        assert tree.parent[node] == node - 1, "the thread has more than one stack"
        if function.kind is not FrameKind.RUBY:
            continue
        names.append(function.name)
        path, line = function.file, int(tree.line[node])
        if not path:
            path, line = (frames[-1].path, frames[-1].line) if frames else (None, 0)
        # Before 3.4, Ruby's labels have no classes.
        label = re.sub(
            r"^((?:[a-z]+ (?:\(\d+ levels\) )?in )*)[A-Z][\w:]*[#.](?=.)", r"\1", names[-1]
        )
        frames.append(Frame(path, line, label))
    return Seen(frames[::-1], names)


@pytest.fixture(params=["ruby", *nightly("ruby3.3", YJIT)])
def ruby(request: pytest.FixtureRequest, require_capability: Callable[[str], str]) -> list[str]:
    """A Ruby: Debian's, which is stripped, or another with its symbols, or that with YJIT."""
    path = require_capability(request.param)
    return [path, "--yjit", "--yjit-call-threshold=2"] if request.param == YJIT else [path]


def test_waiting_threads_have_the_frames_that_ruby_sees(adopt: Adopt, ruby: list[str]) -> None:
    target = adopt(Target([*ruby, TARGETS / "ruby_stacks.rb"]))
    wait_until(lambda: len(target.lines) > 1, "the stacks")
    theirs = {
        int(tid): [Frame(*each) for each in frames]
        for tid, frames in json.loads(target.lines[1]).items()
    }
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(
            lambda: (
                sum(
                    each.tid in theirs and each.wall_ns > 0
                    for each in capture.profile.thread_infos()
                )
                == len(theirs)
            ),
            "a stack of each thread",
        )
        capture.stop()
        capture.finish_symbols(60)
        ours = {
            each.tid: ruby_stack(capture, each.thread_id)
            for each in capture.profile.thread_infos()
            if each.tid in theirs
        }
        managed = capture.profile.verdicts().managed
    assert ours.keys() == theirs.keys()
    for tid, frames in theirs.items():
        assert ours[tid].frames == frames, tid
    shown = {name.rpartition(" in ")[2] for seen in ours.values() for name in seen.names}
    assert shown >= OWNERS, OWNERS - shown
    assert managed.keys() <= {ManagedVerdict.EXACT.name}
    assert receipt.harm_after_settling(target.pid, before) == []
    target.finish()


def test_shares_are_those_that_the_program_measures(adopt: Adopt, ruby: list[str]) -> None:
    target = adopt(Target([*ruby, TARGETS / "ruby_split.rb"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S)
    spent = {
        name: float(value)
        for name, value in (part.split("=") for part in target.finish()[-1].split())
    }
    shown = of_tree(views_of(capture.recording).tree(Selection(Clock.CPU)))
    # A fiber has a stack of its own.
    seen = {
        name: shown.where(lambda stack, name=name: any(each.endswith(name) for each in stack)).total  # type: ignore[misc]
        for name in spent
    }
    total = sum(seen.values())
    assert total >= 0.8 * shown.total, shown.heaviest()  # the rest is the program's bookkeeping
    for name, seconds in spent.items():
        share = seconds / sum(spent.values())
        assert seen[name] / total == pytest.approx(share, abs=SHARE_ERROR), name
    # Blocks stand below those who called what calls them, and what a fiber runs in the fiber.
    in_sort = shown.where(lambda stack: "Object#in_sort" in stack and "Object#work" in stack)
    assert in_sort.share("block in Object#in_sort") == 1.0
    in_fiber = shown.where(
        lambda stack: "block in Object#in_fiber" in stack and "Object#work" in stack
    )
    assert in_fiber.share("block (2 levels) in Object#in_fiber") == 1.0
    managed = capture.profile.verdicts().managed
    bad = [ManagedVerdict.TORN.name, ManagedVerdict.MISPLACED.name, ManagedVerdict.DEPTH.name]
    assert sum(managed.get(name, 0) for name in bad) <= 0.002 * sum(managed.values()), managed
    assert sum(managed.values()) >= 0.98 * capture.profile.total_ns(Clock.CPU), managed
    # In a fiber YJIT's code has no frames of its own to be told by: the native stack ends there.
    assert complete_share(capture) > (0.8 if "--yjit" in ruby else 0.995)


@pytest.mark.needs("ruby3.3")
@pytest.mark.nightly
def test_in_a_stripped_file_the_same_is_found(
    adopt: Adopt, require_capability: Callable[[str], str]
) -> None:
    target = adopt(Target([require_capability("ruby3.3"), TARGETS / "ruby_split.rb"]))
    (library,) = Path(require_capability("ruby3.3")).parents[1].glob("lib/libruby.so.3.3.*")
    mapped = mapped_files(read_maps(f"/proc/{target.pid}"))
    (file,) = [each for each in mapped if Path(each.path).name == library.name]
    layout = layout_of((3, 3))
    assert layout is not None
    opened = from_bytes(library.read_bytes())
    with ProcessMemory(f"/proc/{target.pid}") as memory:
        elf = LoadedElf(memory, file.start)
        known = recipes.locate(memory, elf, opened)
        assert known.machine is not None
        assert find_machine(memory, elf, layout) == known.machine
        assert find_loop(memory, elf, opened) == known.loop
    target.finish()
