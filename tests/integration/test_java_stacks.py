"""Stacks of Java programs: as the virtual machine itself sees them (jstack), without its help."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import receipt
from flametap.capture.live import Capture
from flametap.model import MANAGED, Clock, FrameKind, ManagedVerdict
from flametap.tree.calltree import build
from flametap.wire.abi import JAVA_INLINED
from nightly import nightly
from recording import capturing, complete_share, record, stacks
from running import Target, wait_until
from targetbuild import Builder

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("java")]

Adopt = Callable[[Target], Target]
Require = Callable[[str], str]

# jstack leaves out the frames of hidden classes otherwise.
HIDDEN = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+ShowHiddenFrames")
THREADS, DEPTH, WARM_UP = 30, 24, 3000
CPU_S = 2.0
OWN_THREADS = r"(GC Thread|G1|C1 Comp|C2 Comp|VM |Attach|Signal|Common).*"
MOST_FIB = 20  # calls of fib in each other, for fib(20)
HEAVY_SHARE = (
    0.59,
    0.91,
)  # of 0.75, by four standard errors of a sample each 4 ms of the least time
LEAST_WORK_NS = 5e8
COLLECTORS = ("Serial", "Parallel", "G1", "Z", "Shenandoah")
STRESS_S = 60.0
LEAST_LOADED = 500  # classes, in that time: it is thousands
COLOURS = ("Red", "Green", "Blue")  # of Churn.java


class Frame(NamedTuple):
    """A method, and its place: "Name.java:12", or what jstack says where it has no line."""

    name: str
    place: str


def plain(name: str) -> str:
    """A method's name without module, loader, and the numbers of generated classes."""
    name = re.sub(r"^(?:[\w.]*@?[\w.+-]*/)*(?=[^/]*$|[^/]*/0x)", "", name)
    name = re.sub(r"[/+.]0x[0-9a-f]+", "", name)
    name = re.sub(r"(\$\$Lambda)\$\d+", r"\1", name)
    return re.sub(r"((?:Method|Constructor)Accessor)\d+", r"\1", name)


