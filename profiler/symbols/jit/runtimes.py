"""Find the runtime that generates code in a process, and how to make it write names."""

from __future__ import annotations

import re
from typing import NamedTuple


class Runtime(NamedTuple):
    """A runtime that compiles while it runs."""

    name: str
    remedy: str  # how to make it write a perf map or jitdump; "{pid}" is the target
    keeps_no_map: bool = False  # it writes a map only on request, and does not extend it later


# Patterns of the file name of a mapped module; the first match is used.
_RUNTIMES = [
    (
        re.compile(r"libjvm\.so"),
        Runtime(
            "Java",
            "run: jcmd {pid} Compiler.perfmap (JDK 17 or newer), again for later code",
            keeps_no_map=True,
        ),
    ),
    (
        re.compile(r"node(js)?|libnode\.so.*"),
        Runtime(
            "Node.js",
            "start node with --perf-basic-prof (--interpreted-frames-native-stack for "
            "interpreted functions)",
        ),
    ),
    (
        # A program in a single file has no libcoreclr.so, but memory for code by this name.
        re.compile(r"libcoreclr\.so|memfd:doublemapper"),
        Runtime(
            ".NET",
            "add --enable-perf-map (.NET 8 or newer), or start it with DOTNET_PerfMapEnabled=1 in "
            "its environment",
        ),
    ),
    (
        re.compile(r"chrome|chromium|electron|deno|headless_shell"),
        Runtime("V8", "start it with V8's flag --perf-basic-prof (--js-flags=…, --v8-flags=…)"),
    ),
    (
        re.compile(r"beam\.smp"),
        Runtime("Erlang", "start the emulator with +JPperf true"),
    ),
    (
        re.compile(r"(lib)?ruby.*"),
        Runtime("Ruby", "start Ruby with --yjit-perf"),
    ),
    (
        re.compile(r"libmono.*\.so.*|mono(-sgen)?"),
        Runtime("Mono", "start it with MONO_ENV_OPTIONS=--jitmap in its environment"),
    ),
    (
        re.compile(r"libjulia.*\.so.*"),
        Runtime("Julia", "start Julia with ENABLE_JITPROFILING=1 in its environment"),
    ),
    (
        re.compile(r"llvmjit\.so"),
        Runtime("PostgreSQL", "set jit_profiling_support = on before its sessions start"),
    ),
    (
        re.compile(r"opcache\.so"),
        Runtime("PHP", "set opcache.jit_debug = 0x10 in php.ini"),
    ),
]


class RuntimeFinder:
    """Finds the runtime among a target's modules, as they are added."""

    def __init__(self) -> None:
        self._rank = len(_RUNTIMES)

    def see(self, module_name: str) -> None:
        """Check the file name of a module."""
        for rank, (pattern, _) in enumerate(_RUNTIMES[: self._rank]):
            if pattern.fullmatch(module_name):
                self._rank = rank
                return

    @property
    def runtime(self) -> Runtime | None:
        """The runtime, None if none was found."""
        return _RUNTIMES[self._rank][1] if self._rank < len(_RUNTIMES) else None


def precompiled_hint(module_name: str) -> str:
    """Return a hint for a file of code that a runtime has precompiled; ``""`` for others."""
    if not module_name.endswith(".dll"):
        return ""
    return "; .NET's own: DOTNET_ReadyToRun=0 in its environment has it compile and name that, too"
