"""A procfs of our own: folders with the files that ``flametap.linux.procfs`` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

MY_CAPABILITIES = "000001ffffffffff"


class FakeProc:
    """Build processes under ``root``, which is given to the functions under test as ``proc``.

    Our own process is there from the beginning, as are the kernel's limits.
    """

    def __init__(self, root: Path, *, own_uid: int = 0, own_capabilities: str = "0") -> None:
        self.root = root
        for folder in ("sys/kernel", "self"):
            (root / folder).mkdir(parents=True)
        (root / "sys/kernel/threads-max").write_text("10000\n")
        (root / "sys/kernel/pid_max").write_text("10000\n")
        (root / "loadavg").write_text("0.0 0.0 0.0 1/100 4242\n")
        (root / "self/mountinfo").write_text("")
        self.process(os.getpid(), uid=own_uid, CapEff=own_capabilities, CapPrm=own_capabilities)

    @property
    def proc(self) -> str:
        """What to hand over."""
        return str(self.root)

    def process(
        self,
        pid: int,
        *,
        name: str = "demo",
        uid: int = 1000,
        command: str = "demo --all",
        flags: int = 0,
        maps: str = "",
        program: bytes = b"",
        status: Mapping[str, str] | None = None,
        **more_status: str,
    ) -> Path:
        """Lays out a process and returns its folder; more keywords replace lines of "status"."""
        folder = self.root / str(pid)
        folder.mkdir()
        lines = {
            "Name": name,
            "State": "S (sleeping)",
            "Tgid": str(pid),
            "Pid": str(pid),
            "PPid": "1",
            "TracerPid": "0",
            "Uid": f"{uid}\t{uid}\t{uid}\t{uid}",
            "Gid": f"{uid}\t{uid}\t{uid}\t{uid}",
            "Threads": "1",
            "CapPrm": "0",
            "CapEff": "0",
            "Seccomp": "0",
            **(status or {}),
            **more_status,
        }
        (folder / "status").write_text("".join(f"{k}:\t{v}\n" for k, v in lines.items()))
        (folder / "fd").mkdir()
        (folder / "task" / str(pid)).mkdir(parents=True)
        (folder / "task" / str(pid) / "status").write_text((folder / "status").read_text())
        (folder / "stat").write_text(f"{pid} ({name}) S 1 1 1 0 -1 {flags}{' 0' * 12} 0 0\n")
        (folder / "cmdline").write_bytes(command.replace(" ", "\0").encode())
        (folder / "maps").write_text(maps)
        (folder / "cgroup").write_text("0::/\n")
        (folder / "limits").write_text(
            "Max processes             unlimited  unlimited  processes\n"
        )
        (folder / "mem").write_bytes(b"")
        (folder / "root").symlink_to("/")
        (folder / "program").write_bytes(program)
        (folder / "exe").symlink_to(folder / "program")
        return folder


def mapping(start: int, size: int, path: str, permissions: str = "r--p") -> str:
    """A line of ``maps``."""
    return f"{start:x}-{start + size:x} {permissions} 00000000 08:01 42    {path}\n"
