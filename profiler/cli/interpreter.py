"""Say which interpreters a process has, and how the functions of their programs are shown."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..linux import procfs

HOTSPOT, V8, RUBY = "HotSpot", "V8", "Ruby"  # FoundInterpreter.runtime

if TYPE_CHECKING:
    # The readers of symbols take 0.1 s to import, so they are imported only if they are used.
    from ..symbols.interpreters.found import FoundInterpreter

# A process that serves pages of its memory itself may make us wait for ever.
LOOK_TIMEOUT_S = 1.0
LOOK_LIMIT_S = 20.0
LOOK_INTERVAL_S = 0.05
_OTHER_PYTHON = re.compile(r"(?:libpython|python)(2\.\d+|3\.\d+)(?:[dmut]*\.so.*)?")
# Programs and libraries without any way to have their functions named.
_NAMELESS = [
    (
        re.compile(r"libpypy(3\.\d+|2\.\d+)?-c\.so|pypy(?:3(?:\.\d+)?|2)?(?:-c)?"),
        "PyPy: Python functions are not shown: they are [jit] and the interpreter's own",
    ),
    (
        re.compile(r"bun(?:\.exe)?"),
        "Bun: JavaScript functions are not shown: they are [jit] and the engine's own",
    ),
    (
        re.compile(r"libperl\.so[\d.]*|perl(?:5[\d.]*)?"),
        "Perl: subroutines appear as the interpreter's C functions",
    ),
    (
        re.compile(r"(?:lib)?php(?:-fpm|-cgi)?[\d.]*(?:\.so)?"),
        "PHP: PHP functions appear as the interpreter's C functions",
    ),
    (
        re.compile(r"libluajit-[\d.]*so[\d.]*|luajit[\w.-]*"),
        "LuaJIT: Lua functions are not shown: they are [jit] and the interpreter's own",
    ),
    (
        re.compile(r"liblua[\d.]*(?:-c\+\+)?\.so[\d.]*|lua(?:5[\d.]*)?"),
        "Lua: Lua functions appear as the interpreter's C functions",
    ),
]
# Runtime → how its functions are shown, if nothing names them.
_SHOWN = {
    "Java": "compiled methods are [jit], interpreted ones the JVM's own functions",
    "Node.js": "compiled functions are [jit], interpreted ones node's own functions",
    "Ruby": "Ruby methods appear as the interpreter's C functions, compiled ones as [jit]",
    ".NET": "compiled methods are [jit]",
    "V8": "compiled functions are [jit], interpreted ones the engine's own functions",
    "Erlang": "compiled functions are [jit]",
    "Mono": "compiled methods are [jit]",
    "Julia": "compiled functions are [jit]",
}


class Interpreters(NamedTuple):
    """Those of a process, and whether all of it was looked at."""

    found: Sequence[FoundInterpreter]
    is_over: bool = True


# Those whose functions may be shown without any map.
_LOOKED_FOR = ("Python", "Java", "Node.js", "V8", "Ruby")


def find_interpreters(
    pid: int,
    proc: str = procfs.PROC,
    without: set[tuple[str, int]] | None = None,
    limit_s: float = LOOK_LIMIT_S,
) -> Interpreters:
    """Look for the interpreters of a process, unless it lets us wait.

    Args:
        pid: the process.
        proc: where procfs is mounted.
        without: files that hold none, see ``search.Interpreters``.
        limit_s: how long we wait where it gets no CPU.
    """
    from ..symbols.interpreters import search

    interpreters = search.Interpreters(pid, proc, without)
    thread = threading.Thread(target=interpreters.look, name="flametap-look", daemon=True)
    thread.start()
    end_s = time.monotonic() + limit_s
    ran_s = time.monotonic()
    # One that waits for a CPU, on a busy machine, is not stuck.
    while time.monotonic() < min(end_s, ran_s + LOOK_TIMEOUT_S):
        thread.join(LOOK_INTERVAL_S)
        if not thread.is_alive():
            return Interpreters(interpreters.found)
        with contextlib.suppress(OSError):
            if procfs.read_task_state(os.getpid(), thread.native_id or 0) == "R":
                ran_s = time.monotonic()
    return Interpreters(interpreters.found, is_over=False)


def shown(found: FoundInterpreter) -> str:
    """Say in one line how the functions of an interpreter are shown."""
    if found.recipe is not None:
        more = found.note.removeprefix(found.version)
        if found.runtime == HOTSPOT:
            return f"{found.version}: Java methods are shown{more}"
        if found.runtime == V8:
            return f"{found.version}: JavaScript functions are shown{more}"
        if found.runtime == RUBY:
            return f"{found.version}: Ruby methods are shown{more}"
        return f"{found.version}: Python functions are shown" + more.replace(": ", "; ", 1)
    return found.note or f"{found.version}: it has not run anything yet"


def interpreter_lines(
    pid: int, proc: str = procfs.PROC, looked: Interpreters | None = None
) -> list[str]:
    """Describe how the functions of an interpreted program are shown, one line for each.

    Return none for other processes, and where /proc cannot be read.

    Args:
        pid: the process.
        proc: where procfs is mounted.
        looked: its interpreters, if they are known.
    """
    found, is_over = find_interpreters(pid, proc) if looked is None else looked
    lines = [shown(each) for each in found]
    try:
        names = {mapping.name for mapping in procfs.read_mappings(pid, proc)}
        own_pid = procfs.read_status(pid, proc).own_pid
    except OSError:
        return lines
    has_map = False
    with contextlib.suppress(OSError):
        has_map = os.path.exists(f"{proc}/{pid}/root/tmp/perf-{own_pid}.map")
    other = shown_of(names, pid, has_map)
    runtimes = {each.runtime for each in found}
    # One that has not run anything yet has no note, and nothing else is to be said of it.
    shown_runtimes = {each.runtime for each in found if each.recipe is not None or not each.note}
    is_said = (
        (other.startswith("Python") and bool(lines))
        or (other.startswith("Java") and HOTSPOT in runtimes)
        or (other.startswith("Ruby") and RUBY in shown_runtimes)
        or (other.startswith(("Node.js", "V8")) and V8 in shown_runtimes)
    )
    if not other or is_said:
        return lines
    name = other.partition(":")[0]
    if not is_over and name.startswith(_LOOKED_FOR):
        return [*lines, f"{name}: whether its functions are shown is not known yet"]
    return [*lines, other]


def shown_of(modules: Iterable[str], pid: int, has_map: bool) -> str:
    """Describe it from the file names of the mappings and whether a perf map exists."""
    from ..symbols.jit.runtimes import RuntimeFinder

    modules = sorted(modules)
    finder = RuntimeFinder()
    for module in modules:
        finder.see(module)
    runtime = finder.runtime
    if runtime is not None and runtime.name in _SHOWN:
        if has_map and not runtime.keeps_no_map:
            return f"{runtime.name}: its perf map names its functions"
        remedy = runtime.remedy.format(pid=pid)
        return f"{runtime.name}: {_SHOWN[runtime.name]}; for more, {remedy}"
    for module in modules:
        if match := _OTHER_PYTHON.fullmatch(module):
            return f"Python {match[1]}: Python functions appear as the interpreter's C functions"
    for pattern, says in _NAMELESS:
        if any(pattern.fullmatch(module) for module in modules):
            return says
    return ""
