"""The processes of a recording by program."""

from __future__ import annotations

from itertools import count

from flametap.model import Process
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers
from flametap.recording.profile.store import Profile
from flametap.recording.programs import Program, program_line, programs
from flametap.recording.unsampled import Unsampled


def test_processes_of_one_program_are_one() -> None:
    profile = Profile()
    unsampled = Unsampled(profile, SymbolTable(profile.locate), Numbers(), count(9).__next__)
    for number, (pid, program) in enumerate([(1, "make"), (2, "cc1"), (3, "cc1")]):
        process = Process(number, pid, program, program, first_seen_ns=10**9)
        profile.add_process(process)
        unsampled.add_early(process, 10_000_000)
    for _ in range(1200):
        unsampled.add_short("cc1", 0, 1_000_000)
    unsampled.settle()
    unsampled.apply()
    assert programs(profile) == [
        Program("cc1", 1202, 1_220_000_000),
        Program("make", 1, 10_000_000),
    ]
    assert program_line(profile) == "cc1 × 1,202 1.2 s, make 10 ms"


def test_recording_of_one_process_says_nothing() -> None:
    profile = Profile()
    profile.add_process(Process(0, 1, "make", "make"))
    assert program_line(profile) == ""
