"""Read small parts of a file: compressed symbols, missing parts. Runs in the worker's process.

A few bytes may unpack to gigabytes, and the library that unpacks them is native code: neither is
for the profiler's own process.
"""

from __future__ import annotations

from ..dwarf.attributes import DwarfError
from ..dwarf.merge import missing_parts
from ..dwarf.split import SplitPlaces
from ..locate.open_file import open_image
from ..names.inline_chains import LinesError
from ..object.elf import ElfFile
from ..object.object_file import ObjectError
from .job import Built, DebugJob


def unpack_mini_symbols(job: DebugJob) -> Built:
    """Return the ELF file in ``.gnu_debugdata``.

    Raises:
        LinesError: there is none, it is damaged, or it unpacks to too much.
    """
    image = open_image(job.debug, via=job.debug)
    try:
        data = image.elf.unpack_mini_debug_info() if isinstance(image.elf, ElfFile) else b""
    except ObjectError as error:
        raise LinesError(str(error)) from error
    finally:
        image.close()
    if not data:
        raise LinesError("no .gnu_debugdata")
    return Built(data)


def name_missing_parts(job: DebugJob) -> Built:
    """Return a note on the parts of debug information that cannot be found; see ``merge``."""
    images = [open_image(path, via=path) for path in (job.debug, job.alt) if path]
    try:
        alt = images[1].elf if len(images) > 1 else None
        places = SplitPlaces(job.roots, job.folders, job.names)
        return Built(b"", missing_parts(images[0].elf, alt, places))
    except DwarfError as error:
        return Built(b"", str(error))
    finally:
        for image in images:
            image.close()
