"""Builds the agent's C with gcc, for tests: warnings are errors, sanitizers end the program.

The agent is one text (``flametap.agent.source``) that TinyCC compiles in the target. Here the same
text, or the part of it that a test is about, is followed by a driver: a C file with a ``main`` that
calls it. Each test runs a driver as a process of its own, so that a crash is a failed test with the
sanitizer's report, never the end of the test run.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

from flametap.agent import source

WARNINGS = (
    "-std=c11",
    "-D_GNU_SOURCE",
    "-fno-strict-aliasing",  # TinyCC takes every access as it stands
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Werror",
)
# A part of the agent does not call all of what it consists of.
PART = ("-Wno-unused-function",)
SANITIZERS = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
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
    driver: Path, names: tuple[str, ...], folder: Path, flags: tuple[str, ...] = SANITIZERS
) -> Path:
    """Build agent sources and a driver into a program.

    Args:
        driver: C file with ``main``; it sees all that the sources declare.
        names: the agent's files to put before it, in the order of ``C_SOURCES``.
        folder: where the joined text and the program go.
        flags: optimisation and sanitizers.

    Returns:
        the program.

    Raises:
        RuntimeError: gcc refused; the message is gcc's, with the lines of the single files.
    """
    text = f'{source(names)}#line 1 "{driver.name}"\n{driver.read_text("utf-8")}'
    joined = folder / f"joined_{driver.name}"
    joined.write_text(text, "utf-8")
    program = folder / driver.stem
    includes = f"-I{driver.parent}"
    command = ["gcc", *WARNINGS, *PART, *flags, includes, "-o", str(program), str(joined)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise RuntimeError(f"gcc refused {driver.name}:\n{built.stderr}")
    return program


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
