"""Names of code that a runtime makes: node, CPython, as they write them down themselves.

Each target does three parts of its work in ``heavy`` and one in ``light``, by count.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import cli
import receipt
from flametap.capture.live import Capture
from flametap.model import Clock, Frame, FrameKind, SymbolSource
from flametap.symbols.jit import descriptors
from nightly import nightly
from objects import run
from recording import capturing, complete_share, stacks
from running import Target, wait_until
from targetbuild import SOURCES
from visitor import Visitor

pytestmark = pytest.mark.needs("attach")

Adopt = Callable[[Target], Target]
Require = Callable[[str], str]

NAMES_S = 120.0
ENOUGH_S = 60.0
ENOUGH_CPU_NS = 8e8
ENOUGH_SAMPLES = 400
HEAVY_SHARE = (0.55, 0.95)  # of 0.75: samples of a starved program come in clusters
# What is inlined has no frame of its own, and no name in a perf map.
# V8 leaves an empty log of its own in its working directory as well: that is the test's folder.
NODE = ["node", "--no-turbo-inlining"]
URL = r"(http://127\.0\.0\.1:\d+/\S+)"


@contextmanager
def unharmed(pid: int, own_threads: str = "") -> Iterator[None]:
    """Compares the no-harm receipts around the block."""
    before = receipt.take_at_rest(pid)
    yield
    found = receipt.harm_after_settling(pid, before, has_jit=True, own_threads=own_threads)
    assert found == []


@pytest.fixture
def maps() -> Iterator[list[Path]]:
    """Files that runtimes leave in /tmp, to be removed."""
    left: list[Path] = []
    yield left
    for path in left:
        path.unlink(missing_ok=True)


def record_work(pid: int) -> Capture:
    """Record until there is enough to tell shares from, however busy the machine is."""
    with capturing(pid) as capture:
        wait_until(
            lambda: (
                capture.profile.total_ns(Clock.CPU) > ENOUGH_CPU_NS
                and capture.status().samples > ENOUGH_SAMPLES
            ),
            "samples",
            ENOUGH_S,
        )
        capture.stop()
        capture.finish_symbols(NAMES_S)
        return capture


def jit_source(capture: Capture) -> SymbolSource:
    (found,) = [source for source in capture.status().symbols if source.module == "[jit]"]
    return found


def check_ratio(capture: Capture, prefix: str = "") -> None:
    """Complete stacks, nearly all below ``cycle``, heavy to light as 3 to 1."""
    seen = stacks(capture)
    assert complete_share(capture) >= 0.97, seen.heaviest()
    cycle, heavy, light = (f"{prefix}{name}" for name in ("cycle", "heavy", "light"))
    work = seen.where(lambda stack: heavy in stack or light in stack)
    # A runtime starts, compiles and collects garbage as well.
    assert work.total >= 0.6 * seen.total, seen.heaviest()
    assert HEAVY_SHARE[0] < work.share(heavy) < HEAVY_SHARE[1], seen.heaviest()
    assert work.share(cycle) >= 0.95, seen.heaviest()


def frames_named(capture: Capture, name: str) -> list[Frame]:
    """The frames of all addresses whose function has that name."""
    addresses = range(capture.profile.n_addresses)
    return [f for i in addresses for f in capture.names.frames(i) if f.function.name == name]


@pytest.mark.needs("gcc")
@pytest.mark.parametrize("link", [("-rdynamic", "-s"), ()], ids=["exported", "hidden"])
def test_names_of_code_that_is_registered_for_debuggers(
    adopt: Adopt, link: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As LLVM registers it: nobody has to ask for names. A compiler is larger than this program."""
    monkeypatch.setattr(descriptors, "MIN_OPENED_BYTES", 0)
    program, code = tmp_path / "registered", tmp_path / "code.o"
    run(["gcc", "-O2", *link, str(SOURCES / "registered.c"), "-o", str(program)])
    run(["gcc", "-O2", "-c", str(SOURCES / "registered_code.c"), "-o", str(code)])
    target = adopt(Target([program, code]))
    with unharmed(target.pid):
        capture = record_work(target.pid)
    check_ratio(capture)
    assert jit_source(capture).source == "registered for debuggers"
    assert target.finish() == ["done"]


@pytest.mark.needs("node")
@pytest.mark.parametrize("flags", [[], *nightly(["--interpreted-frames-native-stack"])])
def test_names_of_node_are_those_of_its_perf_map(
    adopt: Adopt, maps: list[Path], flags: list[str], tmp_path: Path
) -> None:
    options = ["--perf-basic-prof", *flags]
    target = adopt(Target([*NODE, *options, SOURCES / "ratio.js"], cwd=tmp_path))
    maps.append(Path(f"/tmp/perf-{target.pid}.map"))
    with unharmed(target.pid):
        capture = record_work(target.pid)
    check_ratio(capture)
    written = maps[0].read_text("utf-8", "replace")
    functions = {f for f in capture.names.functions if f.kind is FrameKind.JAVASCRIPT}
    compiled = {f.name for f in functions} & {"heavy", "light", "cycle"}
    assert compiled == {"heavy", "light", "cycle"}
    for function in functions:
        if function.name in compiled or (flags and not function.name.startswith("(")):
            assert f"{function.full_name}\n" in written, function
    assert target.finish() == ["done"]


