"""A line for ``-v``: how the functions of an interpreted or JIT-compiled program are shown."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable

from ..linux import procfs

_OLD_PYTHON = re.compile(r"(?:libpython|python)([23]\.\d+)(?:[dmu]*\.so.*)?")
# Runtime → how its functions are shown without a perf map.
_SHOWN = {
    "Java": "compiled methods are [jit], interpreted ones the JVM's own functions",
    "Node.js": "compiled functions are [jit], interpreted ones node's own functions",
    "Python": "Python functions appear as the interpreter's C functions",
    "Ruby": "Ruby methods appear as the interpreter's C functions, compiled ones as [jit]",
}


def interpreter_line(pid: int, proc: str = procfs.PROC) -> str:
    """Describe how a Python, Java, node or Ruby process is shown. Return ``""`` for other processes
    and where /proc cannot be read.
    """
    try:
        names = {mapping.name for mapping in procfs.read_mappings(pid, proc)}
        own_pid = procfs.read_status(pid, proc).own_pid
    except OSError:
        return ""
    has_map = False
    with contextlib.suppress(OSError):
        has_map = os.path.exists(f"{proc}/{pid}/root/tmp/perf-{own_pid}.map")
    return shown_of(names, pid, has_map)


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
        if runtime.name == "Python":
            remedy += ', or have it call sys.activate_stack_trampoline("perf")'
        return f"{runtime.name}: {_SHOWN[runtime.name]}; for more, {remedy}"
    for module in modules:
        if match := _OLD_PYTHON.fullmatch(module):
            return f"Python {match[1]}: {_SHOWN['Python']}; from Python 3.12 on, -X perf names them"
    return ""
