"""Programs whose debug information is in several files, and what we make of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from flametap.recording.names.inline_chains import Chain
from flametap.symbols.debuginfo import symcache
from flametap.symbols.debuginfo.job import Built, DebugJob
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.resolver import ModuleResolver
from objects import module_of, open_elf, run, symbols

HEADER = """
#include <stdlib.h>
struct shape { int kind; double size; struct shape *next; };
struct list { struct shape *first; int count; const char *name; };
static inline __attribute__((always_inline)) double square(double x) { return x * x; }
static inline __attribute__((always_inline)) double area(struct shape *s) {
    if (s->kind == 1)
        return square(s->size);
    return 3 * square(s->size) + rand();
}
static inline __attribute__((always_inline)) double total(struct list *l) {
    double sum = 0;
    for (struct shape *s = l->first; s; s = s->next)
        sum += area(s);
    return sum;
}
"""
ONE = """
#include "shapes.h"
__attribute__((noinline)) double of_one(struct list *l) { return total(l) + l->count; }
__attribute__((noinline)) int twice(int n) { return 2 * n; }
int main(int argc, char **argv) {
    struct shape s = {argc, 2.0, 0};
    struct list l = {&s, twice(argc), argv[0]};
    return of_one(&l) > 9;
}
"""
TWO = """
#include "shapes.h"
__attribute__((noinline)) double of_two(struct list *l) { return 2 * total(l) - l->count; }
int main(int argc, char **argv) {
    struct shape s = {argc, 3.0, 0};
    struct list l = {&s, 1, argv[0]};
    return of_two(&l) > 9;
}
"""


def built(
    folder: Path,
    name: str,
    source: str,
    *flags: str,
    compiler: str = "gcc",
    more: tuple[str, ...] = (),
) -> Path:
    """A program built in ``folder``, with its object file left beside it; ``more`` objects are
    linked before it.
    """
    (folder / "shapes.h").write_text(HEADER)
    (folder / f"{name}.c").write_text(source)
    command = [compiler, "-O2", "-g", *flags]
    here = f"-ffile-prefix-map={folder}={folder}"  # no more than what makes runs alike
    run([*command, here, "-c", str(folder / f"{name}.c"), "-o", str(folder / f"{name}.o")])
    linked = [*more, str(folder / f"{name}.o"), "-o", str(folder / name), "-Wl,--build-id=sha1"]
    run([*command, *linked])
    return folder / name


def inside(program: Path, names: Iterable[str] = ("main", "of_one")) -> list[int]:
    """All addresses of some functions."""
    found = symbols(program)
    return [
        address
        for name in names
        for address in range(found[name][0], found[name][0] + found[name][1])
    ]


def chains(program: Path, addresses: list[int], **job: object) -> tuple[list[Chain], str]:
    """What the worker would make of a file, looked up; and its note."""
    result = build(program, **job)
    lines = open_symcache(result.payload, open_elf(program).base_addr)
    return list(lines.lookup_many(addresses)), result.note


def build(program: Path, **job: object) -> Built:
    """What the worker would make of a file; ``job``: fields of the job."""
    where = {"folders": (str(program.parent),), "names": (program.name,)}
    base_addr = open_elf(program).base_addr
    return symcache.build_symcache(DebugJob(str(program), base_addr, **{**where, **job}))  # type: ignore[arg-type]


def outer_names(program: Path, result: Built, addresses: list[int]) -> set[str]:
    """The functions that were not inlined, as the resolver names them."""
    resolver = ModuleResolver(module_of(program), open_elf(program), None)
    resolver.lines = open_symcache(result.payload, open_elf(program).base_addr)
    return {resolver.resolve(address)[0].function.name for address in addresses}


def dwz_pair(folder: Path, *flags: str) -> tuple[Path, Path, Path]:
    """A program as it was built, the same after dwz, and the file that dwz made common."""
    one, two = built(folder, "one", ONE), built(folder, "two", TWO)
    whole = folder / "whole"
    shutil.copy(one, whole)
    common = folder / "common.debug"
    run(["dwz", *flags, "-m", str(common), "-M", "common.debug", str(one), str(two)])
    assert common.exists()
    return whole, one, common


# One with its types in sections of their own, so that .debug_info.dwo is there several times.
SPLIT = {
    "gcc4": ("gcc", "-gdwarf-4"),
    "gcc5": ("gcc", "-gdwarf-5", "-fdebug-types-section"),
    "clang4": ("clang", "-gdwarf-4"),
    "clang5": ("clang", "-gdwarf-5"),
}


def split_program(folder: Path, kind: str) -> tuple[Path, Path]:
    """A program with its .dwo files beside it, and the same with all its debug information inside.

    It has two units, so that one has its tables behind those of the other.
    """
    compiler, *flags = SPLIT[kind]
    other = folder / "other.c"
    other.write_text(TWO.replace("main", "other_main"))
    made = {}
    for name, split in (("whole", ()), ("one", ("-gsplit-dwarf",))):
        (folder / "shapes.h").write_text(HEADER)
        first = str(folder / f"{name}-other.o")
        run([compiler, "-O2", "-g", *flags, *split, "-c", str(other), "-o", first])
        made[name] = built(folder, "one", ONE, *flags, *split, compiler=compiler, more=(first,))
        if name == "whole":
            made[name] = made[name].rename(folder / "whole")
    return made["one"], made["whole"]
