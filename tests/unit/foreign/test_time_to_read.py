"""Hostile files are read in a time that grows with their size, and no faster."""

from __future__ import annotations

import contextlib
import time

import pytest

from flametap.errors import InputError
from flametap.foreign.inlined_frames import MAX_JOINED
from foreign_text import frames, read

SIZE_BYTES = 200_000
MAX_CPU_S = 2.0  # some ten times as much as is needed
PERF = "a 1/1 1.0: 1 cycles:\n\tff m (x)\n"


def repeated(what: str) -> str:
    return what * (SIZE_BYTES // len(what))


HOSTILE = {
    "inlined, folded": "a;a" + repeated(";b_[i]") + " 1\n",
    "inlined, perf": PERF.replace("\tff", repeated("\tff b (inlined)\n") + "\tff"),
    "old frames of austin": "P1;T1;a 1\nP1;T1;" + repeated(" (") + " 1\n",
    "place in a source file": PERF + repeated(" ") + "x\n\n",
    "offsets of symbols": PERF + "\tff " + repeated("+0x1 (") + "\n\n",
    "thread of async-profiler": "b 1\na;" + repeated("[") + " 1\n",
    "bracketed thread": "[" + "a" * 65_000 + "\n",
    "bracketed threads": ("[" + "a" * 15_000 + " 1\n") * 4,
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
def test_time_is_bounded(data: str) -> None:
    began = time.process_time()
    with contextlib.suppress(InputError):
        read(data)
    assert time.process_time() - began < MAX_CPU_S


def test_many_inlined_frames_are_several() -> None:
    found = [each.function.name for each in frames(read("a" + ";b_[i]" * MAX_JOINED + " 1\n"))]
    assert found == ["a", *["b"] * (MAX_JOINED - 1), "b"]
