"""Functions, files, lines and inline chains are those that llvm-symbolizer gives.

Programs of the kinds that compilers and linkers make are built here. For more kinds, and 10 000
addresses from each of some files, name them:
``FLAMETAP_LINE_ORACLE=/usr/bin/node:… pytest tests/unit/symbols/debuginfo/test_reader.py``.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import line_oracle
from line_oracle import Comparison, Place, compare

pytestmark = pytest.mark.needs("gcc", "g++", "llvm-symbolizer", "readelf")

# Templates, lambdas, classes in namespaces, recursion, a cold path, code from another file.
SOURCE = """
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>
namespace app {
template <class T> struct Shape {
    virtual ~Shape() {}
    virtual T area() const = 0;
    T twice() const { return area() + area(); }
};
struct Square : Shape<double> {
    double side;
    explicit Square(double s) : side(s) {}
    double area() const override { return side * side; }
};
struct Disc : Shape<double> {
    double radius;
    explicit Disc(double r) : radius(r) {}
    double area() const override {
#include "area.inc"
    }
};
static std::map<std::string, int> counts;
__attribute__((noinline)) static void count(const std::string &word) { counts[word]++; }
__attribute__((noinline)) long depth(long n) { return n < 2 ? n : depth(n - 1) + depth(n - 2); }
__attribute__((noinline)) long checked(long n) {
    if (__builtin_expect(n > 1000000, 0)) {
        fprintf(stderr, "%ld\\n", n);
        abort();
    }
    return n * 3;
}
}
int main(int argc, char **argv) {
    std::vector<app::Shape<double> *> shapes;
    for (int i = 0; i < 10 * argc; i++)
        if (i % 2) shapes.push_back(new app::Square(i));
        else shapes.push_back(new app::Disc(i));
    auto smaller = [](auto *a, auto *b) { return a->twice() < b->twice(); };
    std::sort(shapes.begin(), shapes.end(), smaller);
    for (auto *shape : shapes) app::count(std::to_string(shape->area()));
    for (auto &entry : app::counts) printf("%s %d\\n", entry.first.c_str(), entry.second);
    printf("%ld %ld\\n", app::checked(argc), app::depth(argc));
}
"""

BUILDS = {
    "dwarf4": ["g++", "-O2", "-g", "-gdwarf-4", "-ffunction-sections"],
    "lto": ["g++", "-O2", "-g", "-flto", "-ffunction-sections", "-Wl,--gc-sections"],
    "clang": ["clang++", "-O2", "-g", "-gdwarf-5"],
}
MORE_BUILDS = {
    "dwarf5": ["g++", "-O3", "-g", "-gdwarf-5"],
    "dwarf64": ["g++", "-O2", "-g", "-gdwarf-5", "-gdwarf64"],
    "zlib": ["g++", "-O1", "-g", "-gz=zlib"],
    "zlib-gnu": ["g++", "-O1", "-g", "-gz=zlib-gnu"],
    "not-optimised": ["g++", "-O0", "-g"],
    "clang4": ["clang++", "-O2", "-g", "-gdwarf-4", "-ffunction-sections"],
}
FILES = os.environ.get("FLAMETAP_LINE_ORACLE", "").split(os.pathsep)
if FILES != [""]:
    BUILDS.update(MORE_BUILDS)


def build(folder: Path, command: list[str]) -> Path:
    """The program, built in ``folder`` with paths that have ./ and .. in them."""
    (folder / "sub").mkdir()
    (folder / "area.inc").write_text("return 3 * radius\n  * radius;\n")
    (folder / "program.cc").write_text(SOURCE)
    arguments = [*command, "-I", "sub/..", "./sub/../program.cc", "-o", "program"]
    done = subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "program"


def report(result: Comparison) -> str:
    """What differs, for the message of a failed test."""
    lines = [f"{result.share:.2%} of {result.total}: {dict(result.kinds)}"]
    for kind, examples in result.examples.items():
        if kind not in line_oracle.AGREED:
            lines += [f"{kind} {at:#x}\n  {mine}\n  {theirs}" for at, mine, theirs in examples[:3]]
    return "\n".join(lines)


@pytest.mark.needs("clang")
@pytest.mark.parametrize("name", BUILDS)
def test_builds_agree_with_llvm_symbolizer(name: str, tmp_path: Path) -> None:
    result = compare(build(tmp_path, BUILDS[name]), 1000)
    assert result.total == 1000
    assert result.share >= 0.995, report(result)


@pytest.mark.skipif(FILES == [""], reason="FLAMETAP_LINE_ORACLE names no files")
def test_named_files_agree_with_llvm_symbolizer() -> None:
    for name in FILES:
        result = compare(Path(name), 10_000)
        assert result.share >= 0.995, f"{name}: {report(result)}"


def test_comparison_sees_each_kind_of_difference() -> None:
    def chain(*places: tuple[str, str, int]) -> tuple[Place, ...]:
        return tuple(Place(name, "", file, line) for name, file, line in places)

    names = {"f": {16}, "f_alias": {16}, "g": {32}}
    base = chain(("f", "/a.c", 3), ("g", "/a.h", 7))
    cases = {
        "": base,
        "depth": chain(("f", "/a.c", 3)),
        "alias": chain(("f_alias", "/a.c", 3), ("g", "/a.h", 7)),
        "name": chain(("f", "/a.c", 3), ("h", "/a.h", 7)),
        "line": chain(("f", "/a.c", 3), ("g", "/a.h", 8)),
        "file": chain(("f", "/a.c", 3), ("g", "/b.h", 7)),
        "only theirs": chain(("f", "", 0)),
    }
    for kind, mine in cases.items():
        assert line_oracle.difference(mine, base, names) == kind
    assert line_oracle.difference(base, (), names) == "only ours"
