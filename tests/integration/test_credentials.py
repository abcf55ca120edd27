"""Our thread in the target has no more rights than the target, whatever user that becomes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import receipt
from recording import capturing
from running import Start, Target, wait_until

pytestmark = [
    pytest.mark.needs("attach", "gcc"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become someone else"),
]
WHO = ("Uid", "Gid", "Groups")
FOLLOWED_S = 30.0  # it takes 0.1 s where there is a CPU for it
SETUID_AND_SETGID = 0xC0  # capabilities(7)


def status(pid: int, tid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def our_thread(pid: int) -> int:
    tids = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    return next(tid for tid in tids if status(pid, tid)["Name"] == "flametap")


def is_like_main(target: Target, tid: int) -> bool:
    main, ours = status(target.pid, target.pid), status(target.pid, tid)
    return all(main[each].split() == ours[each].split() for each in WHO)


def test_it_gives_up_root_when_the_program_does(start: Start) -> None:
    target = start("demoted")
    before = receipt.take_at_rest(target.pid)
    with capturing(target.pid, way="direct"):
        tid = our_thread(target.pid)
        assert int(status(target.pid, tid)["CapEff"], 16) & ~SETUID_AND_SETGID == 0
        target.say("become nobody")
        assert status(target.pid, target.pid)["Uid"].split()[0] == "65534"
        wait_until(lambda: is_like_main(target, tid), "it to follow", FOLLOWED_S)
        assert int(status(target.pid, tid)["CapPrm"], 16) == 0
    assert receipt.harm_after_settling(target.pid, before) == []
    assert target.finish(42) == ["done", "dumpable 1"]


def test_it_follows_there_and_back(start: Start) -> None:
    target = start("demoted", "seteuid")
    with capturing(target.pid, way="direct"):
        tid = our_thread(target.pid)
        for _ in range(4):
            target.say("change")
            wait_until(lambda: is_like_main(target, tid), "it to follow", FOLLOWED_S)
        assert status(target.pid, tid)["Uid"].split() == ["0"] * 4
    target.finish(42)
