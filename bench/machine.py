"""The machine and the software versions of a result."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).resolve().parent


def _first_line(*command: str) -> str:
    """Return the first line of a command's output; "" if the command is missing."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = ran.stdout.strip().splitlines()
    return lines[0] if lines and ran.returncode == 0 else ""


def _field(path: str, name: str) -> str:
    match = re.search(rf"^{name}\s*[:=]\s*\"?([^\"\n]*)", Path(path).read_text(), re.MULTILINE)
    return match.group(1).strip() if match else ""


def facts() -> dict[str, str]:
    """Return machine, kernel and distribution."""
    memory_kb = int(_field("/proc/meminfo", "MemTotal").split()[0])
    virtual = " (virtual machine)" if "hypervisor" in Path("/proc/cpuinfo").read_text() else ""
    return {
        "CPU": f"{os.cpu_count()} × {_field('/proc/cpuinfo', 'model name')}{virtual}",
        "memory": f"{memory_kb / 1048576:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "system": _field("/etc/os-release", "PRETTY_NAME"),
        "libc": " ".join(platform.libc_ver()),
    }


def versions() -> dict[str, str]:
    """Return the versions of flametap and its peers; a missing peer has none."""
    commit = _first_line("git", "-C", str(HERE), "rev-parse", "--short", "HEAD")
    # Results that are just being written do not count.
    if _first_line("git", "-C", str(HERE.parent), "status", "--porcelain", "agent", "profiler"):
        commit += " with changes"
    found = {
        "flametap": f"{metadata.version('flametap')} {commit}".strip(),
        "frida": metadata.version("frida"),
        "Python": sys.version.split()[0],
    }
    for name, package in (("py-spy", "py-spy"), ("austin", "austin-dist")):
        try:
            found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    for name, command in (("perf", "perf"), ("gdb", "gdb"), ("gcc", "gcc")):
        line = _first_line(command, "--version")
        found[name] = line.split()[-1] if line else "not installed"
    return found
