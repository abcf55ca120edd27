"""Build the agent's C with gcc, for tests: warnings are errors, sanitizers end the program.

The agent is one text (``flametap.agent.source``); gcc makes its machine code of it. Here the same
text, or the part of it that a test is about, is followed by a driver: a C file with a ``main`` that
calls it. Each test runs a driver as a process of its own, so that a crash is a failed test with the
sanitizer's report, never the end of the test run.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import build_cache
from flametap.agent import source

TESTS = Path(__file__).resolve().parents[1]
WARNINGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-fno-strict-aliasing",  # the target's memory is read as words, whatever it holds
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
)
# A part of the agent does not call all of what it consists of.
PART = ("-Wno-unused-function",)
# Of the whole agent gcc needs three times as long with -O1.
SANITIZERS = ("-O0", "-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
QUICK = ("-O1",)
CFI_SOURCES = (
    "unwind/rules.h",
    "platform/atomics.h",
    "unwind/cfi.h",
    "unwind/cfi_read.c",
    "unwind/cfi_rules.c",
    "unwind/cfi_program.c",
    "unwind/cfi.c",
)
"""The part that compiles .eh_frame; it needs nothing of the rest."""


def build_driver(
    driver: Path, names: tuple[str, ...], flags: tuple[str, ...] = SANITIZERS, variant: str = ""
) -> Path:
    """Build agent sources and a driver into a program.

    Args:
        driver: C file with ``main``; it sees all that the sources declare.
        names: the agent's files to put before it, in the order of ``C_SOURCES``.
        flags: optimisation and sanitizers.
        variant: where a driver is built with several flags, a word for these.

    Returns:
        the program.

    Raises:
        RuntimeError: gcc refused; the message is gcc's, with the lines of the single files.
    """
    text = f'{source(names)}#line 1 "{driver.name}"\n{driver.read_text("utf-8")}'
    command = ["gcc", *WARNINGS, *PART, *flags, f"-I{driver.parent}"]
    return compiled(f"agent_c/{variant}/{driver.stem}", text, command)


def compiled(kind: str, text: str, command: Sequence[str]) -> Path:
    """Compile one text into a program, or take the one that is kept (``build_cache``).

    Args:
        kind: where it is kept; the last part is the program's name.
        text: C; it may include headers of the tests' own folders.
        command: the compiler and its options.

    Returns:
        the program.

    Raises:
        RuntimeError: the compiler refused; the message is its own.
    """
    name = kind.rpartition("/")[2]

    def make(folder: Path) -> None:
        (folder / f"{name}.c").write_text(text, "utf-8")
        whole = [*command, "-o", name, f"{name}.c"]
        done = subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{command[0]} refused {name}:\n{done.stderr}")

    inputs: list[Path | bytes] = [text.encode(), *sorted(TESTS.glob("*/*.h"))]
    return build_cache.cached(kind, command, inputs, make) / name


def run_driver(program: Path, *arguments: str | int | Path, timeout_s: float = 120) -> bytes:
    """Run a driver and return its stdout.

    Raises:
        RuntimeError: it ended with an error; the message has its stderr, a sanitizer's report for
            example.
        subprocess.TimeoutExpired: it does not end.
    """
    command = [str(program), *map(str, arguments)]
    ran = subprocess.run(command, capture_output=True, timeout=timeout_s, check=False)
    if ran.returncode:
        report = ran.stderr.decode("utf-8", "replace")
        raise RuntimeError(f"{program.name} ended with {ran.returncode}:\n{report}")
    return ran.stdout
