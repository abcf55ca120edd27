"""Read small parts of a file: compressed symbols, missing parts. Runs in the worker's process.

A few bytes may unpack to gigabytes, and the library that unpacks them is native code: neither is
for the profiler's own process.
"""

from __future__ import annotations

from ...recording.names.inline_chains import LinesError
from ..dwarf.attributes import DwarfError
from ..dwarf.merge import missing_parts
from ..object.elf import ElfFile
from ..object.object_file import ObjectError
from .job import Built, DebugJob, OpenNamed, open_input_image, split_places


def unpack_mini_symbols(job: DebugJob) -> Built:
    """Return the ELF file in ``.gnu_debugdata``.

    Raises:
        LinesError: there is none, it is damaged, or it unpacks to too much.
    """
    image = open_input_image(job.debug)
    try:
        data = image.elf.unpack_mini_debug_info() if isinstance(image.elf, ElfFile) else b""
    except ObjectError as error:
        raise LinesError(str(error)) from error
    finally:
        image.close()
    if not data:
        raise LinesError("no .gnu_debugdata")
    return Built(data)


def name_missing_parts(job: DebugJob, open_named: OpenNamed) -> Built:
    """Return a note on the parts of debug information that cannot be found; see ``merge``."""
    images = [open_input_image(path) for path in (job.debug, job.alt) if path]
    try:
        alt = images[1].elf if len(images) > 1 else None
        return Built(b"", missing_parts(images[0].elf, alt, split_places(job, open_named)))
    except DwarfError as error:
        return Built(b"", str(error))
    finally:
        for image in images:
            image.close()
