"""What the agent answers, and what a target may make of it."""

from __future__ import annotations

import pytest

from flametap.errors import AttachFailedError
from flametap.inject.frida.agent_answers import Prepared, number

GOOD = {"error": 0, "fd": 5, "hostEnd": -1, "scratch": "0x7f0000001000"}


def test_answer_is_read() -> None:
    assert Prepared.of(GOOD) == Prepared(0, 5, -1, 0x7F00_0000_1000)
    assert Prepared.of({"error": 12}) == Prepared(12)
    assert number(-1) == -1


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        GOOD | {"error": "0"},
        GOOD | {"fd": "../../../etc/shadow"},
        GOOD | {"fd": -1},
        GOOD | {"fd": 1.5},
        GOOD | {"fd": 1 << 40},
        GOOD | {"hostEnd": None},
        GOOD | {"scratch": "here"},
        GOOD | {"scratch": "-1"},
        GOOD | {"scratch": "9" * 5000},
        GOOD | {"scratch": 7.5},
    ],
    ids=range(13),
)
def test_any_other_answer_is_refused(answer: object) -> None:
    with pytest.raises(AttachFailedError, match="not one that it gives"):
        Prepared.of(answer)


@pytest.mark.parametrize("answer", [None, "3", 3.0, True, 1 << 31])
def test_only_a_c_int_is_a_number(answer: object) -> None:
    with pytest.raises(AttachFailedError):
        number(answer)
