"""Hold one module's files, its addresses that wait for names, and its priority."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..linux.elf_headers import EM_X86_64
from ..model import Frame, Module, RawFrame, SymbolSource
from ..recording.names.table import SymbolTable, unnamed_function
from .advice import advice
from .locate.module_files import TargetFiles
from .locate.open_file import Image, debug_image
from .object.call_target import CALL_BYTES, UNKNOWN_GOAL, call_goal
from .object.kernel_entry import BEFORE_BYTES, CODE_BYTES, call_number
from .object.object_file import ObjectError
from .resolver import Frames, ModuleResolver

# A main executable whose symbol tables are not larger than this is named before other modules.
MAIN_FIRST_BYTES = 16 << 20

Ids = npt.NDArray[np.int64]
Address = tuple[int, int]  # address id, file_addr


@dataclass(eq=False)
class ModuleWork:
    """The state of one module and of its addresses. Guarded by the symbolizer's lock."""

    module: Module
    is_main: bool = False
    image: Image | None = None  # the module's own file
    debug: Image | None = None  # its separate debug file, open until its lines are read
    resolver: ModuleResolver | None = None
    source: str = "pending"
    note: str = ""
    problem: str = ""  # what stays a problem whatever else is found
    waiting: list[Address] = field(default_factory=list)  # without a name
    # With a name, waiting for debug information; None if no (more) debug information will come.
    provisional: list[Address] | None = None
    again: list[Address] = field(default_factory=list)  # with a name; lines are available now
    seen: bool = False
    resolving: threading.Lock = field(default_factory=threading.Lock)  # held to use the resolver

    def missing(self, resolver: ModuleResolver | None, files: TargetFiles, remedy: str = "") -> str:
        """Describe what the module lacks, the remedy, and rejected files."""
        missing = self.note
        if self.image is not None and resolver is not None:
            asked = files.asks_servers
            missing = advice(self.image, self.debug, resolver, remedy, servers_were_asked=asked)
        rejected = () if self.debug_cost() else files.rejected(self.module)
        return "; ".join(filter(None, (missing, *rejected)))

    def stand_ins(self, file_addrs: Sequence[int]) -> list[Frames]:
        """Return frames for addresses without a name: module and address."""
        return [
            (Frame(unnamed_function(RawFrame(self.module.module_id, addr), self.module.name)),)
            for addr in file_addrs
        ]

    def are_called(self, callers: Ids, callees: Ids) -> npt.NDArray[np.bool_]:
        """Return for each pair whether the caller's call instruction leads to the called function.

        True also for an indirect call, which may lead anywhere: debug information does not know
        more then.

        Args:
            callers: file_addrs of the calling frames: return address - 1.
            callees: file_addrs of the frames that were called.

        Raises:
            ObjectError: the file has been truncated.
        """
        assert self.image is not None
        assert self.resolver is not None
        elf = self.image.elf
        if elf.machine != EM_X86_64:
            return np.zeros(len(callers), np.bool_)
        goals = [
            call_goal(elf.at_addr(caller + 1 - CALL_BYTES, CALL_BYTES), caller + 1)
            for caller in callers.tolist()
        ]
        with self.resolving:
            entered = self.resolver.are_entered(
                [UNKNOWN_GOAL if goal is None else goal for goal in goals], callees.tolist()
            )
        return np.array([goal is None for goal in goals], np.bool_) | np.array(entered, np.bool_)

    def kernel_call(self, file_addr: int) -> int | None:
        """Return the system call number of a thread at this address; None if it is in none.

        See ``kernel_entry``.
        """
        if self.image is None or self.image.elf.machine != EM_X86_64:
            return None
        try:
            return call_number(self.image.elf.at_addr(file_addr - BEFORE_BYTES, CODE_BYTES))
        except ObjectError:  # the file has been truncated
            return None

    def name(self, asked: Sequence[Address], table: SymbolTable) -> None:
        """Put names into the table; stand-ins if there is no resolver or it fails."""
        address_ids = [address_id for address_id, _ in asked]
        file_addrs = [file_addr for _, file_addr in asked]
        packed = None
        if self.resolver is not None:
            try:
                with self.resolving:
                    packed = self.resolver.resolve_packed(file_addrs)
            except Exception as error:  # a bad file must not raise: the note reports it
                self.note = f"symbols cannot be read: {error}"
        if packed is None:
            table.set_many(address_ids, self.stand_ins(file_addrs))
        else:
            table.set_packed(address_ids, packed)

    def symbol_source(self) -> SymbolSource:
        """Return the source of the module's names, for the user."""
        has_lines = self.source in ("symcache", "gopclntab")
        module = self.module
        names_note = "" if self.resolver is None else self.resolver.names_note
        note = "; ".join(filter(None, (self.note, self.problem, names_note)))
        return SymbolSource(module.module_id, module.name, self.source, note, has_lines)

    def resolve(self, file_addrs: Sequence[int]) -> list[Frames]:
        """Return the frames at addresses. The module must have a resolver. Any thread may call."""
        assert self.resolver is not None
        with self.resolving:
            return self.resolver.resolve_many(file_addrs)

    @property
    def modified_ns(self) -> int:
        """Time of the file's last modification, nanoseconds since the epoch; 0 if unknown."""
        file = None if self.image is None else self.image.file
        return 0 if file is None else file.modified_ns

    @property
    def has_work(self) -> bool:
        """True while addresses wait for the names thread."""
        return bool(self.waiting or self.again)

    def take(self, limit: int) -> list[Address]:
        """Remove the addresses to be named next, at most ``limit``, and return them."""
        if self.waiting:
            taken, self.waiting = self.waiting[:limit], self.waiting[limit:]
        else:
            taken, self.again = self.again[:limit], self.again[limit:]
        return taken

    def debug_image(self) -> Image | None:
        """Return the file with DWARF; None if there is none."""
        return debug_image(self.image, self.debug)

    def debug_cost(self) -> int:
        """Return the size of the debug information to read, in bytes; 0 if there is none."""
        image = self.debug_image()
        return 0 if image is None else image.elf.debug_info_bytes

    def name_cost(self) -> tuple[int, int]:
        """Return the sort key for the names thread; the module with the smallest comes first.

        The order is: names from tables that are open; names from tables that are not, smallest
        first; lines for addresses that have names.
        """
        if not self.waiting:
            return (3, len(self.again))
        if self.source != "pending" or self.image is None:
            return (0, len(self.waiting))
        tables = [self.image.elf.section(".symtab"), self.image.elf.section(".dynsym")]
        size = sum(section.size for section in tables if section is not None)
        return (1 if self.is_main and size <= MAIN_FIRST_BYTES else 2, size)

    def close_debug(self) -> None:
        """Close the separate debug file. Call it once all of it was read."""
        if self.debug is not None:
            self.debug.close()

    def close(self) -> None:
        """Close all files."""
        self.close_debug()
        if self.image is not None:
            self.image.close()
