"""Frida's first steps in a target that has another C library than we have, as in a container.

It does not know where mmap is there, and so overwrites the end of some code of the target's, with
all threads stopped, by PTRACE_POKEDATA: each of them loses a wait (EINTR), and a profiler that is
killed just then leaves the code overwritten. We give these steps memory of their own instead: what
Frida writes and calls at the place it has chosen is written and called there, and no other thread
needs to stand still.

Only on the thread that traces. mmap(2), proc(5).
"""

from __future__ import annotations

import errno
import mmap
from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import CannotAttachError
from ...linux import remote_syscall
from ...linux.maps import read_maps
from .footprint import is_left_by_frida

# Frida takes the first code that its bootstrapper fits into, which is some KiB; but less than this.
BOOTSTRAPPER_BYTES_MAX = 65536


@dataclass
class CodeSwap:
    """Where Frida believes that it writes, and where it does."""

    start: int  # runtime_addr of the code that stays as it is, page aligned
    size_bytes: int
    memory: int  # runtime_addr of what is used instead; 0 when that is gone

    def real(self, believed_addr: int) -> int | None:
        """The runtime_addr that is used in place of another, or that one. None when it is gone:
        Frida puts back code that has never been overwritten.
        """
        if not self.start <= believed_addr < self.start + self.size_bytes:
            return believed_addr
        return believed_addr - self.start + self.memory if self.memory else None

    def end(self, pid: int) -> None:
        """Make the process unmap the memory. Its main thread stands still."""
        if self.memory and remote_syscall.unmap(pid, self.memory, self.size_bytes):
            self.memory = 0


def can_begin(pid: int) -> bool:
    """Can the code that Frida may choose be swapped? Code that may be written to is overwritten
    behind our back, by process_vm_writev(2): there the other threads have to stand still, unless it
    is what an earlier attach has left.
    """
    for start, end, permissions in _code(pid):
        is_writable = "w" in permissions
        if is_writable and not is_left_by_frida(end - start):
            return False
        if is_writable or end - start >= BOOTSTRAPPER_BYTES_MAX:
            break
    return remote_syscall.can_execute(pid)


def begin(pid: int, believed_addr: int) -> CodeSwap | None:
    """Make a process map memory to be used in place of code; its main thread stands still.

    Args:
        pid: the process.
        believed_addr: the first address that Frida wants to write to.

    Returns:
        None when there is no code.

    Raises:
        CannotAttachError: the process may not map new code.
        OSError: nothing can be mapped.
    """
    if believed_addr % mmap.PAGESIZE:
        return None
    for start, end, _ in _code(pid):
        if start <= believed_addr < end:
            size_bytes = end - believed_addr
            return CodeSwap(believed_addr, size_bytes, _map_code(pid, size_bytes))
    return None


def require_code_memory(pid: int) -> None:
    """Find out whether a process may map new code, before Frida tries: a failure would change the
    errno of its main thread, which stands still.

    Raises:
        CannotAttachError: it may not. Nothing of it has changed.
    """
    try:
        start = _map_code(pid, mmap.PAGESIZE)
    except OSError:
        return
    remote_syscall.unmap(pid, start, mmap.PAGESIZE)


def _map_code(pid: int, size_bytes: int) -> int:
    """Make the process map memory for code, and return its runtime_addr."""
    access = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    try:
        return remote_syscall.map_memory(pid, size_bytes, access)
    except OSError as error:
        if error.errno != errno.EACCES:
            raise
        raise CannotAttachError(
            f"process {pid} may not map new code, which the agent is: MemoryDenyWriteExecute of "
            "systemd, PR_SET_MDWE or SELinux's execmem forbids it",
            "nothing was changed; start a service without it (systemctl edit UNIT: "
            "MemoryDenyWriteExecute=no), or record it with perf",
        ) from error


def _code(pid: int) -> Iterator[tuple[int, int, str]]:
    """Start, end (runtime_addr) and permissions of what can be executed, of files or not."""
    for mapping in read_maps(f"/proc/{pid}"):
        if mapping.permissions.startswith("r") and mapping.is_executable:
            yield mapping.start, mapping.end, mapping.permissions
