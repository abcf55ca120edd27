"""Build the agent's machine code (``machine_code.py``) from its C sources and assembly.

``setup.py`` calls this for each wheel and installation, tests and ``make dev`` after a change of
the sources; ``python -m flametap.agent.build`` does it by hand. The compiler is gcc, or the one
that ``CC`` names. The same sources and the same compiler give the same bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from . import source
from .machine_code import PAGE_BYTES, PLACE, UnusableError, checksum, read
from .stack_use import deepest_bytes

__all__ = ["FLAGS", "BuildError", "build"]

ARCH = Path(__file__).parent / "arch" / "x86_64"
LINKER_SCRIPT = ARCH / "machine_code.ld"
OLDEST_GCC = 10  # the first with -fcallgraph-info
FLAGS = (
    "-std=c11",
    "-O2",
    "-w",  # tests/agent_c is where warnings are errors
    "-DFLAMETAP_MACHINE_CODE",
    "-ffreestanding",
    "-fpie",
    "-fno-strict-aliasing",  # the target's memory is read as words, whatever it holds
    "-fno-tree-vectorize",  # the target's memory need not be aligned
    "-fno-tree-loop-distribute-patterns",  # loops of memory_functions.c would call themselves
    "-fno-inline-functions-called-once",  # what is inlined needs its stack on all ways
    "-fwrapv",
    "-march=x86-64",  # the target may run on another machine than the build
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
LINK_FLAGS = (
    *("-nostdlib", "-static", "-no-pie", "-Wl,--build-id=none"),
    "-Wl,--orphan-handling=error",  # a section that the linker script does not name would be lost
)
EXPORTED = ("agent_", "import_", "stub_", "host_")
HANDLER = "handle_signal_sigsafe"
ON_OWN_STACK = "function_compile_sigsafe"  # called by the handler, but on a stack of its own
# What no function's frame contains: a leaf's red zone, and arguments that are not in registers.
UNCOUNTED_STACK_BYTES = 128 + 64


class BuildError(Exception):
    """The machine code could not be built; the message says why."""


def build(path: Path = PLACE) -> None:
    """Compile the sources into a file, unless it holds what they would give.

    Raises:
        BuildError: there is no gcc, it is too old, or it refused; the file is as it was.
    """
    sources = _sources_digest()
    with contextlib.suppress(UnusableError):
        if read(path).sources == sources:
            return
    partial = path.with_suffix(f".{os.getpid()}")
    try:
        compiler = shlex.split(os.environ.get("CC", "")) or ["gcc"]
        words = _checked(compiler)
        with tempfile.TemporaryDirectory() as folder:
            code, symbols = _compiled(compiler, Path(folder))
        head = {
            "sources": sources,
            "checksum": checksum(code, symbols),
            "compiler": words,
            "symbols": symbols,
        }
        text = json.dumps(head).encode()
        partial.write_bytes(text + b" " * (-(len(text) + 1) % PAGE_BYTES) + b"\n" + code)
        partial.replace(path)
    except (OSError, ValueError) as error:
        raise BuildError(str(error)) from error
    finally:
        partial.unlink(missing_ok=True)


def _sources_digest() -> str:
    """Tell what the code is made from: the sources, and how they are compiled."""
    texts = [source(), LINKER_SCRIPT.read_text("utf-8"), *FLAGS, *LINK_FLAGS]
    for path in _assembly():
        texts += [path.name, path.read_text("utf-8")]
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _assembly() -> list[Path]:
    return sorted(ARCH.glob("*.S"))


def _checked(compiler: list[str]) -> str:
    """Return what the compiler calls itself; refuse one that cannot be used."""
    if os.uname().machine != "x86_64":
        raise BuildError("flametap is for Linux on x86-64")
    try:
        version = _run(*compiler, "-dumpversion").strip()
        words = _run(*compiler, "--version").partition("\n")[0]
    except FileNotFoundError:
        raise BuildError(f"there is no {compiler[0]} (apt install gcc)") from None
    if version.partition(".")[0].isdecimal() and int(version.partition(".")[0]) < OLDEST_GCC:
        wanted = f"{OLDEST_GCC} or newer is needed (apt install gcc)"
        raise BuildError(f"{compiler[0]} is version {version}, and {wanted}")
    return words


def _compiled(compiler: list[str], folder: Path) -> tuple[bytes, dict[str, int]]:
    # The linker script puts agent.o first. Names are relative, so that no path gets into the code.
    (folder / "agent.c").write_text(source(), "utf-8")
    _run(*compiler, *FLAGS, "-fcallgraph-info=su", "-c", "agent.c", folder=folder)
    _check_stack_use((folder / "agent.ci").read_text("utf-8"))
    objects = ["agent.o"]
    for path in _assembly():
        objects.append(f"assembly-{path.stem}.o")
        _run(*compiler, *FLAGS, "-c", "-o", objects[-1], str(path), folder=folder)
    code = _linked(compiler, folder, objects, 1 << 24)
    if code != _linked(compiler, folder, objects, 0):
        raise BuildError("the code depends on where it lies")
    symbols = {}
    for line in _run(
        "nm", "--defined-only", "--extern-only", "agent.elf", folder=folder
    ).splitlines():
        offset, _, name = line.split()
        if name.startswith(EXPORTED):
            symbols[name] = int(offset, 16)
    if not symbols:
        raise BuildError("nm finds no symbols")
    return code + bytes(-len(code) % PAGE_BYTES), dict(sorted(symbols.items()))


def _check_stack_use(graph: str) -> None:
    """Refuse code whose handler needs more stack than ``alternate_stack.c`` makes sure of."""
    for function, name in ((HANDLER, "CALLEES"), (ON_OWN_STACK, "FUNCTION")):
        limit = re.search(rf"^#define {name}_STACK_BYTES (\d+)", source(), re.MULTILINE)
        needed = deepest_bytes(graph, function) + UNCOUNTED_STACK_BYTES
        if limit is None or needed > int(limit[1]):
            raise BuildError(f"{function} needs {needed} bytes of stack")


def _linked(compiler: list[str], folder: Path, objects: list[str], start: int) -> bytes:
    """Link ``agent.elf`` as if it lay at ``start``; return its bytes there."""
    script = ("-Wl,-T", str(LINKER_SCRIPT), f"-Wl,--defsym=START={start}")
    _run(*compiler, *LINK_FLAGS, *script, "-o", "agent.elf", *objects, folder=folder)
    _run("objcopy", "-O", "binary", "-j", ".machine_code", "agent.elf", "agent.bin", folder=folder)
    return (folder / "agent.bin").read_bytes()


def _run(*command: str, folder: Path | None = None) -> str:
    words = os.environ | {"LC_ALL": "C"}
    done = subprocess.run(
        command, cwd=folder, env=words, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise BuildError(f"{command[0]} failed: {done.stderr.strip()[:2000]}")
    return done.stdout


if __name__ == "__main__":
    try:
        build()
    except BuildError as refused:
        sys.exit(f"the agent's machine code was not built: {refused}")
