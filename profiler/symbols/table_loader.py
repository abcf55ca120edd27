"""Open a module's files and read their symbol tables. Never raises: a note reports problems."""

from __future__ import annotations

from ..recording.names.inline_chains import LinesError
from .debuginfo.reader import DebugInfo
from .jit.runtimes import precompiled_hint
from .locate.module_files import FilesError, TargetFiles
from .locate.open_file import Image
from .module_work import ModuleWork
from .names.limits import Budgets
from .resolver import ModuleResolver


class Loader:
    """Opens files and reads symbol tables; see the module docstring.

    Args:
        files: finds the files.
        debug_info: has the lines that were read in an earlier session.
        inlines: whether inlined functions become frames.
        budgets: what all modules share.
    """

    def __init__(
        self, files: TargetFiles, debug_info: DebugInfo, budgets: Budgets, *, inlines: bool
    ) -> None:
        self._budgets = budgets
        self._files = files
        self._debug_info = debug_info
        self._inlines = inlines

    def open(self, work: ModuleWork) -> None:
        """Open the module's own file, or leave a note."""
        try:
            work.image = self._files.open_module(work.module)
        except FilesError as error:
            work.note = f"{error}{precompiled_hint(work.module.name)}"
        except Exception as error:  # a bad file must not raise: the note reports it
            work.note = f"cannot be read: {error}"

    def load(
        self, work: ModuleWork, *, was_fetched: bool
    ) -> tuple[str, ModuleResolver | None, str]:
        """Read the symbol tables of a module.

        Args:
            work: the module.
            was_fetched: the servers were already asked for missing files.

        Returns:
            the kind of the tables (``ModuleResolver.tables``), the resolver if there are any, and a
            note.
        """
        if work.image is None and (was_fetched or not work.note):
            self.open(work)
        if work.image is None:
            return "none", None, work.note
        try:
            resolver = self._load_tables(work, work.image)
            return resolver.tables, resolver, work.missing(resolver, self._files)
        except Exception as error:  # a bad file must not raise: the note reports it
            return "none", None, f"symbols cannot be read: {error}"

    def _load_tables(self, work: ModuleWork, image: Image) -> ModuleResolver:
        if not image.elf.debug_info_bytes:
            work.close_debug()
            work.debug = self._files.open_debug_file(work.module, image.elf)
        debug = None if work.debug is None else work.debug.elf
        mini, work.problem = None, ""
        try:
            mini = self._debug_info.mini_symbols(image, work.debug)
        except LinesError as error:
            work.problem = str(error)
        resolver = ModuleResolver(
            *(work.module, image.elf, debug),
            mini=mini,
            inlines=self._inlines,
            budgets=self._budgets,
        )
        with_dwarf = work.debug_image()
        if with_dwarf is not None:
            resolver.lines = self._debug_info.cached(with_dwarf)
        return resolver
