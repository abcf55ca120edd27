"""Recordings in notebooks: ``%load_ext flametap``, then ``%%flametap`` above a cell."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from .own_process import OwnRecording
from .recording import Recording, load


def load_ipython_extension(shell: Any) -> None:
    """Add the magic command ``%%flametap [RATE]``: record this notebook's kernel while a cell runs.

    Called by ``%load_ext flametap``.
    """

    def record_cell(line: str, cell: str) -> Recording:
        folder = tempfile.mkdtemp(prefix="flametap-")
        path = os.path.join(folder, "cell.flametap")
        own = OwnRecording(path, float(line) if line.strip() else 100.0)
        try:
            shell.run_cell(cell)
        finally:
            own.stop()
        return load(path, folder=folder)

    shell.register_magic_function(record_cell, "cell", "flametap")
