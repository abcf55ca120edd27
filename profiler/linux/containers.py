"""Containers, as the control groups of their processes tell them; no runtime is asked.

Docker, Podman, containerd, CRI-O and Kubernetes put the id of a container into the path of its
control group, with either cgroup driver.

Source: cgroups(7); the runtimes' drivers ``cgroupfs`` and ``systemd``.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import NamedTuple

from . import procfs

SHORTEST_ID = 12  # hexadecimal digits, as `docker ps` shows them
_ID = re.compile(r"(?:^|[/-])([0-9a-f]{64})(?:\.scope)?(?=/|$)")
_MONITOR = re.compile(r"(?:^|[/-])conmon-[0-9a-f]{64}")
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_RUNTIMES = (
    ("libpod", "podman"),
    ("crio", "cri-o"),
    ("cri-containerd", "containerd"),
    ("docker", "docker"),
    ("kubepods", "kubernetes"),
)


class Container(NamedTuple):
    """A container: its runtime and the uid of its pod, where the path says so, and its id."""

    runtime: str
    id: str
    pod: str

    def __str__(self) -> str:
        """Name it as its runtime's tools do."""
        name = f"{self.runtime} container {self.id[:SHORTEST_ID]}".strip()
        return f"{name} of pod {self.pod}" if self.pod else name


def container_of(pid: int, proc: str = procfs.PROC) -> Container | None:
    """Return the container that a process is in; None if it is in none that is known.

    Raises:
        OSError: the process has gone, or may not be looked at.
    """
    with open(f"{proc}/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
        paths = [line.rstrip("\n").split(":", 2)[-1] for line in file]
    for path in sorted(paths, key=len, reverse=True):
        if _MONITOR.search(path):  # podman's or CRI-O's own process beside a container
            continue
        found = _ID.findall(path)
        if found:
            pod = _POD.search(path)
            runtime = next((name for part, name in _RUNTIMES if part in path), "")
            return Container(runtime, found[-1], pod[1].replace("_", "-") if pod else "")
    return None


def processes_of(container_id: str, proc: str = procfs.PROC) -> list[int]:
    """Return the processes of a container, by the first digits of its id; ordered by pid."""
    return [pid for pid, found in _all(proc) if found.id.startswith(container_id)]


def _all(proc: str) -> Iterator[tuple[int, Container]]:
    for pid in procfs.list_pids(proc):
        with contextlib.suppress(OSError):
            found = container_of(pid, proc)
            if found is not None:
                yield pid, found
