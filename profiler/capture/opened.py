"""A recording from a file, as the page and the exports read one."""

from __future__ import annotations

import time
from pathlib import Path
from typing import BinaryIO

from ..analysis.code_source import CodeSource
from ..analysis.kept_code import CODE, TEXT, KeptCode
from ..errors import InputError, UsageError
from ..model import Status
from ..recording.reader import Loaded, load
from .views import Views

IS_A_FILE = "this is a recording from a file"


class Opened(Views):
    """A recording that has ended. ``ProfileSource`` describes the methods.

    Args:
        loaded: what the file holds.

    Attributes:
        pid: of the process that was recorded.
        command: its command line.

    Raises:
        ValueError: its texts make no sense.
    """

    def __init__(self, loaded: Loaded) -> None:
        super().__init__(loaded.profile, loaded.table)
        self._loaded = loaded
        self.pid = loaded.status.pid
        self.command = loaded.status.command
        self._kept = KeptCode(loaded.others, loaded.table, loaded.status.symbols)

    def code_source(self) -> CodeSource:
        """See ``Views``."""
        return self._kept

    def status(self) -> Status:
        """See ``ProfileSource.status``."""
        return self._loaded.status

    def wait_newer(self, revision: int, timeout_s: float) -> int:
        """See ``ProfileSource.wait_newer``. Nothing comes any more."""
        if revision == self._loaded.status.revision and timeout_s > 0:
            time.sleep(timeout_s)
        return self._loaded.status.revision

    def set_paused(self, paused: bool) -> None:
        """See ``ProfileSource.set_paused``."""
        del paused
        raise UsageError("nothing is being recorded", IS_A_FILE)

    def set_sampling(self, rate_hz: float, budget_percent: float) -> None:
        """See ``ProfileSource.set_sampling``."""
        del rate_hz, budget_percent
        raise UsageError("nothing is being recorded", IS_A_FILE)


def open_recording(path: str) -> Opened:
    """Open the file of a recording.

    Raises:
        InputError: it cannot be read, is no recording, or nothing of it makes sense.
    """
    try:
        with Path(path).open("rb") as file:
            return _opened(file, path)
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror or error}",
            "name a recording that 'flametap record -o NAME.flametap' has made",
        ) from error


def _opened(file: BinaryIO, path: str) -> Opened:
    loaded = load(file, path, (CODE, TEXT))
    try:
        return Opened(loaded)
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}", "record again") from error
