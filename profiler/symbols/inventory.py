"""List the sources of the names of a file or of a process's modules, without an attach.

We open the same files in the same order as a recording does. We report what each of them provides,
which files were found but not used, and what is missing. Of a process we only read procfs. If
procfs denies something, the module gets a note.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from ..linux.elf_headers import EM_386, EM_AARCH64, EM_ARM, EM_RISCV, EM_X86_64
from ..model import NO_MODULE, Frame, Module
from ..recording.names.inline_chains import LinesError
from ..recording.names.table import JIT_MODULE, SymbolTable
from .advice import advice, is_too_large
from .debuginfo.disk_cache import DiskCache
from .debuginfo.reader import DebugInfo
from .jit.names_thread import JitNames
from .locate.breakpad import BreakpadFile
from .locate.memory_image import VDSO_PATH
from .locate.module_files import FilesError, TargetFiles
from .locate.open_file import Image, debug_image
from .locate.process_code import Range
from .names.limits import Budgets
from .object.macho import MachOFile
from .object.object_file import ObjectError, ObjectFile
from .resolver import ModuleResolver

FETCHED_AT_ONCE = 4
GENERATED_WAIT_S = 10.0  # a perf map of 10^6 lines takes one second
_MACHINES = {
    EM_X86_64: "x86_64",
    EM_AARCH64: "arm64",
    EM_386: "i386",
    EM_ARM: "arm",
    EM_RISCV: "riscv64",
}
# ``ModuleResolver.tables`` → the name of that kind of table for the user.
_TABLES = {
    "symtab": ".symtab",
    "dynsym": ".dynsym",
    "gopclntab": "Go's own table",
    "none": "nothing",
}
_APPLE_TABLES = {"symtab": "symbol table", "dynsym": "exported names"}


@dataclass(frozen=True)
class Source:
    """One file that provides names or lines."""

    what: str  # ".symtab", "DWARF" …
    path: str  # "" if it is only in memory
    origin: str  # how it was found: "mapped file", "debug link" …


@dataclass
class ModuleSymbols:
    """The sources of one module's names.

    Attributes:
        functions: how many functions have names.
        lines: "inlines" for lines and inlined functions, "lines", or "" for none.
        missing: what is missing, and the remedy; "" if nothing.
        rejected: a line for each file that was found but is not the right one.
        ranges: the addresses at which a process has mapped it.
        own, debug: its file and its debug file, open.
    """

    module: Module
    format: str = ""
    machine: str = ""
    build_id: str = ""
    functions: int = 0
    lines: str = ""
    sources: list[Source] = field(default_factory=list)
    missing: str = ""
    rejected: list[str] = field(default_factory=list)
    package: str = ""  # how to install its debug file with the package manager
    ranges: list[Range] = field(default_factory=list)
    own: Image | None = None
    debug: Image | None = None
    _resolver: ModuleResolver | None = None

    def close(self) -> None:
        """Close the files."""
        for image in (self.own, self.debug):
            if image is not None:
                image.close()


class Inventory:
    """The modules of a process, or the parts of a file.

    Args:
        files: finds the files of modules; is closed with the inventory.

    Attributes:
        modules: the modules added so far, in that order.
    """

    def __init__(self, files: TargetFiles) -> None:
        self.modules: list[ModuleSymbols] = []
        self._files = files
        self._budgets = Budgets()
        self._debug_info = DebugInfo(files, DiskCache(), self._budgets)
        self._was_read: set[int] = set()
        self._table = SymbolTable()
        self._jit: JitNames | None = None
        # runtime_addrs in generated code that were looked up, by their id in the table
        self._asked: list[int] = [0]

    def add(self, module: Module, own: Image | None = None, ranges: Sequence[Range] = ()) -> None:
        """Add a module, and find the sources of its names.

        Args:
            module: the module.
            own: its file if it is already open; is closed with the inventory.
            ranges: the addresses at which it is mapped.
        """
        found = self._look_at(module, own)
        found.ranges = list(ranges)
        self.modules.append(found)

    def add_generated(self, pid: int, ranges: Sequence[Range]) -> None:
        """Add the code that a process generates while it runs.

        Args:
            pid: the process.
            ranges: its executable memory for such code, at least one range.
        """
        self._table = SymbolTable()
        self._jit = JitNames(self._table, pid)
        for found in self.modules:
            self._jit.see_module(found.module)
        source = self._jit.look(GENERATED_WAIT_S)
        module = Module(0, JIT_MODULE, 0, ranges[0].start, ranges[-1].end, "")
        found = ModuleSymbols(
            module, missing=source.note, functions=self._jit.name_count, ranges=list(ranges)
        )
        if source.source != "none":
            found.sources.append(Source(source.source, "", "the process's own account"))
        found.lines = "lines" if source.has_lines else ""
        self.modules.append(found)

    def fetch(self) -> None:
        """Ask the servers for files that modules lack, a few at a time; update these modules."""
        lacking = [
            found
            for found in self.modules
            if self._files.can_fetch(found.module, found.own, found.debug)
        ]
        with ThreadPoolExecutor(FETCHED_AT_ONCE) as pool:
            try:
                list(pool.map(lambda f: self._files.fetch(f.module, f.own, f.debug), lacking))
            except BaseException:
                self._files.stop_fetching()
                raise
        for found in lacking:
            own, found.own = found.own, None
            found.close()
            again = self._look_at(found.module, own)
            again.ranges = found.ranges
            self.modules[self.modules.index(found)] = again

    def resolve(self, found: ModuleSymbols, file_addrs: Sequence[int]) -> list[tuple[Frame, ...]]:
        """Return the frames at each address of one of the modules, outermost first.

        A module that could not be opened has no frames. Read the module's debug information first:
        that takes seconds for a large file that was never read before. Problems are added to
        ``missing``.

        Raises:
            ObjectError: a table is damaged.
        """
        if self._jit is not None and found.module.module_id == NO_MODULE:
            first = len(self._asked)
            self._asked += file_addrs
            self._jit.submit(enumerate(file_addrs, first))
            self._jit.wait_idle(GENERATED_WAIT_S)
            return [tuple(self._table.frames(first + i)) for i in range(len(file_addrs))]
        if found._resolver is None:
            return [()] * len(file_addrs)
        with_dwarf = debug_image(found.own, found.debug)
        if with_dwarf is not None and found.module.module_id not in self._was_read:
            self._was_read.add(found.module.module_id)
            note = ""
            try:
                found._resolver.lines, note = self._debug_info.read(found.module, with_dwarf)
            except LinesError as error:
                note = str(error)
            found.missing = "; ".join(filter(None, dict.fromkeys((found.missing, note))))
        return list(found._resolver.resolve_many(file_addrs))

    def close(self) -> None:
        """Close all files."""
        self._debug_info.close()
        self._debug_info.rest()
        self._debug_info.rest_small()
        if self._jit is not None:
            self._jit.close()
        for found in self.modules:
            found.close()
        self._files.close()

    def _look_at(self, module: Module, own: Image | None = None) -> ModuleSymbols:
        """Find the sources of a module's names.

        Args:
            module: the module.
            own: its file if it is already open; is closed with the result.
        """
        found, files = ModuleSymbols(module, build_id=module.build_id), self._files
        try:
            own = own or files.open_module(module)
        except FilesError as error:
            found.missing = str(error)
            return found
        found.own = own
        found.format, found.build_id = own.elf.format_name, own.elf.build_id
        found.machine = machine_name(own.elf)
        try:
            debug = None
            if not own.elf.debug_info_bytes:
                debug = found.debug = files.open_debug_file(module, own.elf)
            mini, problem = None, ""
            try:
                mini = self._debug_info.mini_symbols(own, debug)
            except LinesError as error:
                problem = str(error)
            debug_elf = None if debug is None else debug.elf
            resolver = ModuleResolver(module, own.elf, debug_elf, mini=mini, budgets=self._budgets)
            found._resolver = resolver
            self._describe(found, own, debug, resolver)
            found.missing = "; ".join(filter(None, (found.missing, problem)))
        except ObjectError as error:
            found.missing = f"symbols cannot be read: {error}"
        found.rejected = files.rejected(module)
        return found

    def _describe(
        self, found: ModuleSymbols, own: Image, debug: Image | None, resolver: ModuleResolver
    ) -> None:
        files = self._files
        found.functions = resolver.name_count
        names_from = own
        if resolver.tables == "symtab" and not own.elf.has_symtab and debug is not None:
            names_from = debug
        what = _TABLES[resolver.tables]
        if isinstance(own.elf, MachOFile):
            what = _APPLE_TABLES.get(resolver.tables, what)
        elif resolver.tables == "symtab" and not names_from.elf.has_symtab:
            what = "mini debug info"
        with_dwarf = debug_image(own, debug)
        if with_dwarf is names_from:
            what = f"{what} and DWARF"
        if resolver.tables != "none" or with_dwarf is names_from:
            found.sources.append(_source(what, names_from))
        if with_dwarf is not None and with_dwarf is not names_from:
            kind = "Breakpad" if isinstance(with_dwarf.elf, BreakpadFile) else "DWARF"
            found.sources.append(_source(kind, with_dwarf))
        if with_dwarf is not None:
            found.lines = "inlines"
        elif resolver.tables == "gopclntab":
            found.lines = "lines" if resolver.lacks_inlines else "inlines"
        if found.module.path == VDSO_PATH:  # it exports all its functions and has no debug file
            return
        if with_dwarf is None and resolver.tables != "gopclntab":
            found.package = files.remedy(found.module)
        # advice() would also list what a recording still reads, and what the sources already show.
        if found.lines != "inlines" or is_too_large(with_dwarf):
            asked = files.asks_servers
            found.missing = advice(own, debug, resolver, found.package, servers_were_asked=asked)
        elif with_dwarf is not None:
            found.missing = self._debug_info.missing_parts(found.module, with_dwarf)


def _source(what: str, image: Image) -> Source:
    return Source(what, "" if image.file is None else image.file.path, image.origin)


def machine_name(file: ObjectFile) -> str:
    """Return the processor's name as the file's operating system writes it."""
    if isinstance(file, MachOFile):
        return file.arch
    return _MACHINES.get(file.machine, f"machine {file.machine}")
