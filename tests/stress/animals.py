"""The table of the zoo: how each program of ``tests/zoo`` is built and started."""

from __future__ import annotations

from dataclasses import dataclass

_GCC = "gcc -std=gnu11 -O2 -fomit-frame-pointer -Wall -Wextra -Werror -pthread -o animal"


@dataclass(frozen=True)
class Animal:
    """One program in one runtime.

    ``build`` and ``run`` are command lines in the folder that holds a copy of ``source``; they are
    split like a shell's, but no shell runs them.
    """

    name: str
    about: str  # what of the runtime it shows
    needs: tuple[str, ...]  # names in tests/support/capabilities.py
    source: str
    run: str
    build: str = ""
    has_jit: bool = False  # it makes code while it runs
    own_threads: str = ""  # pattern for names of threads that the runtime starts and ends
    ignore: str = ""  # pattern for lines of harm that the program does to itself
    force: bool = False  # attach although the profiler would refuse
    matrix: bool = True  # left out of `make test`


ANIMALS: tuple[Animal, ...] = (
    Animal(
        "erlang",
        "100 Erlang processes whose stacks are in the heap",
        ("erlang",),
        "beam.erl",
        "erl -noinput -s beam main",
        build="erlc beam.erl",
        has_jit=True,
        matrix=False,
    ),
    Animal(
        "mono",
        "Mono with two threads, its collector, and null checks by SIGSEGV",
        ("mono",),
        "Mono.cs",
        "env MONO_GC_PARAMS=nursery-size=512k mono animal.exe",  # many collections
        build="mcs -out:animal.exe Mono.cs",
        has_jit=True,
        matrix=False,
    ),
    Animal(
        "sbcl",
        "SBCL with threads, its moving collector, and write barriers by SIGSEGV",
        ("sbcl",),
        "sbcl.lisp",
        "sbcl --script sbcl.lisp",
        has_jit=True,
        force=True,  # its core file of 40 MB is mapped: the attach takes seconds
        matrix=False,
    ),
    Animal(
        "ucontext-small",
        "C coroutines on stacks of 4 and 5 KiB from malloc",
        ("gcc",),
        "ucontext.c",
        "./animal 4096",
        build=f"{_GCC} ucontext.c",
        matrix=False,
    ),
    Animal(
        "ucontext-16k",
        "C coroutines on stacks of 16 KiB from malloc",
        ("gcc",),
        "ucontext.c",
        "./animal 16384",
        build=f"{_GCC} ucontext.c",
    ),
    Animal(
        "ucontext-64k",
        "C coroutines on stacks of 64 KiB from malloc",
        ("gcc",),
        "ucontext.c",
        "./animal 65536",
        build=f"{_GCC} ucontext.c",
    ),
    Animal(
        "blocked-segv",
        "Threads that live by SIGSEGV while the main thread blocks it",
        ("gcc",),
        "faults.c",
        "./animal SEGV",
        build=f"{_GCC} faults.c",
        matrix=False,
    ),
    Animal(
        "blocked-faults",
        "The same with SIGBUS, SIGFPE, SIGILL and SIGTRAP, too",
        ("gcc",),
        "faults.c",
        "./animal SEGV BUS FPE ILL TRAP",
        build=f"{_GCC} faults.c",
    ),
)
