"""Build the table of calls from a file's debug information. Runs in the worker's process."""

from __future__ import annotations

import time

from ...linux.elf_headers import SHT_SYMTAB, SYMBOL
from ...recording.names.inline_chains import LinesError
from ..dwarf.attributes import DwarfError
from ..dwarf.callsites import read_calls
from ..dwarf.sections import load
from ..locate.debug_links import alt_link
from ..object.object_file import ObjectError, ObjectFile
from .job import Built, DebugJob, open_input_image

DEADLINE_S = 120.0
MAX_INFO_BYTES = 160 << 20  # uncompressed; read at 5 MB/s
_STT_FUNC = 2


def build_calls(job: DebugJob) -> Built:
    """Return the table of calls for a job.

    Raises:
        LinesError: there is no debug information, or it is damaged.
    """
    end = time.monotonic() + DEADLINE_S

    def check() -> None:
        if time.monotonic() > end:
            raise LinesError("its calls were not read in time")

    images = [open_input_image(path) for path in (job.debug, job.alt) if path]
    try:
        alt = load(images[1].elf) if len(images) > 1 and alt_link(images[0].elf) else None
        main = load(images[0].elf, alt=alt)
        if len(main.info) > MAX_INFO_BYTES:
            raise LinesError("too much debug information to read calls from")
        elf = images[0].elf
        return Built(read_calls(main, _global_functions(elf), elf.at_addr, check))
    except (DwarfError, ObjectError) as error:
        raise LinesError(str(error)) from error
    finally:
        for image in images:
            image.close()


def _global_functions(elf: ObjectFile) -> dict[bytes, int]:
    """Return the file_addr of each function in the symbol table that may be called by name.

    Indirect functions (STT_GNU_IFUNC) are left out: a call runs another function than theirs.
    """
    section = elf.section(".symtab")
    if section is None or section.kind != SHT_SYMTAB or section.link >= len(elf.sections):
        return {}
    strings = elf.data(elf.sections[section.link])
    data = elf.data(section)
    found = {}
    for name, info, _, index, value, _ in SYMBOL.iter_unpack(data[: len(data) // 24 * 24]):
        if info >> 4 and info & 15 == _STT_FUNC and index and name < len(strings):
            found[strings[name : strings.find(b"\0", name)].split(b"@")[0]] = value
    return found
