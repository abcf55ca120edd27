"""Describe what a module's symbols lack, and how to get it: one line for the user."""

from __future__ import annotations

from .locate.open_file import MEMORY, Image, debug_image
from .object.macho import MachOFile
from .object.macho_symbols import has_debug_map
from .resolver import ModuleResolver

# A larger .debug_info takes minutes and gigabytes to read; we use the symbol table instead.
MAX_DEBUG_INFO_BYTES = 2 << 30


def is_too_large(with_dwarf: Image | None) -> bool:
    """Return True for debug information that is too large to read."""
    return with_dwarf is not None and with_dwarf.elf.debug_info_bytes > MAX_DEBUG_INFO_BYTES


def advice(
    image: Image,
    debug: Image | None,
    resolver: ModuleResolver,
    remedy: str = "",
    *,
    servers_were_asked: bool = False,
) -> str:
    """Describe what a module lacks once its symbol tables are read; ``""`` if it lacks nothing.

    Args:
        image: the module's own file.
        debug: its separate debug file, if there is one.
        resolver: the module's symbol tables.
        remedy: how to install its debug file with the distribution's package manager; "" if
            unknown.
        servers_were_asked: do not advise the use of debuginfod.
    """
    with_dwarf = debug_image(image, debug)
    if is_too_large(with_dwarf):
        return "too much debug information to read: no inlined functions and lines"
    if with_dwarf is not None:
        return "reading debug information"
    if resolver.tables == "gopclntab":
        lacks = ": no inlined functions" if resolver.lacks_inlines else ""
        return f"names and lines from Go's own table{lacks}"
    if isinstance(image.elf, MachOFile):
        return _apple_advice(image.elf, resolver)
    if resolver.tables == "symtab":
        what = "no debug information: no inlined functions and lines"
        return f"{what}; {remedy}" if remedy else what
    what = "only exported names" if resolver.tables == "dynsym" else "no names"
    if image.origin == MEMORY:
        return f"the file is gone, and was read from memory: {what}; run as root to read it"
    build_id = image.elf.build_id
    which = f" for build-id {build_id}" if build_id else ""
    remedy = remedy or "install its debug package"
    ask = "" if servers_were_asked else ", use --debuginfod"
    return f"stripped: {what}; {remedy}{ask}, or give --symbol-dir a file{which}"


def _apple_advice(file: MachOFile, resolver: ModuleResolver) -> str:
    """Describe what an image of an Apple system lacks; its DWARF is in a dSYM bundle."""
    what = "no debug information: no inlined functions and lines"
    if resolver.tables != "symtab":
        names = "only exported names" if resolver.tables == "dynsym" else "no names"
        what = f"stripped: {names}"
    make = "run dsymutil where it was built, and " if has_debug_map(file) else ""
    which = f" (UUID {file.build_id})" if file.build_id else ""
    return f"{what}; {make}give --symbol-dir the folder of {resolver.module_name}.dSYM{which}"
