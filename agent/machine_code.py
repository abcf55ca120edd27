"""The agent as machine code: built where flametap is installed, placed as it is into the target.

gcc makes code that needs half the time of what TinyCC makes in the target, and the target has
nothing to compile. Without gcc 10 or newer at the installation (``CC`` names another) there is no
machine code; then agent.js has the sources compiled by TinyCC.

The code is one position-independent piece without relocations, globals or libc. It begins with
pointers to what it uses from outside (``platform/imports.h``), which agent.js fills in before it
makes the code read-only. The file holds one line of JSON, then the code.

``setup.py`` builds it. A change of the sources makes it stale, so that it is not used: ``python -m
flametap.agent.machine_code`` builds it again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import source
from .stack_use import deepest_bytes

__all__ = ["BuildError", "MachineCode", "UnusableError", "build", "installed", "read"]

FOLDER = Path(__file__).parent
PLACE = FOLDER / "machine_code.bin"
LINKER_SCRIPT = FOLDER / "arch" / "x86_64" / "machine_code.ld"
PAGE_BYTES = 4096
HANDLER = "handle_signal_sigsafe"
# What no function's frame contains: a leaf's red zone, and arguments that are not in registers.
UNCOUNTED_STACK_BYTES = 128 + 64
FLAGS = (
    "-std=c11",
    "-O2",
    "-w",  # tests/agent_c is where warnings are errors
    "-DFLAMETAP_MACHINE_CODE",
    "-ffreestanding",
    "-fpie",
    "-fno-strict-aliasing",  # TinyCC takes every access as it stands
    "-fno-tree-vectorize",  # the target's memory need not be aligned
    "-fno-tree-loop-distribute-patterns",  # loops of memory_functions.c would call themselves
    "-fno-inline-functions-called-once",  # what is inlined needs its stack on all ways
    "-fwrapv",
    "-march=x86-64",  # the target may run on another machine than the installation
    "-mtune=generic",
    "-mno-avx",
    "-fno-lto",
    # What some distributions switch on, and what needs libc, the thread's own storage or tables.
    "-fno-stack-protector",
    "-fno-stack-check",
    "-fno-stack-clash-protection",
    "-fcf-protection=none",
    "-fno-asynchronous-unwind-tables",
    "-U_FORTIFY_SOURCE",
)


class BuildError(Exception):
    """The machine code could not be built; the message says why."""


class UnusableError(Exception):
    """There is no machine code that can be used; the message says why."""


@dataclass(frozen=True, slots=True)
class MachineCode:
    """Code for the target.

    Attributes:
        code: whole pages.
        symbols: functions (``agent_…``) and pointers to fill in (``import_…``): name → offset in
            bytes from the start of the code.
        compiler: what built it, in words.
    """

    code: bytes
    symbols: Mapping[str, int]
    compiler: str


def installed() -> MachineCode | None:
    """Return the installation's machine code; None if there is none that can be used."""
    try:
        return read(PLACE)
    except UnusableError:
        return None


def read(path: Path) -> MachineCode:
    """Read machine code from a file that ``build`` has written.

    Raises:
        UnusableError: there is no such file, it is damaged, or it was made from other sources.
    """
    if platform.machine() != "x86_64":
        raise UnusableError("the agent is for x86-64")
    try:
        head, _, code = path.read_bytes().partition(b"\n")
        made = json.loads(head)
        is_of_sources = made["sources"] == _sources_digest()
        is_whole = made["code"] == _digest(code, made["symbols"])
        found = MachineCode(code, made["symbols"], made["compiler"])
    except FileNotFoundError:
        raise UnusableError("there is no machine code") from None
    except OSError as error:
        raise UnusableError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UnusableError(f"{path} is damaged") from None
    if not is_of_sources:
        raise UnusableError("the machine code is of other sources")
    if not is_whole:
        raise UnusableError(f"{path} is damaged")
    return found


def build(path: Path = PLACE) -> None:
    """Compile the sources into a file, unless it holds what they would give.

    Raises:
        BuildError: there is no gcc, or it refused; the file is as it was.
    """
    with contextlib.suppress(UnusableError):
        read(path)
        return
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["gcc"]
        if shutil.which(compiler[0]) is None:
            raise BuildError(f"there is no {compiler[0]} (apt install gcc)")
        with tempfile.TemporaryDirectory() as folder:
            code, symbols = _compiled(compiler, Path(folder))
        head = {
            "sources": _sources_digest(),
            "code": _digest(code, symbols),
            "compiler": _run(*compiler, "--version").partition("\n")[0],
            "symbols": symbols,
        }
        partial.write_bytes(json.dumps(head).encode() + b"\n" + code)
        partial.replace(path)
    except (OSError, ValueError) as error:
        raise BuildError(str(error)) from error
    finally:
        partial.unlink(missing_ok=True)


def _compiled(compiler: list[str], folder: Path) -> tuple[bytes, dict[str, int]]:
    text, compiled = folder / "agent.c", folder / "agent.o"
    text.write_text(source(), "utf-8")
    _run(*compiler, *FLAGS, "-fcallgraph-info=su", "-c", "-o", str(compiled), str(text))
    _check_stack_use(compiled.with_suffix(".ci").read_text("utf-8"))
    linked, code = _linked(compiler, compiled, 0)
    _, code_elsewhere = _linked(compiler, compiled, 1 << 24)
    if code != code_elsewhere:
        raise BuildError("the code depends on where it lies")
    symbols = {}
    for line in _run("nm", "--defined-only", str(linked)).splitlines():
        offset, _, name = line.split()
        if name.startswith(("agent_", "import_")):
            symbols[name] = int(offset, 16)
    if not symbols:
        raise BuildError("nm finds no symbols")
    return code + bytes(-len(code) % PAGE_BYTES), symbols


def _check_stack_use(graph: str) -> None:
    """Refuse code whose handler needs more stack than ``alternate_stack.c`` makes sure of."""
    limit = re.search(r"^#define CALLEES_STACK_BYTES (\d+)", source(), re.MULTILINE)
    needed = deepest_bytes(graph, HANDLER) + UNCOUNTED_STACK_BYTES
    if limit is None or needed > int(limit[1]):
        raise BuildError(f"the handler needs {needed} bytes of stack")


def _linked(compiler: list[str], compiled: Path, start: int) -> tuple[Path, bytes]:
    linked = compiled.with_suffix(f".{start:x}.elf")
    _run(
        *compiler,
        *("-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none", f"-Wl,--defsym=START={start}"),
        *("-Wl,-T", str(LINKER_SCRIPT), "-o", str(linked), str(compiled)),
    )
    code = linked.with_suffix(".bin")
    _run("objcopy", "-O", "binary", "-j", ".machine_code", str(linked), str(code))
    return linked, code.read_bytes()


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"{command[0]} failed: {done.stderr.strip()[:2000]}")
    return done.stdout


def _sources_digest() -> str:
    """Tell what the code is made from: the sources, and how they are compiled."""
    text = "\n".join((source(), LINKER_SCRIPT.read_text("utf-8"), *FLAGS))
    return hashlib.sha256(text.encode()).hexdigest()


def _digest(code: bytes, symbols: Mapping[str, int]) -> str:
    return hashlib.sha256(code + json.dumps(symbols, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    try:
        build()
    except BuildError as refused:
        sys.exit(f"the agent is compiled in each target: {refused}")
