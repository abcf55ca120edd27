"""Functions, files, lines and inline chains as other tools see them, and where ours differ.

Addresses are drawn at random from the functions in the symbol table, half of them anywhere, half
as the unwinder hands them over for callers: the last byte of a call. ``llvm-symbolizer`` (or
``eu-addr2line``, which also reads dwz files) says what is there; names of both sides go through
our demangler, so that spelling does not count.

By hand, for any files: ``python tests/support/line_oracle.py [-n COUNT] [--oracle eu] FILE…``
"""

from __future__ import annotations

import argparse
import json
import posixpath
import random
import re
import subprocess
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from flametap.model import Frame, Module
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.debuginfo.symcache import build_symcache
from flametap.symbols.locate.module_files import TargetFiles
from flametap.symbols.names.demangle import demangle
from flametap.symbols.object.go_names import short_go_name
from flametap.symbols.resolver import ModuleResolver
from objects import module_of

TIMEOUT_S = 300


class Place(NamedTuple):
    """One function of a chain; ``line`` 0 and ``file`` "" when unknown."""

    name: str  # the demangler's short form
    full_name: str  # as Function has it
    file: str
    line: int


Chain = tuple[Place, ...]  # outermost first; empty: nothing known
Names = dict[str, set[int]]
Oracle = Callable[[Path, Sequence[int]], list[Chain]]


def draw(path: Path, count: int, seed: int = 1) -> list[int]:
    """``count`` addresses (file_addr) within the functions of ``.symtab``, by size."""
    functions = _functions(path)
    ends = list(accumulate(size for _, size in functions))
    chance = random.Random(seed)
    code = _Code(path)
    addresses: list[int] = []
    while len(addresses) < count:
        at = chance.randrange(ends[-1])
        index = bisect_right(ends, at)
        start, size = functions[index]
        address = start + size - (ends[index] - at)
        if len(addresses) % 2:
            address = code.call_after(address, start + size) or address
        addresses.append(address)
    return addresses


def llvm(path: Path, addresses: Sequence[int]) -> list[Chain]:
    """What ``llvm-symbolizer --inlines`` says."""
    command = ["llvm-symbolizer", "--inlines", "--functions=linkage", "--no-demangle"]
    output = _run(
        [*command, "--output-style=JSON", f"--obj={path}"], "\n".join(map(hex, addresses))
    )
    chains = []
    for line in output.splitlines():
        frames = json.loads(line).get("Symbol", [])
        chains.append(
            tuple(
                _place(f["FunctionName"], f["FileName"], f["Line"])
                for f in reversed(frames)
                if f["FunctionName"] or f["FileName"]
            )
        )
    return chains


def elfutils(path: Path, addresses: Sequence[int]) -> list[Chain]:
    """What ``eu-addr2line -i`` says."""
    output = _run(["eu-addr2line", "-fia", "-e", str(path)], "\n".join(map(hex, addresses)))
    chains: list[list[Place]] = []
    lines = iter(output.splitlines())
    for name in lines:
        if re.fullmatch(r"0x[0-9a-f]{16}", name):
            chains.append([])
            continue
        name = re.sub(r" inlined at .* in .*$", "", name)
        place = re.match(r"(.*?):(\d+)(?::\d+)?", next(lines))
        file, number = (place[1], int(place[2])) if place else ("", 0)
        if name != "??" or place:
            chains[-1].insert(0, _place("" if name == "??" else name, file, number))
    return [tuple(chain) for chain in chains]


ORACLES: dict[str, Oracle] = {"llvm": llvm, "eu": elfutils}


def ours(
    path: Path, addresses: Sequence[int], symbol_dirs: Sequence[str] = ()
) -> tuple[list[Chain], str]:
    """What our resolver says, with the debug file where there is one, and the note on it."""
    resolver, note = _resolver(module_of(path), symbol_dirs)
    return [tuple(map(_of_frame, resolver.resolve(address))) for address in addresses], note


