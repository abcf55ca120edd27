"""Find what asyncio says about its own structures: since 3.14, in the section ``.AsyncioDebug``.

The section is in the file of ``_asyncio``, or in the interpreter's own where that is built in. Its
numbers are read from memory, and used only if they are those of a layout that we know.

Source: Modules/_asynciomodule.c, struct _Py_AsyncioModuleDebugOffsets.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from ....linux.file_rights import ProcessUser
from ....linux.maps import read_maps
from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....linux.procfs import PROC
from ...locate.loaded_symbols import LoadedElf
from ...locate.mapped_files import MappedFile, mapped_files
from ...locate.open_file import Root
from ...locate.process_code import open_mapped
from ...object.elf import ElfError, ElfFile
from .object_layout import TaskLayout

_SECTION = ".AsyncioDebug"
_MODULE_NAME = "_asyncio."
_FIELDS = struct.Struct("<13Q")
_MAX_OFFSET = 1 << 24
_MAX_FILES = 4  # that are opened


class AsyncioDebug(NamedTuple):
    """Offsets in bytes: in a task, in the interpreter's state, in a thread's state."""

    task_size: int
    task_name: int
    task_awaited_by: int  # a task, or a set of tasks
    task_is_task: int
    task_awaited_by_is_set: int  # u8
    task_coroutine: int
    task_node: int  # in the list of all tasks: next and previous
    interpreter_size: int
    interpreter_tasks: int
    thread_size: int
    running_loop: int
    running_task: int
    thread_tasks: int

    def fits(self, task: TaskLayout) -> bool:
        """Return whether the numbers agree with what we know."""
        own = self.task_size, self.task_name, self.task_coroutine
        return own == (task.size, task.name, task.coroutine) and max(self) < _MAX_OFFSET


def find_asyncio_debug(
    pid: int, memory: ProcessMemory, module: str, proc: str = PROC
) -> AsyncioDebug | None:
    """Return what is in the section of a process; None if it has none.

    Args:
        pid: the process.
        memory: of it.
        module: path of the interpreter's file, as the process sees it.
        proc: where procfs is mounted.
    """
    folder = f"{proc}/{pid}"
    try:
        files = mapped_files(read_maps(folder))
    except OSError:
        return None
    own = [file for file in files if file.path.rpartition("/")[2].startswith(_MODULE_NAME)]
    own += [file for file in files if file.path == module]
    root = Root(f"{folder}/root", ProcessUser(pid, proc))
    for file in own[:_MAX_FILES]:
        addr = _section(folder, root, file)
        if not addr:
            continue
        try:
            load_bias = LoadedElf(memory, file.start).load_bias
            return AsyncioDebug(*_FIELDS.unpack(memory.read(load_bias + addr, _FIELDS.size)))
        except MemoryReadError:
            continue
    return None


def _section(folder: str, root: Root, file: MappedFile) -> int:
    """Return the file_addr of the section in a mapped file; 0 if it has none."""
    image = open_mapped(folder, root, file.code)
    if image is None:
        return 0
    try:
        if not isinstance(image.elf, ElfFile):
            return 0
        found = image.elf.section(_SECTION)
        return found.addr if found is not None and found.size >= _FIELDS.size else 0
    except ElfError:
        return 0
    finally:
        image.close()
