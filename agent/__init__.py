"""The agent's sources as package data: what runs inside the target.

Nothing here runs in the target by itself: ``agent.js`` is loaded there by Frida, which compiles the
joined C text. This module only finds and joins the files. It imports nothing of ours, does no I/O
on import and is safe to call from any thread.
"""

from __future__ import annotations

from importlib.resources import files

__all__ = ["C_SOURCES", "script", "source"]

C_SOURCES = (
    "abi.h",
    "rules.h",
    "atomics.h",
    "os_linux.h",
    "thread_slot.h",
    "agent.h",
    "permit.c",
    "cfi.h",
    "cfi_read.c",
    "cfi_rules.c",
    "cfi_program.c",
    "cfi.c",
    "ring.c",
    "rulecache.c",
    "window.c",
    "frame.c",
    "entry.c",
    "prologue.c",
    "guess.c",
    "unwind.c",
    "traces.c",
    "text.c",
    "modules.c",
    "inflate.c",
    "elffile.c",
    "rowtable.c",
    "gotable.c",
    "compile.c",
    "maps.c",
    "period.c",
    "intervals.c",
    "governor.c",
    "idle.c",
    "clocks.c",
    "timers.c",
    "samples.c",
    "threads.c",
    "hostfiles.c",
    "running.c",
    "alternate.c",
    "room.c",
    "sandbox.c",
    "callsite.c",
    "waits.c",
    "eintr.c",
    "handler.c",
    "parked.c",
    "queued.c",
    "instep.c",
    "collect.c",
    "unseen.c",
    "disposition.c",
    "drain.c",
    "deadman.c",
    "gaps.c",
    "sampler.c",
    "sampler_thread.c",
    "main.c",
)
"""All C files of the agent in the order in which they are joined: a file calls only what stands
before it."""


def source(names: tuple[str, ...] = C_SOURCES) -> str:
    """Join C files into the one text that Frida's CModule (TinyCC) and the tests' gcc compile.

    A local ``#include`` resolves to nothing in a CModule, hence one text. Each file is preceded by
    ``#line 1 "NAME"``, so that compiler errors and sanitizer reports name the file and line people
    edit.

    Args:
        names: files of this folder; the default is the whole agent, a part of it serves unit tests.

    Returns:
        C11 text, UTF-8 when written to a file.

    Raises:
        FileNotFoundError: a file is missing from the installation.
    """
    folder = files("flametap.agent")
    return "".join(f'#line 1 "{name}"\n{(folder / name).read_text("utf-8")}\n' for name in names)


def script() -> str:
    """The text of ``agent.js``, the script that Frida loads into the target.

    Raises:
        FileNotFoundError: the file is missing from the installation.
    """
    return (files("flametap.agent") / "agent.js").read_text("utf-8")