@pytest.mark.needs("node")
def test_node_with_a_jitdump(adopt: Adopt, tmp_path: Path) -> None:
    """With the lines of the source, in a file that has no name any more."""
    options = ["--perf-prof", "--perf-prof-delete-file"]
    target = adopt(Target([*NODE, *options, SOURCES / "ratio.js"], cwd=tmp_path))
    capture = record_work(target.pid)
    check_ratio(capture)
    lines = {frame.line for frame in frames_named(capture, "heavy")}
    assert lines <= {7, 8, 9, 10}
    assert 9 in lines
    assert target.finish() == ["done"]


@pytest.mark.nightly
@pytest.mark.needs("node", "unshare")
def test_node_in_namespaces_of_its_own(adopt: Adopt, tmp_path: Path) -> None:
    """Its pid and its /tmp are not ours, as in a container."""
    shell = ["unshare", "--pid", "--mount-proc", "--fork", "--kill-child", "sh", "-c"]
    command = 'mount -t tmpfs none /tmp && exec node --no-turbo-inlining --perf-basic-prof -e "$0"'
    script = (SOURCES / "ratio.js").read_text()
    target = adopt(Target([*shell, command, script], cwd=tmp_path))
    (pid,) = Path(f"/proc/{target.pid}/task/{target.pid}/children").read_text().split()
    with unharmed(int(pid)):
        capture = record_work(int(pid))
    check_ratio(capture)
    assert not Path(f"/tmp/perf-{pid}.map").exists()
    assert {frame.function.file for frame in frames_named(capture, "heavy")} == {"[eval]"}
    assert target.finish() == ["done"]


@pytest.mark.needs("node")
def test_node_needs_no_map(adopt: Adopt) -> None:
    """Its functions are read from its memory."""
    target = adopt(Target([*NODE, SOURCES / "ratio.js"]))
    with unharmed(target.pid):
        capture = record_work(target.pid)
    check_ratio(capture)
    (v8,) = [source for source in capture.status().symbols if source.source == "javascript"]
    assert v8.module.startswith("V8 ")
    assert v8.has_lines
    frames = frames_named(capture, "heavy")
    assert {frame.function.file for frame in frames} == {str(SOURCES / "ratio.js")}
    assert {frame.function.kind for frame in frames} == {FrameKind.JAVASCRIPT}
    lines = {frame.line for frame in frames}
    # 0: code that was dropped before it could be read is still known to be of this function.
    assert lines <= {0, 7, 8, 9, 10}
    assert 9 in lines
    assert target.finish() == ["done"]


@pytest.mark.parametrize(
    ("version", "option", "source"),
    [("3.12", "perf", "perf map"), *nightly(("3.13", "perf_jit", "jitdump"))],
)
def test_cpython_with_trampolines(
    adopt: Adopt,
    require_capability: Require,
    maps: list[Path],
    version: str,
    option: str,
    source: str,
) -> None:
    python = require_capability(f"python{version}")
    target = adopt(Target([python, "-X", option, SOURCES / "ratio.py"]))
    maps += [Path(f"/tmp/perf-{target.pid}.map"), Path(f"/tmp/jit-{target.pid}.dump")]
    with unharmed(target.pid):
        capture = record_work(target.pid)
    check_ratio(capture)
    assert jit_source(capture).source == source
    for frame in frames_named(capture, "heavy"):
        assert frame.function.file == str(SOURCES / "ratio.py")
        assert frame.function.full_name == ""
    assert target.finish() == ["done"]


@pytest.mark.nightly
@pytest.mark.needs("node")
def test_live_page_is_sent_the_names(adopt: Adopt, maps: list[Path], tmp_path: Path) -> None:
    """Over HTTP, as the browser gets them."""
    target = adopt(Target([*NODE, "--perf-basic-prof", SOURCES / "ratio.js"], cwd=tmp_path))
    maps.append(Path(f"/tmp/perf-{target.pid}.map"))
    with cli.Running(str(tmp_path), "live", target.pid, "--no-open") as run:
        answer = Visitor(run.wait_for(URL)).ask

        def has_names() -> bool:
            revision = answer("status")["status"]["revision"]
            functions = answer(f"view?clock=cpu&width=1200&revision={revision}")["functions"]
            kinds = dict(zip(functions["name"], functions["kind"], strict=True))
            return kinds.get("heavy") == kinds.get("light") == kinds.get("cycle") == "javascript"

        wait_until(has_names, "names in the page's data", NAMES_S)
        assert '"V8 ' in json.dumps(answer("status"))
        run.interrupt()
        run.result().assert_saved()
    assert target.finish() == ["done"]
