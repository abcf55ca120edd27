"""Ctrl-C, counted; Ctrl-Z while the target waits for us."""

from __future__ import annotations

import signal

import pytest

from flametap.cli.signals import Interrupts, not_suspended


def test_ctrl_z_waits_for_the_end_of_the_block() -> None:
    stops: list[int] = []
    former = signal.signal(signal.SIGTSTP, lambda number, _: stops.append(number))
    try:
        with not_suspended():
            signal.raise_signal(signal.SIGTSTP)
            assert stops == []
        assert stops == [signal.SIGTSTP]
        with not_suspended():
            pass
        assert stops == [signal.SIGTSTP]
    finally:
        signal.signal(signal.SIGTSTP, former)


def test_third_ctrl_c_does_not_wait_for_the_command() -> None:
    left: list[int] = []
    with Interrupts() as interrupts:
        interrupts.last_resort = lambda: left.append(interrupts.count)
        for _ in range(2):
            signal.raise_signal(signal.SIGINT)
        assert interrupts.stop
        assert left == []
        signal.raise_signal(signal.SIGTERM)
        assert left == [3]


@pytest.mark.parametrize(
    ("number", "counted"), [(signal.SIGINT, 1), (signal.SIGTERM, 1), (signal.SIGHUP, 0)]
)
def test_only_a_hangup_stays_ignored(number: signal.Signals, counted: int) -> None:
    """A shell that starts us in the background has SIGINT ignored, nohup SIGHUP."""
    former = signal.signal(number, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(number)
        assert interrupts.count == counted
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, former)
