"""A virtual machine that runs one command on another kernel, with the host's files.

qemu emulates the processor by default, which runs anywhere, but some twenty times slower. The
machine sees the host's file system read-only, and one folder that it may write to. It has no
network. The kernel writes to the first serial line (``console.log``), the command to the second.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernel_packages import Kernel, KernelError

QEMU = "qemu-system-x86_64"
MEMORY_MB = 3072
CPUS = 2
INIT = Path(__file__).with_name("init.c")
_END = "flametap-vm: exit "


@dataclass(frozen=True)
class Ended:
    """How a machine ended: the command's exit code, or None and why there is none."""

    exit_code: int | None
    why: str = ""


def run(
    kernel: Kernel,
    command: Sequence[str],
    folder: Path,
    accel: str,
    deadline_s: float,
    on_line: Callable[[str], None],
) -> Ended:
    """Boot, run ``command`` in ``folder`` as root, power off.

    Args:
        kernel: what to boot.
        command: words without line feeds; paths are the host's.
        folder: an existing folder, the only one that can be written to beside /tmp.
        accel: ``kvm`` or ``tcg``.
        deadline_s: the machine is ended after so long.
        on_line: called with each line of the command's output.

    Raises:
        KernelError: qemu or a C compiler is missing.
    """
    if shutil.which(QEMU) is None:
        raise KernelError(f"no {QEMU}: apt install qemu-system-x86")
    console = folder / "console.log"
    initrd = folder / "initrd"
    initrd.write_bytes(_initrd(kernel, [str(folder), *command], folder))
    process = subprocess.Popen(
        _machine(kernel, initrd, console, folder, accel),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    late = threading.Event()

    def end() -> None:
        late.set()
        process.kill()

    timer = threading.Timer(deadline_s, end)
    timer.start()
    exit_code = None
    try:
        assert process.stdout is not None
        for line in process.stdout:
            text = line.rstrip("\r\n")
            if text.startswith(_END):
                exit_code = int(text.removeprefix(_END))
            else:
                on_line(text)
        complaint = process.communicate()[1].strip()
    finally:
        timer.cancel()
        process.kill()
        process.wait()
    if exit_code is not None:
        return Ended(exit_code)
    if late.is_set():
        return Ended(None, f"not done after {deadline_s:g} s")
    last = console.read_text(errors="replace").strip().splitlines() if console.exists() else []
    return Ended(None, "the machine ended early: " + (complaint or "\n".join(last[-20:])))


def _machine(kernel: Kernel, initrd: Path, console: Path, folder: Path, accel: str) -> list[str]:
    share = "local,security_model=none,multidevs=remap"
    return [
        *(QEMU, "-accel", accel, "-cpu", "max" if accel == "tcg" else "host"),
        *("-smp", str(CPUS), "-m", str(MEMORY_MB)),
        *("-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"),
        *("-serial", f"file:{console}", "-serial", "stdio"),
        *("-kernel", str(kernel.image), "-initrd", str(initrd)),
        *("-append", "console=ttyS0 panic=-1 loglevel=7 mitigations=off"),
        *("-virtfs", f"{share},path=/,mount_tag=host,readonly=on"),
        *("-virtfs", f"{share},path={folder},mount_tag=out"),
    ]


def _initrd(kernel: Kernel, words: Sequence[str], folder: Path) -> bytes:
    """A cpio archive (newc) with the first program, the modules and the command."""
    init = folder / "init"
    flags = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static"]
    try:
        subprocess.run(["gcc", *flags, "-o", str(init), str(INIT)], check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        raise KernelError("no C compiler that links: apt install gcc libc6-dev") from None
    parts = [
        _entry("dev", 0o040755),
        _entry("dev/console", 0o020600, device=(5, 1)),
        _entry("modules", 0o040755),
        _entry("init", 0o100755, init.read_bytes()),
        _entry("command", 0o100644, "\n".join(words).encode()),
        *(_entry(f"modules/{path.name}", 0o100644, path.read_bytes()) for path in kernel.modules),
        _entry("TRAILER!!!", 0),
    ]
    return b"".join(parts)


def _entry(name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)) -> bytes:
    """One file; see Documentation/driver-api/early-userspace/buffer-format.rst."""
    fields = [0, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return b"".join(part + bytes(-len(part) % 4) for part in (head, content))
