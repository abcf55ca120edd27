"""A profile that the agents of several processes write into."""

from __future__ import annotations

from typing import Any

import wire
from flametap.model import Process, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers, ProcessNumbers
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.wire.decoder import Decoder

MS = 10**6
# process → program; their second threads run for a third of the time of the first ones.
PROGRAMS = {0: "make", 1: "cc1", 2: "cc1"}
FIRST_MS, SECOND_MS = 30, 10


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


def build_tree() -> Recording:
    """Return a recording of the processes in ``PROGRAMS``, two threads each."""
    several = Several()
    for number, program in PROGRAMS.items():
        several.send(
            number,
            100 * MS,
            modules=[wire.module(1, f"/opt/{program}")],
            threads=[wire.thread(1, 100 + number, program), wire.thread(2, 300 + number, "pool")],
            traces=[wire.trace(1, [wire.frame(1, 0x10)])],
            intervals=[
                wire.interval(1, 1, MS, FIRST_MS * MS, FIRST_MS * MS),
                wire.interval(2, 1, 50 * MS, SECOND_MS * MS, SECOND_MS * MS),
            ],
        )
        several.profile.add_process(Process(number, 100 + number, program, f"/usr/bin/{program}"))
    status = Status(100, "make", "ended", program="make", processes=len(PROGRAMS), is_final=True)
    status.duration_ns = several.profile.duration_ns
    status.revision = several.profile.revision
    return Recording(several.profile, several.names, lambda: status)
