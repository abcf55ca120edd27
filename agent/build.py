"""Build the agent's machine code (``machine_code.py``), when flametap is installed.

``setup.py`` calls this; ``python -m flametap.agent.build`` builds it again. The compiler is gcc, or
the one that ``CC`` names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import source
from .machine_code import (
    FLAGS,
    LINKER_SCRIPT,
    PLACE,
    UnusableError,
    code_digest,
    read,
    sources_digest,
)
from .stack_use import deepest_bytes

__all__ = ["BuildError", "build"]

PAGE_BYTES = 4096
HANDLER = "handle_signal_sigsafe"
# What no function's frame contains: a leaf's red zone, and arguments that are not in registers.
UNCOUNTED_STACK_BYTES = 128 + 64


class BuildError(Exception):
    """The machine code could not be built; the message says why."""


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
            "sources": sources_digest(),
            "code": code_digest(code, symbols),
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


if __name__ == "__main__":
    try:
        build()
    except BuildError as refused:
        sys.exit(f"the agent is compiled in each target: {refused}")
