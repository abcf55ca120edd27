"""How the targets are compiled. Each (source, variant) is built once a session, when first asked
for.

The flags are part of the test: -O2 without frame pointers is what distributions ship and what
profilers get wrong.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

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
    "shared": ["gcc", *_C, "-shared", "-fPIC"],
    "musl-static": ["musl-gcc", *_C, "-static"],
}
_CXX = ["g++", "-std=c++17", "-O2", "-g", "-fomit-frame-pointer", "-Wall", "-Wextra", "-Werror"]


class BuildError(Exception):
    """A compiler is missing or refused the source; the text says which and why."""


class Builder:
    """Compiles targets into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._failed: dict[str, str] = {}

    def program(self, name: str, variant: str = "") -> Path:
        """The executable of ``name`` (without suffix), built if it is not there yet.

        Raises:
            BuildError: the compiler is missing or failed.
        """
        output = self._folder / (f"{name}-{variant}" if variant else name)
        if output.exists():
            return output
        cxx = SOURCES / f"{name}.cpp"
        if cxx.exists():
            return self._run([*_CXX, str(cxx), "-pthread"], output)
        return self._run([*_COMMANDS[variant], str(SOURCES / f"{name}.c")], output)

    def java_class(self, name: str) -> Path:
        """The folder that holds ``name``.class."""
        if not (self._folder / f"{name}.class").exists():
            self._check(["javac", "-d", str(self._folder), str(SOURCES / f"{name}.java")], name)
        return self._folder

    def _run(self, command: list[str], output: Path) -> Path:
        self._check([*command, "-o", str(output)], output.name)
        return output

    def _check(self, command: list[str], name: str) -> None:
        if name not in self._failed:
            if shutil.which(command[0]) is None:
                self._failed[name] = f"{command[0]} is not installed"
            else:
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                self._failed[name] = done.stderr if done.returncode else ""
        if self._failed[name]:
            raise BuildError(f"cannot build target {name}: {self._failed[name]}")
