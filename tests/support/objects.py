"""Small object files for the symbol tests, and what binutils says about them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from flametap.model import Module
from flametap.symbols.locate.open_file import OpenFile
from flametap.symbols.object.elf import ElfFile

TIMEOUT_S = 60  # for a tool on a machine under load


def compile_object(folder: Path, source: str, *flags: str, name: str = "program") -> Path:
    """Build one C (or, for ``name`` ending in "++", C++) source with gcc; return the output."""
    is_cpp = name.endswith("++")
    text = folder / f"{name}{'.cc' if is_cpp else '.c'}"
    text.write_text(source)
    output = folder / name
    compiler = "g++" if is_cpp else "gcc"
    run([compiler, str(text), "-o", str(output), "-Wl,--build-id=sha1", *flags])
    return output


def run(command: Sequence[str], text: str = "") -> str:
    """Run a tool that has to succeed; return its output."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def split_debug(program: Path, debug_file: Path) -> None:
    """What distributions do: debug information to a file of its own, the program stripped."""
    run(["objcopy", "--only-keep-debug", str(program), str(debug_file)])
    run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug_file}", str(program)])


def symbols(program: Path) -> dict[str, tuple[int, int]]:
    """Functions by name, from nm: (file_addr, size in bytes)."""
    found = {}
    for line in run(["nm", "-S", "--defined-only", str(program)]).splitlines():
        match = re.fullmatch(r"(\w+) (\w+) [tTwW] (\S+)", line)
        if match:
            found[match[3]] = (int(match[1], 16), int(match[2], 16))
    return found


def open_elf(path: Path) -> ElfFile:
    """Parses a file; its descriptor stays open as long as the process."""
    file = OpenFile(str(path))
    return ElfFile(file.read, file.size)


def module_of(path: Path, module_id: int = 1, build_id: str | None = None) -> Module:
    """A module for a file on disk, at load bias 0."""
    if build_id is None:
        build_id = open_elf(path).build_id
    return Module(module_id, str(path), 0, 0, 1 << 40, build_id)
