"""What the agent's script answers, and what a target may make of it."""

from __future__ import annotations

import pytest

from flametap.errors import AttachFailedError
from flametap.inject.frida.agent_answers import Entered

GOOD = {"tid": 4711, "boot": "0x7f0000001000"}


def test_answer_is_read() -> None:
    assert Entered.of(GOOD) == Entered(4711, 0x7F00_0000_1000)


def test_thread_that_could_not_be_made_says_why() -> None:
    with pytest.raises(
        AttachFailedError, match="could not be made: Resource temporarily"
    ) as raised:
        Entered.of(GOOD | {"tid": -11})
    assert "pids.max" in str(raised.value.hint)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        {},
        GOOD | {"tid": "4711"},
        GOOD | {"tid": 1.5},
        GOOD | {"tid": True},
        GOOD | {"tid": 1 << 31},
        GOOD | {"tid": -(1 << 40)},
        {"tid": 4711},
        GOOD | {"boot": None},
        GOOD | {"boot": "here"},
        GOOD | {"boot": "-1"},
        GOOD | {"boot": "0x0"},
        GOOD | {"boot": "9" * 5000},
        GOOD | {"boot": 7.5},
    ],
    ids=range(15),
)
def test_any_other_answer_is_refused(answer: object) -> None:
    with pytest.raises(AttachFailedError, match="not one that it gives"):
        Entered.of(answer)
