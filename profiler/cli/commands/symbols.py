"""``flametap symbols``: sources of names, missing debug information, functions at addresses."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ...errors import InputError, NoSuchProcessError, PermissionRefusedError, UsageError
from ..option_values import parse_pid
from ..options import debuginfod_options, servers, symbol_dir_option
from ..progress import Progress
from ..streams import print_json, print_lines
from ..targets import choose, find_processes, is_name
from .addresses import parse_address, read_addresses, show_names

if TYPE_CHECKING:
    from ...symbols.inventory import Inventory, ModuleSymbols
    from ...symbols.locate.module_files import TargetFiles

STDIN = "-"
SHORT_ID = 12  # digits of a build-id that suffice to distinguish builds
ANY_ADDRESS = 1 << 64
LINES = {"inlines": "inlines", "lines": "yes", "": "no"}
LINES_IN_FULL = {
    "inlines": "yes, with inlined functions",
    "lines": "yes, without inlined functions",
    "": "no",
}


@click.command(short_help="Show sources of names and missing debug files; look up addresses.")
@click.argument("target", metavar="FILE|PID|NAME")
@click.argument("addresses", metavar="[ADDRESS]...", nargs=-1)
@symbol_dir_option
@debuginfod_options[0]
@debuginfod_options[1]
@click.option(
    "--arch",
    default="",
    metavar="ARCH",
    help="For a file with parts for several processors: the part to read, as in arm64.",
)
@click.option("--full", is_flag=True, help="Print names with parameters and return types.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
def symbols(
    target: str,
    addresses: tuple[str, ...],
    symbol_dirs: tuple[str, ...],
    debuginfod: bool,
    debuginfod_urls: tuple[str, ...],
    arch: str,
    full: bool,
    as_json: bool,
) -> int:
    """Show where the names of a program's functions come from (the file itself, its debug file, its
    dSYM), how many there are, whether lines and inlined functions are known, and what to install
    for more. For a process, this covers each module that it has mapped. It does not attach.

    With ADDRESSes, show the functions there, innermost first, with file and line. An address is
    hexadecimal, or module+0x12 as in a flame graph; - reads addresses from stdin, one per line.
    Addresses in a FILE are as linked, addresses in a process are those in its memory.

    Digits are a process id; write ./123 for a file of that name. A name that is not a file is the
    name of a process.
    """
    if not target:
        raise UsageError("no file and no process is named", "`flametap ps` lists processes")
    wanted = None if addresses == (STDIN,) else [parse_address(text) for text in addresses]
    asked = servers(debuginfod, debuginfod_urls)
    if is_name(target) and not os.path.lexists(target) and (fitting := find_processes(target)):
        target = str(choose(target, fitting.processes, Progress()))
    is_pid = target.isascii() and target.isdigit()
    if is_pid and arch:
        raise UsageError("--arch is for files only", "leave it out for a process")
    if is_pid:
        found = of_process(parse_pid(target), symbol_dirs, asked)
    else:
        found = of_file(target, arch, symbol_dirs, asked)
    try:
        if asked:
            found.fetch()
        if addresses:
            chunks = read_addresses(sys.stdin.fileno()) if wanted is None else iter([wanted])
            show_names(found, is_pid, chunks, full, as_json)
        elif as_json:
            print_json([as_dict(each) for each in found.modules])
        else:
            print_lines(as_table(found.modules) if is_pid else as_sheets(found.modules))
    finally:
        found.close()
    return 0


# -- what to inspect ------------------------------------------------------------------------------


def of_file(path: str, arch: str, symbol_dirs: Sequence[str], asked: Sequence[str]) -> Inventory:
    """Open the object file at a path, with one module for each processor it has a part for.

    Raises:
        InputError: it cannot be read, or is not an object file.
    """
    from ...model import Module
    from ...symbols.inventory import Inventory, machine_name
    from ...symbols.locate.dsym import dwarf_in
    from ...symbols.locate.open_file import open_image
    from ...symbols.object.open_object import arches

    try:
        file_path = os.path.abspath(dwarf_in(path) or path)
        if os.path.isdir(file_path):
            raise InputError(f"{path} is a folder", "name a file in it, or a .dSYM bundle")
        image = open_image(file_path, origin="as named", arch=arch)
        assert image.file is not None
        parts = arches(image.file.read, image.file.size)
        images = [image]
        for name, _ in parts:
            if not arch and name != machine_name(image.elf):
                images.append(open_image(file_path, origin="as named", arch=name))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}", "`flametap ps` lists processes") from None
    except OSError as error:
        what = error.strerror or str(error)
        raise InputError(f"{path} cannot be read: {what}", "name a program or library") from None
    except ValueError as error:  # ObjectError, or a NUL in the path
        hint = "name a program, a library or a debug file"
        if "for " in str(error) and arch:
            hint = "leave out --arch to see all"
        raise InputError(f"{path}: {error}", hint) from None
    found = Inventory(files_of(None, symbol_dirs, asked))
    for number, image in enumerate(images, 1):
        found.add(Module(number, file_path, 0, 0, ANY_ADDRESS, image.elf.build_id), image)
    return found


def of_process(pid: int, symbol_dirs: Sequence[str], asked: Sequence[str]) -> Inventory:
    """Open all modules that a process has mapped.

    Raises:
        NoSuchProcessError, PermissionRefusedError: its mappings cannot be read.
        InputError: it has no mappings.
    """
    from ...symbols.inventory import Inventory
    from ...symbols.locate.process_code import code_of

    try:
        code = code_of(pid)
    except (FileNotFoundError, ProcessLookupError):
        raise NoSuchProcessError(
            f"there is no process {pid}", "`flametap ps` lists them; ./NAME is a file"
        ) from None
    except OSError as error:
        raise PermissionRefusedError(
            f"the mappings of process {pid} cannot be read: {error.strerror}",
            "run flametap as the same user, or with sudo",
        ) from None
    if not code.modules:
        raise InputError(
            f"process {pid} has no mappings: it has ended, or is a kernel thread",
            "`flametap ps` lists processes",
        )
    found = Inventory(files_of(pid, symbol_dirs, asked))
    for module, ranges in code.modules:
        found.add(module, ranges=ranges)
    if code.generated:
        found.add_generated(pid, code.generated)
    return found


def files_of(pid: int | None, symbol_dirs: Sequence[str], asked: Sequence[str]) -> TargetFiles:
    """Return access to the files of a process, or of this machine if ``pid`` is None."""
    from ...symbols.locate.module_files import TargetFiles

    if not asked:
        return TargetFiles(pid, symbol_dirs)
    from ...symbols.locate.debuginfod import client

    return TargetFiles(pid, symbol_dirs, client(asked))


# -- output ---------------------------------------------------------------------------------------


def as_table(found: Sequence[ModuleSymbols]) -> list[str]:
    """Format the modules of a process: one line each, followed by its remarks."""
    width = max(6, *(len(each.module.name) for each in found))
    lines = [f"{'MODULE':<{width}}  FUNCTIONS  LINES    {'BUILD-ID':<{SHORT_ID}}  SYMBOLS FROM"]
    for each in found:
        lines.append(
            f"{each.module.name:<{width}}  {each.functions:>9}  {LINES[each.lines]:<7}  "
            f"{each.build_id[:SHORT_ID] or '-':<{SHORT_ID}}  {'; '.join(sources_of(each)) or '-'}"
        )
        lines += [f"    {text}" for text in remarks(each)]
    return lines


def as_sheets(found: Sequence[ModuleSymbols]) -> list[str]:
    """Format the modules of a file: one block each, one fact per line."""
    lines: list[str] = []
    for each in found:
        rows = [
            ("file", each.module.path),
            ("format", f"{each.format}, {each.machine}"),
            ("UUID" if each.format == "Mach-O" else "build-id", each.build_id or "none"),
            ("functions", str(each.functions)),
            ("lines", LINES_IN_FULL[each.lines]),
            *(("symbols", text) for text in sources_of(each)),
            *(("note", text) for text in remarks(each)),
        ]
        lines += [""] if lines else []
        lines += [f"{name:<11}{value}" for name, value in rows]
    return lines


def as_dict(found: ModuleSymbols) -> dict[str, Any]:
    """Return a module's JSON object. ``lines`` is "inlines" (lines and inlined functions), "lines"
    or null.
    """
    return {
        "module": found.module.name,
        "path": found.module.path,
        "format": found.format or None,
        "machine": found.machine or None,
        "build_id": found.build_id or None,
        "functions": found.functions,
        "lines": found.lines or None,
        "sources": [
            {"what": each.what, "path": each.path or None, "found": each.origin}
            for each in found.sources
        ],
        "missing": found.missing or None,
        "not_used": found.rejected,
        "package": found.package or None,
    }


def sources_of(found: ModuleSymbols) -> list[str]:
    """Format the sources of a module's names, as in ".symtab of /usr/bin/x (mapped file)"."""
    return [
        f"{each.what} of {each.path} ({each.origin})"
        if each.path
        else f"{each.what} of {each.origin}"
        for each in found.sources
    ]


def remarks(found: ModuleSymbols) -> list[str]:
    """Return remarks on a module: missing debug information with its remedy, files not used."""
    texts = [found.missing] if found.missing else []
    return texts + [f"not used: {text}" for text in found.rejected]
