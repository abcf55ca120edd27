"""Check what program a target runs.

Not to be entered at all: what valgrind interprets, what is not 64-bit x86-64, and programs with
musl before 1.1.22. By Frida (each was tested with 17.26), also not:

static program        glibc: the attempt kills it; Go, musl: frozen until we exit
musl                  the agent does not load
ThreadSanitizer       its functions crash in threads that it does not know
lone malloc           threads of ours and the program's corrupt its memory: GNU Common Lisp dies
"""

from __future__ import annotations

import os
import re

from ..errors import CannotAttachError
from ..linux import executable, procfs
from ..linux.elf_headers import EM_X86_64
from .finding import Finding, Severity, Target

VALGRIND_TOOL_SUFFIXES = ("-amd64-linux", "-x86-linux")
VALGRIND_MAPPINGS = ("vgpreload_", "vgdb-pipe-shared-mem-vgdb-")
MUSL_KNOWN_THREADS = (1, 1, 22)
MUSL_BYTES_MAX = 4 << 20  # of libc.so, which has 0.6 MB, or of a static program


def check_program(name: str, target: Target) -> Finding:
    """Refuse programs that the agent cannot be in; see the module."""
    try:
        descriptor = procfs.open_program(target.pid, target.proc)
    except FileNotFoundError:
        raise CannotAttachError(
            f"{target.subject} has no program to attach to: it is exiting",
            "nothing is left to profile",
        ) from None
    try:
        found = executable.read_program(descriptor)
    finally:
        os.close(descriptor)
    if found is None:
        raise CannotAttachError(f"{target.subject} does not run an ELF program")
    _refuse_valgrind(target)
    _refuse_machine(found, target)
    if target.is_direct:
        _refuse_old_musl(found, target)
        return Finding(name, Severity.OK, "a 64-bit x86-64 program")
    _refuse_for_frida(found, target)
    if found.has_lone_malloc and target.status.threads == 1:
        return _lone_malloc(name, target)
    return Finding(name, Severity.OK, "a 64-bit program that uses glibc")


def _lone_malloc(name: str, target: Target) -> Finding:
    message = (
        f"{target.subject} has a malloc of its own and no threads; if it is not made for threads, "
        "as that of GNU Common Lisp, the agent's would corrupt the program's memory"
    )
    hint = "profile it with perf; if its malloc may be called by several threads at once: --force"
    return Finding.unless_forced(name, message, hint)


def _refuse_valgrind(target: Target) -> None:
    """Refuse a program that valgrind interprets: its threads run valgrind's code.

    The executable is then valgrind's tool (memcheck-amd64-linux). Valgrind preloads its own
    libraries into the program, and maps memory for its debugger server into every process.
    """
    tool = os.readlink(f"{target.proc}/{target.pid}/exe").removesuffix(" (deleted)")
    if tool.endswith(VALGRIND_TOOL_SUFFIXES) and any(
        mapping.name.startswith(VALGRIND_MAPPINGS) for mapping in target.mappings()
    ):
        raise CannotAttachError(
            f"{target.subject} is a program run by valgrind, which interprets its code; flametap "
            "can only attach to code that the processor runs itself",
            "run the program without valgrind, or profile it with valgrind --tool=callgrind",
        )


def _refuse_machine(found: executable.Program, target: Target) -> None:
    subject = target.subject
    if found.bits != 64 or found.machine != EM_X86_64:
        machine = executable.MACHINES.get(found.machine, f"ELF machine {found.machine}")
        raise CannotAttachError(
            f"{subject} is a {found.bits}-bit {machine} program; flametap attaches to 64-bit "
            "x86-64 programs",
            "profile a 64-bit build of it",
        )


def _refuse_old_musl(found: executable.Program, target: Target) -> None:
    """Refuse a musl whose setuid waits for every thread that /proc lists: it would hang.

    Since 1.1.22 it asks only those that it knows (musl e4235d70, 2019).
    """
    descriptor = -1
    try:
        if found.interpreter or found.is_go or found.has_glibc_note:
            loader = next((each for each in target.mappings() if "ld-musl" in each.path), None)
            if loader is None:
                return
            descriptor = os.open(f"{target.proc}/{target.pid}/root{loader.path}", os.O_RDONLY)
            version = _musl_version(os.pread(descriptor, MUSL_BYTES_MAX, 0))
            is_old = version is not None and version < MUSL_KNOWN_THREADS
        else:
            descriptor = procfs.open_program(target.pid, target.proc)
            text = os.pread(descriptor, MUSL_BYTES_MAX, 0)
            is_old = b"musl" in text and b"\0/proc/self/task\0" in text
    except OSError:
        return
    finally:
        if descriptor >= 0:
            os.close(descriptor)
    if is_old:
        raise CannotAttachError(
            f"{target.subject} uses musl before 1.1.22, whose setuid would wait for the agent's "
            "thread without end",
            "profile it on Alpine 3.10 or newer",
        )


def _musl_version(text: bytes) -> tuple[int, ...] | None:
    found = re.search(rb"\0(\d+)\.(\d+)\.(\d+)\0", text)
    return tuple(int(each) for each in found.groups()) if found else None


def _refuse_for_frida(found: executable.Program, target: Target) -> None:
    """Refuse a program into which Frida cannot load its agent."""
    subject = target.subject
    mapped = {mapping.name for mapping in target.mappings()}
    if found.has_thread_sanitizer or any(name.startswith("libtsan.so") for name in mapped):
        raise CannotAttachError(
            f"{subject} is built with ThreadSanitizer, which ends the program when it meets "
            "threads that it has not seen start, as the agent's",
            "profile a build without -fsanitize=thread",
        )
    if found.is_musl or any("ld-musl" in name for name in mapped):
        raise CannotAttachError(
            f"{subject} uses the musl C library; Frida's agent needs glibc",
            "profile a build against glibc (a debian image instead of alpine)",
        )
    # Decide by the mappings: the program may have been started as an argument of the loader.
    if any(name == "libc.so.6" or name.startswith("libc-2.") for name in mapped):
        return
    if not found.interpreter:
        remedy = {
            "Go": "build it with CGO_ENABLED=1 -ldflags '-linkmode=external', or use its pprof",
            "glibc": "link it without -static",
        }.get(found.static_kind, "link it dynamically against glibc")
        raise CannotAttachError(
            f"{subject} is statically linked ({found.static_kind}); attaching would "
            + ("kill it" if found.static_kind == "glibc" else "freeze it"),
            remedy,
        )
    raise CannotAttachError(
        f"{subject} has no glibc mapped; Frida's agent needs it",
        "if it has only just been started, try again",
    )
