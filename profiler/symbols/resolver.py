"""One module's file_addr → frames: symbol tables and debug information put together.

The name of the outermost function comes from the symbol table where it has one (it knows the
public name of a function, and the piece that the address is in), the inline chain and lines from
debug information. What neither covers is named after the function start that the unwind tables
give, ``libfoo.so+0x1234``, so that a stripped program still shows its functions as one box each.
"""

from __future__ import annotations

from flametap.model import Frame, FrameKind, Function, Module, RawFrame
from flametap.symbols.demangle import demangle
from flametap.symbols.elf import ElfError, ElfFile
from flametap.symbols.gonames import go_names
from flametap.symbols.symcache import Symcache
from flametap.symbols.symtab import PltNames, SymbolIndex
from flametap.symbols.table import unnamed_function


class ModuleResolver:
    """Names for one module. Used by one thread at a time.

    Args:
        module: the module.
        own: the file that is mapped.
        debug: its separate debug file, if there is one.
        inlines: whether inlined functions become frames.

    Attributes:
        symcache: lines and inline chains, ``None`` until they were read.
        tables: the best table that was found: "gopclntab", "symtab", "dynsym" or "none".
        lacks_inlines: True for a Go program whose inlined functions could not be found.

    Raises:
        ElfError: a table is damaged.
    """

    def __init__(
        self, module: Module, own: ElfFile, debug: ElfFile | None, *, inlines: bool = True
    ) -> None:
        self.symcache: Symcache | None = None
        self._module = module
        self._inlines = inlines
        full = next((elf for elf in (own, debug) if elf is not None and elf.has_symtab), None)
        if full is not None:
            tables = [(full, ".symtab")]  # repeats all of .dynsym
        else:
            tables = [(own, ".dynsym")]
            full = own.mini_debug_info()  # leaves out what .dynsym has
            if full is not None:
                tables.append((full, ".symtab"))
        self._index = SymbolIndex(tables)
        if full is not None:
            self.tables = "symtab"
        else:
            self.tables = "dynsym" if len(self._index) else "none"
        self._go = go_names(own, module.name, inlines=inlines)
        if self._go is not None:
            self.tables = "gopclntab"
        self.lacks_inlines = self._go is not None and self._go.lacks_inlines
        self._plt = PltNames(own, self._index)
        self._fdes = own.fde_table()
        self._functions: dict[Function, Function] = {}
        self._entry_files: dict[int, str] = {}

    def resolve(self, file_addr: int) -> tuple[Frame, ...]:
        """The frames at ``file_addr``, outermost first; at least one."""
        symbol = self._index.lookup(file_addr)
        if self._go is not None and (in_go := self._go.frames(file_addr, symbol)):
            return in_go
        chain = self.symcache.lookup(file_addr) if self.symcache is not None else ()
        if not chain:
            if symbol is not None:
                return (Frame(self._function(symbol.name)),)
            return (Frame(self._unnamed(file_addr)),)
        outer = chain[0]
        file = outer.file
        if symbol is not None:
            file = self._entry_file(symbol.start, outer.file)
        name = symbol.name if symbol is not None else outer.symbol
        # A line of another file (code that a function takes in with #include) would mislead.
        frames = [Frame(self._function(name, file), outer.line if file == outer.file else 0)]
        if self._inlines:
            frames += [
                Frame(self._function(inner.symbol, inner.file, FrameKind.INLINED), inner.line)
                for inner in chain[1:]
            ]
        return tuple(frames)

    def _entry_file(self, start: int, default: str) -> str:
        """The source file at a function's first instruction: one function, one file, one box."""
        file = self._entry_files.get(start)
        if file is None:
            assert self.symcache is not None
            chain = self.symcache.lookup(start)
            file = chain[0].file if chain and chain[0].file else default
            self._entry_files[start] = file
        return file

    def _function(
        self, symbol: str, file: str = "", kind: FrameKind = FrameKind.NATIVE
    ) -> Function:
        name, full_name = demangle(symbol)
        function = Function(name, self._module.name, file, kind, full_name)
        return self._functions.setdefault(function, function)

    def _unnamed(self, file_addr: int) -> Function:
        try:
            stub = self._plt.lookup(file_addr)
            if stub is not None:
                name, full_name = demangle(stub)
                full_name = f"{full_name}@plt" if full_name else ""
                return Function(f"{name}@plt", self._module.name, full_name=full_name)
            covering = self._fdes.function_at(file_addr) if self._fdes is not None else None
        except ElfError:  # the file was truncated under us
            covering = None
        start = file_addr if covering is None else covering[0]
        return unnamed_function(RawFrame(self._module.module_id, start), self._module.name)