def of_jstack(java: str, pid: int) -> dict[str, list[Frame]]:
    """Stacks by the names of their threads, leaf first, as jstack prints them."""
    beside = Path(java).with_name("jstack")  # a runtime may have none
    command = [str(beside) if beside.exists() else "jstack", str(pid)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    # Older ones forget a line's end.
    text = re.sub(r"(?<=\S)\tat ", "\n\tat ", answer.stdout)
    found: dict[str, list[Frame]] = {}
    for part in text.split("\n\n"):
        name = re.match(r'\s*"(parked-\d+)"', part)
        if name:
            frames = re.findall(r"^\tat (\S+)\((.*)\)$", part, re.MULTILINE)
            found[name[1]] = [
                Frame(plain(method), place.rpartition("/")[2]) for method, place in frames
            ]
    return found


def of_capture(capture: Capture, thread_id: int) -> list[Frame]:
    """The one stack of a thread that sleeps, leaf first: its Java frames."""
    tree = build(capture.profile, capture.names, Clock.WALL, frozenset({thread_id}))
    frames: list[Frame] = []
    for node in range(1, len(tree.parent)):
        function = tree.functions[tree.function[node]]
        assert tree.parent[node] == node - 1, "the thread has more than one stack"
        if function.kind is FrameKind.JAVA:
            frames.append(Frame(plain(function.name), f"{function.file}:{int(tree.line[node])}"))
    return frames[::-1]


def differences(ours: list[Frame], theirs: list[Frame]) -> list[tuple[Frame, Frame]]:
    """Pairs of frames that are not the same."""
    return [
        (our, their)
        for our, their in zip(ours, theirs, strict=False)
        if our.name != their.name or (":" in their.place and our.place != their.place)
    ]


@pytest.mark.needs("jstack")
@pytest.mark.parametrize(
    ("version", "options"),
    [
        ("java", ()),
        *nightly(
            ("java", ("-Xint",)),
            ("java", ("-Xcomp",)),
            ("java", ("-XX:TieredStopAtLevel=1",)),
            ("java", ("-XX:-TieredCompilation", "-XX:+PreserveFramePointer")),
            ("java11", ()),
            ("java21", ()),
            ("java25", ()),
            ("java25", ("-Xcomp", "-XX:+UseSerialGC", "-XX:-UseCompressedOops")),
        ),
    ],
)
def test_sleeping_threads_have_the_frames_that_jstack_sees(
    adopt: Adopt,
    builder: Builder,
    require_capability: Require,
    version: str,
    options: tuple[str, ...],
) -> None:
    java = "java" if version == "java" else require_capability(version)
    classes = builder.java_class("Stacks")
    arguments = ["Stacks", str(THREADS), str(DEPTH), str(WARM_UP)]
    target = adopt(Target([java, "-Xmx256m", *HIDDEN, *options, "-cp", str(classes), *arguments]))
    theirs = of_jstack(java, target.pid)
    assert len(theirs) == THREADS
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(
            lambda: (
                sum(
                    each.name in theirs and each.wall_ns > 0
                    for each in capture.profile.thread_infos()
                )
                == THREADS
            ),
            "a stack of each thread",
        )
        capture.stop()
        capture.finish_symbols(60)
        ours = {
            each.name: of_capture(capture, each.thread_id)
            for each in capture.profile.thread_infos()
            if each.name in theirs
        }
        verdicts = capture.status().managed_verdict_cpu_ns
    assert ours.keys() == theirs.keys()
    for name, frames in theirs.items():
        assert differences(ours[name], frames) == [], name
        assert len(ours[name]) == len(frames), name
    assert ManagedVerdict.TORN.name not in verdicts or verdicts[ManagedVerdict.TORN.name] == 0
    assert (
        receipt.harm_after_settling(target.pid, before, has_jit=True, own_threads=OWN_THREADS) == []
    )
    assert target.finish() == ["done"]


def is_possible(stack: tuple[str, ...]) -> bool:
    """Whether a stack of Busy.compute, root first, is one that the program can have."""
    below = stack[stack.index("Busy.compute") + 1 :]
    methods = [name for name in below if name.startswith(("Busy.", "java."))]
    return all(name == "Busy.fib" for name in methods) and len(methods) <= MOST_FIB


@pytest.mark.parametrize("options", [(), *nightly((("-Xint",),), (("-Xcomp",),))])
def test_running_threads_are_walked_to_their_roots(
    adopt: Adopt, builder: Builder, options: tuple[str, ...]
) -> None:
    target = adopt(Target(["java", *options, "-cp", str(builder.java_class("Busy")), "Busy"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S)
    assert complete_share(capture) > 0.995
    seen = stacks(capture)
    in_java = seen.where(lambda stack: "Busy.compute" in stack or "Busy.allocate" in stack)
    assert in_java.total > 0.5 * seen.total, seen.heaviest()
    rootless = [stack for stack in in_java.weights if "start_thread" not in stack[:2]]
    assert rootless == []
    wrong = [
        stack for stack in in_java.weights if "Busy.compute" in stack and not is_possible(stack)
    ]
    assert wrong == []
    assert capture.status().managed_verdict_cpu_ns.get("TORN", 0) < 0.01 * in_java.total
    assert target.finish() == ["done busy"]


def apart(*methods: str) -> list[str]:
    """Return options that give each method code of its own. What is inlined is told apart only by
    the places that the compiler describes, and those are few."""
    return [
        "-XX:CompileCommand=quiet",
        *(f"-XX:CompileCommand=dontinline,{method}" for method in methods),
    ]


def test_methods_have_their_shares_names_and_lines(adopt: Adopt, builder: Builder) -> None:
    classes = builder.java_class("Ratio")
    options = apart("Ratio.heavy", "Ratio.light")
    target = adopt(Target(["java", *options, "-cp", str(classes), "Ratio"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S)
    seen = stacks(capture)
    in_work = seen.where(lambda stack: "Ratio.cycle" in stack)
    assert in_work.total > LEAST_WORK_NS, seen.heaviest()
    assert HEAVY_SHARE[0] < in_work.share("Ratio.heavy") < HEAVY_SHARE[1], seen.heaviest()
    tree = build(capture.profile, capture.names, Clock.CPU)
    heavy = next(f for f in tree.functions if f.name == "Ratio.heavy")
    assert (heavy.kind, heavy.file, heavy.full_name) == (
        FrameKind.JAVA,
        "Ratio.java",
        "Ratio.heavy(int)",
    )
    assert target.finish() == ["done"]


def test_arguments_pushed_for_a_stub_do_not_hide_the_caller(adopt: Adopt, builder: Builder) -> None:
    classes = builder.java_class("Subtypes")
    options = ("-XX:TieredStopAtLevel=1", *apart("Subtypes.ask"))
    target = adopt(Target(["java", *options, "-cp", str(classes), "Subtypes"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S / 4)
    seen = stacks(capture)
    in_stub = seen.where(lambda stack: stack[-1] == "[slow_subtype_check Runtime1 stub]")
    assert in_stub.total > 0.1 * seen.total, seen.heaviest()
    # Until its interpreter is found, interpreted methods have no names.
    callers = ("Subtypes$$Lambda.run", "Subtypes.work", "Subtypes.ask")
    assert {stack[-3:-1] for stack in in_stub.weights} == {callers[1:]}, in_stub.heaviest()
    named = in_stub.where(lambda stack: stack[-4:-1] == callers)
    assert named.total > 0.8 * in_stub.total, in_stub.heaviest()
    assert capture.status().managed_verdict_cpu_ns.get("TORN", 0) < 0.01 * seen.total
    assert target.finish() == ["done"]


@pytest.mark.parametrize("inlines", [True, False])
def test_inlined_methods_are_left_out_on_request(
    adopt: Adopt, builder: Builder, inlines: bool
) -> None:
    classes = builder.java_class("Ratio")
    options = ["-XX:CompileCommand=quiet", "-XX:CompileCommand=inline,Ratio.*"]
    target = adopt(Target(["java", *options, "-cp", str(classes), "Ratio"]))
    with capturing(target.pid, inlines=inlines) as capture:
        wait_until(
            lambda: capture.profile.total_ns(Clock.CPU) > CPU_S / 4 * 1e9, "some CPU time", 60
        )
        capture.stop()
        capture.finish_symbols(60)
        seen = stacks(capture)
        frames = [capture.profile.locate(at)[0] for at in range(capture.profile.n_addresses)]
    in_work = seen.where(lambda stack: "Ratio.work" in stack)
    assert in_work.total > 0.5 * seen.total, seen.heaviest()
    is_inlined = [each.position & JAVA_INLINED for each in frames if each.module_id == MANAGED]
    assert any(is_inlined) == inlines, seen.heaviest()
    assert target.finish() == ["done"]


@pytest.mark.parametrize("version", ["java", *nightly("java11", "java21", "java25")])
def test_routines_of_the_virtual_machine_have_names(
    adopt: Adopt, builder: Builder, require_capability: Require, version: str
) -> None:
    java = "java" if version == "java" else require_capability(version)
    classes = builder.java_class("Copies")
    target = adopt(Target([java, "-XX:CompileCommand=quiet", "-cp", str(classes), "Copies"]))
    seen = stacks(record(target.pid, 1.0, cpu_s=CPU_S / 4))
    in_work = seen.where(lambda stack: "Copies.work" in stack)
    stubs = {stack[-1] for stack in in_work.weights if stack[-1].startswith("[")}
    # With AVX-512, some have another name: [jbyte_disjoint_arraycopy_avx3].
    assert any("jbyte_disjoint_arraycopy" in name for name in stubs), seen.heaviest()
    assert stubs & {"[libmLog]", "[dlog]"}, seen.heaviest()
    assert not any("routines of the virtual machine" in name for name in stubs), seen.heaviest()


def test_threads_in_code_without_unwind_information_keep_their_java_frames(
    adopt: Adopt, builder: Builder
) -> None:
    library = builder.program("bare_jni", "shared-no-frames-at-all")
    classes = builder.java_class("Bare")
    target = adopt(Target(["java", "-cp", str(classes), "Bare", str(library)]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S / 4)
    for clock, inner, methods in (
        (Clock.CPU, "spin", ("Bare.working", "Bare.work")),
        (Clock.WALL, "Java_Bare_sleep", ("Bare.sleeping", "Bare.sleep")),
    ):
        seen = stacks(capture, clock)
        in_c = {stack: weight for stack, weight in seen.weights.items() if inner in stack}
        assert sum(in_c.values()) > 0.25e9, seen.heaviest()
        assert [stack for stack in in_c if stack[2:6][-2:] != methods] == []
    assert target.finish() == ["done"]


@pytest.mark.parametrize("version", ["java25", *nightly("java21")])
def test_virtual_threads_lead_to_their_carriers(
    adopt: Adopt, builder: Builder, require_capability: Require, version: str
) -> None:
    classes = builder.java_class("Mounted")
    target = adopt(Target([require_capability(version), "-cp", str(classes), "Mounted"]))
    capture = record(target.pid, 1.0, cpu_s=CPU_S / 4)
    seen = stacks(capture)
    mounted = seen.where(lambda stack: "[unmounted frames]" in stack and "Mounted.work" in stack)
    assert mounted.total > 0.5 * seen.total, seen.heaviest()
    for stack in mounted.weights:
        at = stack.index("[unmounted frames]")
        assert stack[1] == "start_thread", stack
        assert stack[at - 1] == "jdk.internal.vm.Continuation.run", stack
        assert all(name.startswith("Mounted.") for name in stack[at + 1 :]), stack
    assert capture.status().verdict_cpu_ns.get("GUESSED", 0) < 0.01 * seen.total
    assert capture.status().managed_verdict_cpu_ns.get("TORN", 0) < 0.01 * seen.total
    assert target.finish() == ["done"]


def wrong_colours(stack: tuple[str, ...]) -> bool:
    """Whether a stack of Churn has a method of a class that its caller does not use, root first."""
    of_class = {name.partition(".")[0] for name in stack if name.startswith("Churn$")}
    callers = {f"Churn.{colour.lower()}" for colour in COLOURS} & set(stack)
    used = {f"Churn${name.removeprefix('Churn.').capitalize()}" for name in callers}
    return not of_class & {f"Churn${colour}" for colour in COLOURS} <= used


@pytest.mark.parametrize("collector", nightly(*COLLECTORS))
def test_collectors_and_classes_that_come_and_go_do_no_harm(
    adopt: Adopt, builder: Builder, collector: str
) -> None:
    options = [f"-XX:+Use{collector}GC", "-Xmx32m", "-XX:MaxMetaspaceSize=32m"]
    options += ["-XX:+UnlockExperimentalVMOptions", "-XX:ReservedCodeCacheSize=16m"]
    target = adopt(Target(["java", *options, "-cp", str(builder.java_class("Churn")), "Churn"]))
    capture = record(target.pid, STRESS_S)
    seen = stacks(capture)
    coloured = seen.where(lambda stack: any(name.startswith("Churn$") for name in stack))
    assert coloured.total > 0.05 * seen.total, seen.heaviest()
    assert [stack for stack in coloured.weights if wrong_colours(stack)] == []
    assert complete_share(capture) > 0.999
    (report,) = target.finish()
    assert int(report.removeprefix("loaded ")) > LEAST_LOADED, report
    assert target.errors == []
