"""A profile that the agents of several processes write into."""

from __future__ import annotations

from typing import Any

import wire
from flametap.model import Process
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers, ProcessNumbers
from flametap.recording.profile.store import Profile
from flametap.wire.decoder import Decoder


class Several:
    """A profile that several agents write into."""

    def __init__(self) -> None:
        self.profile = Profile()
        self.names = SymbolTable(self.profile.locate)
        self._whole = Numbers()
        self._each: dict[int, ProcessNumbers] = {}

    def send(self, process: int, now_ns: int, **sections: Any) -> None:
        if process not in self._each:
            self._each[process] = ProcessNumbers(self._whole, process)
            self.profile.add_process(Process(process, 100 + process, "worker", "worker"))
        for batch in Decoder().feed(wire.batch(now_ns, **sections)):
            self.profile.apply(self._each[process].batch(batch), process)

    def frames(self) -> list[Any]:
        return [frame for _, frame in self.profile.news().addresses]
