"""How the targets are compiled. Each (source, variant) is built when first asked for, and kept
(``build_cache``).

The flags are part of the test: -O2 without frame pointers is what distributions ship and what
profilers get wrong.
"""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Sequence
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
    "frame-pointers": ["gcc", *_C, "-fno-omit-frame-pointer"],
    "shared": ["gcc", *_C, "-shared", "-fPIC"],
    "shared-no-frames-at-all": ["gcc", *_C, *_NO_EH_FRAME, "-shared", "-fPIC"],
    "tsan": ["gcc", *_C, "-g", "-fsanitize=thread"],
    "musl-static": ["musl-gcc", *_C, "-static"],
}
# Go's variants: what `go build` is told. The C compiler is needed for -race and cgo.
_GO_COMMANDS: dict[str, list[str]] = {
    "static": ["CGO_ENABLED=0"],
    "pie": ["CGO_ENABLED=0", "-buildmode=pie"],
    "race": ["CGO_ENABLED=1", "-race"],
    "cgo": ["CGO_ENABLED=1", "-ldflags=-linkmode=external"],
}
# No download of anything, and one cache for all.
_GO_ENVIRONMENT = ["GOPROXY=off", "GOTOOLCHAIN=local", "GO111MODULE=off", "GOFLAGS="]
_CXX = ["g++", "-std=c++17", "-O2", "-g", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror"]


BUILT_S = 600.0  # Go compiles its whole library for a new variant


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

    def go_program(self, name: str, variant: str, compiler: str) -> Path:
        """The executable of ``name``.go.

        Args:
            name: of the source, without suffix.
            variant: a key of ``_GO_COMMANDS``.
            compiler: the path of a ``go``; of several, each has programs of its own.

        Raises:
            BuildError: the compiler failed.
        """
        source = SOURCES / f"{name}.go"
        told = _GO_COMMANDS[variant]
        environment = [each for each in told if each[0] != "-"]
        flags = [each for each in told if each[0] == "-"]
        cache = f"GOCACHE={build_cache.FOLDER / 'go-cache'}"
        command = ["env", *_GO_ENVIRONMENT, cache, *environment, compiler, "build", *flags]
        # A folder for each compiler, as one entry of each kind is kept.
        kind = f"targets/{name}-go-{variant}-{zlib.crc32(compiler.encode()):08x}"
        version = subprocess.run([compiler, "version"], capture_output=True, check=False).stdout
        folder = self._made(kind, [source, version], command, "-o", name, str(source))
        return folder / name

    def java_class(self, name: str) -> Path:
        """The folder that holds ``name``.class."""
        source = SOURCES / f"{name}.java"
        compiler = ["javac", "--release", "11", str(source)]
        return self._made(f"java/{name}", [source], compiler, "-d", "")

    def _built(self, output: str, source: Path, command: list[str]) -> Path:
        inputs = [source, *sorted(SOURCES.glob("*.h"))]
        return self._made(f"targets/{output}", inputs, command, "-o", output) / output

    def _made(
        self,
        kind: str,
        inputs: Sequence[Path | bytes],
        command: list[str],
        option: str,
        output: str,
        *last: str,
    ) -> Path:
        """The folder that ``command`` filled; ``option`` tells it the output there, ``last`` comes
        after that."""
        if kind in self._failed:
            raise BuildError(self._failed[kind])
        if shutil.which(command[0]) is None:
            self._failed[kind] = f"cannot build {kind}: {command[0]} is not installed"
            raise BuildError(self._failed[kind])

        def make(folder: Path) -> None:
            whole = [*command, option, str(folder / output), *last]
            done = subprocess.run(whole, capture_output=True, text=True, timeout=BUILT_S)
            if done.returncode:
                self._failed[kind] = f"cannot build {kind}: {done.stderr}"
                raise BuildError(self._failed[kind])

        return build_cache.cached(kind, command, inputs, make)
