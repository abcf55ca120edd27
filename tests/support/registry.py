"""Programs of others, from npm."""

from __future__ import annotations

import subprocess
from pathlib import Path


def unpacked(npm: str, package: str, version: str, folder: Path) -> Path:
    """Fetch a package into a folder, and return its own."""
    fetch = [npm, "pack", "--silent", f"{package}@{version}"]
    subprocess.run(fetch, cwd=folder, check=True, capture_output=True, timeout=120)
    (archive,) = folder.glob("*.tgz")
    subprocess.run(["tar", "-xzf", archive], cwd=folder, check=True, timeout=60)
    return folder / "package"
