"""The table of the zoo: how each program of ``tests/zoo`` is built and started. Here are those that
are compiled before they run; ``hosted`` has those that a virtual machine or an interpreter runs."""

from __future__ import annotations

from dataclasses import dataclass

# At any moment a thread may be in a handler of its own, or just before it.
_IN_HANDLERS = r"Sig(Blk|Pnd) was"
_C = "gcc -std=gnu11 -O2 -fomit-frame-pointer -Wall -Wextra -Werror -pthread -o animal"
_CXX = "g++ -O2 -fomit-frame-pointer -Wall -Wextra -Werror -pthread -o animal"


@dataclass(frozen=True)
class Animal:
    """One program in one runtime.

    ``build`` and ``run`` are command lines in the folder that holds a copy of ``source``; they are
    split like a shell's, but no shell runs them.
    """

    name: str
    about: str  # what of the runtime it shows
    needs: str  # a name in tests/support/capabilities.py
    source: str
    run: str
    build: str = ""
    has_jit: bool = False  # it makes code while it runs
    own_threads: str = ""  # pattern for names of threads that the runtime starts and ends
    ignore: str = ""  # pattern for lines of harm that the program does to itself
    errors: str = ""  # pattern for lines on standard error that it writes without us, too
    force: bool = False  # attach although the profiler would refuse


COMPILED: tuple[Animal, ...] = (
    Animal(
        "ucontext-small",
        "C coroutines on stacks of 4 and 5 KiB from malloc",
        "gcc",
        "ucontext.c",
        "./animal 4096",
        f"{_C} ucontext.c",
    ),
    Animal(
        "blocked-segv",
        "Threads that live by SIGSEGV while the main thread blocks it",
        "gcc",
        "faults.c",
        "./animal SEGV",
        f"{_C} faults.c",
        ignore=_IN_HANDLERS,
    ),
    Animal(
        "ucontext-16k",
        "C coroutines on stacks of 16 KiB from malloc",
        "gcc",
        "ucontext.c",
        "./animal 16384",
        f"{_C} ucontext.c",
    ),
    Animal(
        "ucontext-64k",
        "C coroutines on stacks of 64 KiB from malloc",
        "gcc",
        "ucontext.c",
        "./animal 65536",
        f"{_C} ucontext.c",
    ),
    Animal(
        "blocked-faults",
        "Blocked-segv with SIGBUS, SIGFPE, SIGILL and SIGTRAP, too",
        "gcc",
        "faults.c",
        "./animal SEGV BUS FPE ILL TRAP",
        f"{_C} faults.c",
        ignore=_IN_HANDLERS,
    ),
    Animal(
        "pth",
        "GNU Pth, threads in user space on stacks of 16 KiB",
        "pth",
        "pth.c",
        "./animal",
        f"{_C} pth.c -lpth",
    ),
    Animal(
        "libgc",
        "Boehm's collector, which stops two threads by signals",
        "libgc",
        "collected.c",
        "./animal",
        f"{_C} collected.c -lgc",
        ignore=_IN_HANDLERS,
    ),
    Animal(
        "boost-fixed",
        "Boost fibers on stacks of 8 KiB from malloc",
        "boost-context",
        "boost_context.cpp",
        "./animal fixed",
        f"{_CXX} boost_context.cpp -lboost_context",
    ),
    Animal(
        "boost-protected",
        "Boost fibers on mapped stacks with a guard page",
        "boost-context",
        "boost_context.cpp",
        "./animal protected",
        f"{_CXX} boost_context.cpp -lboost_context",
    ),
    Animal(
        "c++",
        "C++20 coroutines, exceptions, and threads that come and go",
        "g++",
        "coroutines.cpp",
        "./animal",
        f"{_CXX} -std=c++20 coroutines.cpp",
        own_threads="animal",
    ),
    Animal(
        "qemu-user",
        "A program emulated by qemu-user, itself with coroutines",
        "qemu-user",
        "ucontext.c",
        "qemu-x86_64 ./animal 65536",
        f"{_C} ucontext.c",
        has_jit=True,
    ),
    Animal(
        "rust",
        "Rust threads, channels, and panics that are caught",
        "rustc",
        "threads.rs",
        "./animal",
        "rustc -O -o animal threads.rs",
        own_threads="animal",
    ),
    Animal(
        "go",
        "Goroutines, a concurrent collector, preemption by signals, calls to C",
        "go",
        "cgo.go",
        "./animal",
        "env CGO_ENABLED=1 GO111MODULE=off go build -o animal cgo.go",
        own_threads="animal",
    ),
    Animal(
        "d",
        "D fibers and threads, which the collector stops by signals",
        "gdc",
        "fibers.d",
        "./animal",
        "gdc -O2 -o animal fibers.d",
        own_threads="animal",
        ignore=_IN_HANDLERS,
    ),
    Animal(
        "ada",
        "Ada tasks with rendezvous, and exceptions",
        "gnat",
        "animal.adb",
        "./animal",
        "gnatmake -q -O2 animal.adb",
        own_threads="animal|workers.*",
    ),
    Animal(
        "fortran",
        "Fortran with OpenMP loops and tasks",
        "gfortran",
        "fortran.f90",
        "env OMP_NUM_THREADS=2 ./animal",
        "gfortran -O2 -fopenmp -o animal fortran.f90",
    ),
    Animal(
        "pascal",
        "Free Pascal with threads, and exceptions by setjmp",
        "fpc",
        "animal.pas",
        "./animal",
        "fpc -O2 -v0 animal.pas",
    ),
    Animal(
        "ghc",
        "Haskell's light threads, MVars, and a copying collector",
        "ghc",
        "haskell.hs",
        "./animal",
        "ghc -v0 -O1 -o animal haskell.hs",
    ),
    Animal(
        "ghc-threaded",
        "The same on two kernel threads",
        "ghc",
        "haskell.hs",
        "./animal +RTS -N2",
        "ghc -v0 -O1 -threaded -rtsopts -o animal haskell.hs",
    ),
    Animal(
        "ocaml",
        "Native OCaml with threads, exceptions and a generational collector",
        "ocaml",
        "ocaml.ml",
        "./animal",
        "ocamlopt -I +threads unix.cmxa threads.cmxa ocaml.ml -o animal",
        own_threads="animal",
    ),
    Animal(
        "ocaml-bytecode",
        "The same as bytecode",
        "ocaml",
        "ocaml.ml",
        "./animal",
        "ocamlc -custom -I +threads unix.cma threads.cma ocaml.ml -o animal",
        own_threads="animal",
    ),
    Animal(
        "chicken",
        "CHICKEN's C stack that is the collector's nursery",
        "chicken",
        "chicken.scm",
        "./animal",
        "csc -O2 -o animal chicken.scm",
    ),
)
