"""List the code in a process's memory: mapped files and generated code.

We read procfs once, so all answers belong to one moment. A mapping without a file, or of shared
memory without an object file, counts as generated code: runtimes map generated code twice, writable
at one address and executable at the other.

Source: proc(5), "/proc/pid/maps", "/proc/pid/map_files".
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from ...linux.file_rights import ProcessUser
from ...linux.maps import Mapping, read_maps
from ...model import Module
from .memory_image import VDSO_PATH
from .open_file import Image, Root, open_image

PAGE_BYTES = 4096
# Names of shared memory. A program that runs from a memfd also has such a name, but is a file.
_SHARED_MEMORY = ("/memfd:", "/dev/zero", "/SYSV", "/dev/shm/")


class Range(NamedTuple):
    """A range of a process's memory."""

    start: int  # runtime_addr
    end: int
    load_bias: int  # runtime_addr - file_addr; 0 for generated code


class ProcessCode(NamedTuple):
    """All executable memory of a process."""

    # By address; a module has one or more ranges.
    modules: list[tuple[Module, list[Range]]]
    generated: list[Range]


def code_of(pid: int) -> ProcessCode:
    """Return the files that a process has mapped executable, its vDSO, and its generated code.

    Raises:
        OSError: there is no such process, or its mappings may not be read.
    """
    proc = f"/proc/{pid}"
    root = Root(f"{proc}/root", ProcessUser(pid))
    code = ProcessCode([], [])
    files: dict[tuple[str, int, str], list[Mapping]] = {}
    for line in [each for each in read_maps(proc) if each.is_executable]:
        if line.inode or line.path == VDSO_PATH:
            files.setdefault((line.device, line.inode, line.shown_path), []).append(line)
        elif not line.path.startswith("[v"):  # the kernel's own pages, vsyscall's among them
            code.generated.append(Range(line.start, line.end, 0))
    for parts in files.values():
        path = parts[0].path
        own = None if path == VDSO_PATH else open_mapped(proc, root, parts[0])
        if own is None and path.startswith(_SHARED_MEMORY):
            code.generated.extend(Range(part.start, part.end, 0) for part in parts)
            continue
        build_id = "" if own is None else own.elf.build_id
        ranges = [
            Range(part.start, part.end, part.start - _file_addr(own, part.file_offset))
            for part in parts
        ]
        if own is not None:
            own.close()
        start, end, bias = ranges[0]
        number = len(code.modules) + 1
        module = Module(number, path, bias, start, end, build_id)
        code.modules.append((module, ranges))
    return code


def open_mapped(proc: str, root: Root, mapping: Mapping) -> Image | None:
    """Open the file of a mapping, with the rights of ``root``; None if it cannot be read.

    Without the right to use map_files, this works only if the file's name still leads to it.

    Args:
        proc: ``/proc/PID``.
        root: the root of the process.
        mapping: one of the process.
    """
    with contextlib.suppress(OSError, ValueError):
        return open_image(mapping.shown_path, root, f"{proc}/map_files/{mapping.span}")
    with contextlib.suppress(OSError, ValueError):
        image = open_image(mapping.shown_path, root)
        if image.file is not None and image.file.inode == mapping.inode:
            return image
        image.close()
    return None


def _file_addr(image: Image | None, file_offset: int) -> int:
    for segment in [] if image is None else image.elf.segments:
        # A mapping starts at the beginning of the page that contains the segment's start.
        start = segment.offset & -PAGE_BYTES
        if start <= file_offset < segment.offset + segment.file_size:
            return segment.vaddr - segment.offset + file_offset
    return file_offset