@dataclass
class Comparison:
    """How many addresses there were, how many agree, and examples of what does not, by kind."""

    total: int = 0
    agreed: int = 0
    note: str = ""  # what of the debug information was missing
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[tuple[int, Chain, Chain]]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Agreeing addresses among all, 0 … 1."""
        return self.agreed / self.total if self.total else 0.0

    def add(self, address: int, mine: Chain, theirs: Chain, names: Names) -> None:
        """Take in one address."""
        self.total += 1
        kind = difference(mine, theirs, names)
        if kind in AGREED:
            self.agreed += 1
        if kind:
            self.kinds[kind] += 1
            self.examples.setdefault(kind, []).append((address, mine, theirs))


# Meant difference, not counted against us: the symbol table has both names for one address, for
# example a public name and an internal one, or functions that were folded into one.
AGREED = ("", "alias")


def difference(mine: Chain, theirs: Chain, names: Names) -> str:
    """The first thing in which two chains differ, "" for none.

    Args:
        mine, theirs: what is compared.
        names: each symbol's short name → the addresses it stands for.
    """
    if theirs and not any(place.line for place in theirs):
        # llvm-symbolizer takes file names without lines from the symbol table.
        theirs = tuple(place._replace(file="") for place in theirs)
        mine = tuple(place._replace(file="") for place in mine)
    if not theirs:
        return "" if not any(place.line for place in mine) else "only ours"
    if not any(place.line or place.file for place in mine) and any(p.line for p in theirs):
        return "only theirs"
    if len(mine) != len(theirs):
        return "depth"
    kind = ""
    for depth, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        if a.name != b.name or (a.full_name and b.full_name and a.full_name != b.full_name):
            if depth or not names.get(a.name, set()) & names.get(b.name, set()):
                return "name"
            kind = "alias"
        if a.line != b.line:
            return "line"
        elif a.line and a.file != b.file:
            return "file"
    return kind


def compare(
    path: Path,
    count: int,
    oracle: Oracle = llvm,
    *,
    seed: int = 1,
    symbol_dirs: Sequence[str] = (),
    truth: Path | None = None,
) -> Comparison:
    """Draws addresses and compares ours with the oracle's.

    Args:
        truth: the file that the oracle reads, where it cannot read ``path``: the same code before
            dwz, say.
    """
    truth = truth or path
    addresses = draw(truth, count, seed)
    result = Comparison()
    names = _names(truth)
    mine, result.note = ours(path, addresses, symbol_dirs)
    for address, a, b in zip(addresses, mine, oracle(truth, addresses), strict=True):
        result.add(address, a, b, names)
    return result


def _resolver(module: Module, symbol_dirs: Sequence[str]) -> tuple[ModuleResolver, str]:
    files = TargetFiles(None, symbol_dirs)
    own = files.open_module(module)
    debug = None if own.elf.debug_info_bytes else files.open_debug_file(module, own.elf)
    resolver = ModuleResolver(module, own.elf, debug.elf if debug else None)
    image = debug or own
    assert image.file is not None
    alt = files.open_alt_file(image)
    folder, name = posixpath.split(module.path)
    job = DebugJob(
        debug=f"/proc/self/fd/{image.file.fileno()}",
        base_addr=image.elf.base_addr,
        alt=f"/proc/self/fd/{alt.file.fileno()}"
        if alt is not None and alt.file is not None
        else "",
        folders=(folder, image.file.folder(), *symbol_dirs),
        names=(name, posixpath.basename(image.file.path)),
    )
    built = build_symcache(job)
    resolver.lines = open_symcache(built.payload, image.elf.base_addr)
    return resolver, built.note


def _of_frame(frame: Frame) -> Place:
    function = frame.function
    return Place(function.name, function.full_name, frame.file, frame.line)


def _place(symbol: str, file: str, line: int) -> Place:
    name, full_name = demangle(symbol)
    if file.endswith((".go", ".s", "<autogenerated>")) and "." in symbol:
        # The assembler's functions are called by Go through wrappers; the suffix tells them apart.
        symbol = symbol.removesuffix(".abi0")
        name, full_name = short_go_name(symbol), ""
    return Place(name, full_name, posixpath.normpath(file) if file else "", line)


def _names(path: Path) -> Names:
    names: Names = {}
    for line in _run(["nm", "--defined-only", str(path)], "").splitlines():
        address, _, symbol = line.split(" ", 2)
        names.setdefault(demangle(symbol)[0], set()).add(int(address, 16))
    return names


def _functions(path: Path) -> list[tuple[int, int]]:
    """(file_addr, size in bytes) of each function with a size, once."""
    output = _run(["readelf", "-sW", str(path)], "")
    row = r"^ *\d+: (\w+) +(\w+) FUNC +\w+ +\w+ +\d+ "
    found = re.findall(row, output, re.MULTILINE)
    functions = sorted({(int(start, 16), int(size, 0)) for start, size in found})
    assert functions, f"{path} has no function symbols"
    return [(start, size) for start, size in functions if size]


class _Code:
    """Find direct calls (x86-64 ``e8 rel32`` into executable code)."""

    def __init__(self, path: Path) -> None:
        self._elf = TargetFiles(None).open_module(module_of(path)).elf
        text = self._elf.section(".text")
        self._text = (text.addr, text.addr + text.size) if text else (0, 0)

    def call_after(self, start: int, end: int) -> int | None:
        """The last byte of the first call in a range."""
        code = self._elf.at_addr(start, end - start)
        at = code.find(b"\xe8")
        while 0 <= at <= len(code) - 5:
            after = start + at + 5
            goal = after + int.from_bytes(code[at + 1 : at + 5], "little", signed=True)
            if self._text[0] <= goal < self._text[1]:
                return after - 1
            at = code.find(b"\xe8", at + 1)
        return None


def _run(command: Sequence[str], text: str) -> str:
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr[-500:]}"
    return done.stdout


def main() -> None:
    """Compare whole files and print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-n", "--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--oracle", choices=ORACLES, default="llvm")
    parser.add_argument("--truth", type=Path, help="what the oracle reads instead")
    parser.add_argument("--symbol-dir", action="append", default=[])
    parser.add_argument("--examples", type=int, default=0, help="print so many of each kind")
    options = parser.parse_args()
    for path in options.files:
        started = time.monotonic()
        result = compare(
            path,
            options.count,
            ORACLES[options.oracle],
            seed=options.seed,
            symbol_dirs=options.symbol_dir,
            truth=options.truth,
        )
        took = time.monotonic() - started
        kinds = ", ".join(f"{kind} {n}" for kind, n in result.kinds.most_common())
        print(
            f"{path} {options.oracle}: {result.share:.4%} of {result.total}; {kinds} ({took:.0f} s)"
        )
        if result.note:
            print(f"  {result.note}")
        for kind, examples in result.examples.items():
            for address, mine, theirs in examples[: options.examples]:
                print(f"  {kind} {address:#x}")
                for chain in (mine, theirs):
                    print("    " + " > ".join(f"{p.name} {p.file}:{p.line}" for p in chain))


if __name__ == "__main__":
    main()
