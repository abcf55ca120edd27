"""How the targets are compiled. Each (source, variant) is built when first asked for, and kept
(``build_cache``).

The flags are part of the test: -O2 without frame pointers is what distributions ship and what
profilers get wrong.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import build_cache

SOURCES = Path(__file__).parent.parent / "targets"

_C = ["-std=gnu11", "-O2", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror", "-pthread"]
# No .eh_frame but that of the C runtime's few lines; with -g there is a .debug_frame instead.
_NO_EH_FRAME = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"]
_COMMANDS: dict[str, list[str]] = {
    "": ["gcc", *_C],
    "debug": ["gcc", *_C, "-g"],
    "lines": ["gcc", *_C, "-g", "-fno-optimize-sibling-calls"],
    "no-eh-frame-hdr": ["gcc", *_C, "-Wl,--no-eh-frame-hdr"],
    "debug-frame": ["gcc", *_C, *_NO_EH_FRAME, "-g"],
    "debug-frame-only": ["gcc", *_C, *_NO_EH_FRAME, "-g", "-Wl,--no-eh-frame-hdr"],
    "debug-frame-gz": ["gcc", *_C, *_NO_EH_FRAME, "-g", "-gz=zlib"],
    "no-frames-at-all": ["gcc", *_C, *_NO_EH_FRAME],
    "static": ["gcc", *_C, "-static"],
    "i386": ["gcc", *_C, "-m32"],
    "musl": ["musl-gcc", *_C],
    "exported": ["gcc", *_C, "-rdynamic"],
    "shared": ["gcc", *_C, "-shared", "-fPIC"],
    "shared-no-frames-at-all": ["gcc", *_C, *_NO_EH_FRAME, "-shared", "-fPIC"],
    "tsan": ["gcc", *_C, "-g", "-fsanitize=thread"],
    "musl-static": ["musl-gcc", *_C, "-static"],
}
_CXX = ["g++", "-std=c++17", "-O2", "-g", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror"]


class BuildError(Exception):
    """A compiler is missing or refused the source; the text says which and why."""


class Builder:
    """Compile targets. What could not be compiled once is not tried again."""

    def __init__(self) -> None:
        self._failed: dict[str, str] = {}

    def program(self, name: str, variant: str = "") -> Path:
        """The executable of ``name`` (without suffix), built if it is not there yet.

        Raises:
            BuildError: the compiler is missing or failed.
        """
        cxx = SOURCES / f"{name}.cpp"
        if cxx.exists():
            return self._built(name, cxx, [*_CXX, str(cxx), "-pthread"])
        source = SOURCES / f"{name}.c"
        output = f"{name}-{variant}" if variant else name
        return self._built(output, source, [*_COMMANDS[variant], str(source)])

    def java_class(self, name: str) -> Path:
        """The folder that holds ``name``.class."""
        source = SOURCES / f"{name}.java"
        compiler = ["javac", "--release", "11", str(source)]
        return self._made(f"java/{name}", [source], compiler, "-d", "")

    def _built(self, output: str, source: Path, command: list[str]) -> Path:
        inputs = [source, *sorted(SOURCES.glob("*.h"))]
        return self._made(f"targets/{output}", inputs, command, "-o", output) / output

    def _made(
        self, kind: str, inputs: list[Path], command: list[str], option: str, output: str
    ) -> Path:
        """The folder that ``command`` filled; ``option`` tells it the output there."""
        if kind in self._failed:
            raise BuildError(self._failed[kind])
        if shutil.which(command[0]) is None:
            self._failed[kind] = f"cannot build {kind}: {command[0]} is not installed"
            raise BuildError(self._failed[kind])

        def make(folder: Path) -> None:
            whole = [*command, option, str(folder / output)]
            done = subprocess.run(whole, capture_output=True, text=True, timeout=300)
            if done.returncode:
                self._failed[kind] = f"cannot build {kind}: {done.stderr}"
                raise BuildError(self._failed[kind])

        return build_cache.cached(kind, command, inputs, make)
