"""Mach-O files as ``llvm-symbolizer`` sees them, and where our names differ.

Addresses are drawn at random from the code. Both sides' names go through our demangler, so that
spelling does not count. Known and meant differences are counted apart:

alias     one piece of code with several names; each side shows another
private   a function that a stripped file has no name for: llvm-symbolizer shows an earlier one
exported  a name that only the loader's table of exports has; llvm-symbolizer does not read it
label     an assembler's mark inside a function: llvm-symbolizer shows it in place of the function
no line   code that no line stands for; the files named there differ

By hand, for any files: ``python tests/support/apple_oracle.py [-n COUNT] FILE…``
"""

from __future__ import annotations

import argparse
import json
import posixpath
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from flametap.model import FrameKind, Module
from flametap.recording.names.inline_chains import LineSource
from flametap.symbols.debuginfo.job import DebugJob
from flametap.symbols.debuginfo.reader import open_symcache
from flametap.symbols.debuginfo.symcache import build_symcache
from flametap.symbols.locate.module_files import TargetFiles
from flametap.symbols.locate.open_file import Image, open_image
from flametap.symbols.names.demangle import demangle, strip_clone
from flametap.symbols.object.macho import MachOFile
from flametap.symbols.object.macho_symbols import function_symbols
from flametap.symbols.resolver import ModuleResolver

MEANT = ("alias", "private", "exported", "label", "no line")
_LABELS = (".L", "ltmp", "Ltmp", "LBB")

Place = tuple[str, str, int]  # name, file, line
Chain = list[Place]  # outermost first


@dataclass
class Comparison:
    """How many addresses there were, how many are equal, how the others differ, with examples."""

    total: int = 0
    equal: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    examples: dict[str, tuple[str, Chain, Chain]] = field(default_factory=dict)

    @property
    def share(self) -> float:
        """Equal or meant to differ, 0 … 1."""
        meant = sum(self.kinds[kind] for kind in MEANT)
        return (self.equal + meant) / self.total if self.total else 0.0


class AppleFile:
    """One processor's part of a file, with its dSYM if there is one."""

    def __init__(self, path: Path, arch: str = "") -> None:
        image = open_image(str(path), arch=arch)
        assert isinstance(image.elf, MachOFile)
        self.own = image.elf
        module = Module(1, str(path), 0, 0, 1 << 63, image.elf.build_id)
        files = TargetFiles(None)
        debug = None if image.elf.debug_info_bytes else files.open_debug_file(module, image.elf)
        self.resolver = ModuleResolver(module, image.elf, debug.elf if debug else None)
        self.shown = debug or image  # what the oracle reads
        self.has_lines = bool(self.shown.elf.debug_info_bytes)
        if self.has_lines:
            self.resolver.lines = _lines(self.shown)
        self.starts = self.own.fde_table()
        self.names = _names_by_address(self.own)

    def draw(self, count: int) -> list[int]:
        """Addresses in ``__text``, each once."""
        text = self.own.section("__text")
        assert text is not None
        count = min(count, text.size // 4)
        places = random.Random(1).sample(range(text.size // 4), count)
        return [text.addr + place * 4 for place in sorted(places)]

    def ours(self, addrs: list[int]) -> list[Chain]:
        """What our resolver says; a name "" for code without one."""
        return [
            [
                (
                    "" if f.function.kind is FrameKind.UNKNOWN else f.function.name,
                    f.function.file,
                    f.line,
                )
                for f in frames
            ]
            for frames in self.resolver.resolve_many(addrs)
        ]

    def theirs(self, addrs: list[int]) -> list[Chain]:
        """What ``llvm-symbolizer`` says."""
        assert self.shown.file is not None
        command = ["llvm-symbolizer", f"--obj={self.shown.file.path}", "--inlines", "--no-demangle"]
        command += ["--output-style=JSON", f"--default-arch={self.own.arch}"]
        text = "".join(f"{addr:#x}\n" for addr in addrs)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
        return [
            [
                _place(f["FunctionName"], f["FileName"], f["Line"])
                for f in reversed(answer["Symbol"])
            ]
            for answer in map(json.loads, done.stdout.splitlines())
        ]

    def difference(self, addr: int, ours: Chain, theirs: Chain) -> str:
        """In what two chains differ, "" for nothing."""
        our_names, their_names = [p[0] for p in ours], [_bare(p[0]) for p in theirs]
        if [_bare(name) for name in our_names] != their_names:
            if len(theirs) > 1 or self.has_lines:
                return "name"
            return self._name_differs(addr, our_names[0], their_names[0])
        if not self.has_lines or [p[1:] for p in ours] == [p[1:] for p in theirs]:
            return ""
        if [p[2] for p in ours] != [p[2] for p in theirs]:
            return "line"
        files = [(a[1], b[1]) for a, b in zip(ours, theirs, strict=True) if a[2]]
        return "file" if any(a != b for a, b in files) else "no line"

    def _name_differs(self, addr: int, ours: str, theirs: str) -> str:
        if theirs.startswith(_LABELS):
            return "label"
        [span] = self.starts.functions_at([addr]) if self.starts else [None]
        start = span[0] if span else 0
        if not ours:
            named = any(start <= other <= addr for other in self.names)
            return "unnamed" if named else "private"
        mine = set().union(*(names for names in self.names.values() if ours in names))
        if theirs in {_bare(name) for name in mine}:
            return "alias"
        return "exported" if self.resolver.tables == "dynsym" else "name"


def compare(path: Path, count: int, arch: str = "") -> Comparison:
    """Draws addresses and compares."""
    file = AppleFile(path, arch)
    addrs = file.draw(count)
    result = Comparison()
    for addr, ours, theirs in zip(addrs, file.ours(addrs), file.theirs(addrs), strict=True):
        result.total += 1
        kind = file.difference(addr, ours, theirs)
        if not kind:
            result.equal += 1
            continue
        result.kinds[kind] += 1
        result.examples.setdefault(kind, (hex(addr), ours, theirs))
    return result


def _lines(image: Image) -> LineSource:
    assert image.file is not None
    job = DebugJob(f"/proc/self/fd/{image.file.fileno()}", image.elf.base_addr, image.elf.build_id)
    return open_symcache(build_symcache(job).payload, image.elf.base_addr)


def _place(symbol: str, file: str, line: int) -> Place:
    return demangle(strip_clone(symbol))[0], posixpath.normpath(file) if file else "", line


def _bare(name: str) -> str:
    """Without the underscore of Apple's C symbols, which the two sides treat differently."""
    return name.lstrip("_")


def _names_by_address(file: MachOFile) -> dict[int, set[str]]:
    symbols = function_symbols(file)
    names: dict[int, set[str]] = {}
    for start, place in zip(symbols.starts.tolist(), symbols.names.tolist(), strict=True):
        symbol = symbols.strings[place : symbols.strings.index(b"\0", place)].decode()
        names.setdefault(start, set()).add(demangle(strip_clone(symbol))[0])
    return names


def main() -> None:
    """Compare whole files and print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("-n", "--count", type=int, default=10_000)
    parser.add_argument("--arch", default="")
    options = parser.parse_args()
    for path in options.files:
        result = compare(path, options.count, options.arch)
        kinds = ", ".join(f"{kind} {n}" for kind, n in result.kinds.most_common())
        print(f"{path.name}: {result.share:.3%} of {result.total}, equal {result.equal}; {kinds}")
        for kind, (addr, ours, theirs) in result.examples.items():
            if kind not in MEANT:
                print(f"  {kind} {addr}\n    {ours}\n    {theirs}")


if __name__ == "__main__":
    main()
