"""A seccomp filter comes over all threads while the agent samples: no call of ours is the one that
it kills for.

Each trial hit a call without the question before it with 1.5 % (2 CPUs): the few here show a place
that has been forgotten only now and then, ``FLAMETAP_TEST_CYCLES=200`` for certain. That no place
is forgotten is what ``test_agent_text`` shows. One trial may be killed, in the nanoseconds between
question and call."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import build_driver
from flametap.agent import C_SOURCES
from flametap.linux import procfs

DRIVER = Path(__file__).parent / "filter_race.c"
TRIALS = 4 * int(os.environ.get("FLAMETAP_TEST_CYCLES", "3"))
FLAGS = ("-O1", "-g1", "-fomit-frame-pointer", "-pthread", "-fsanitize=undefined")
NO_RECOVERY = ("-fno-sanitize-recover=all",)


def test_filter_that_comes_at_any_moment_kills_nobody(
    require_capability: Callable[[str], str],
) -> None:
    require_capability("sanitizers")
    if procfs.read_task_seccomp(os.getpid(), os.getpid())[0]:
        pytest.skip("there is a filter around us: the agent goes by the number of filters then")
    program = build_driver(DRIVER, C_SOURCES, (*FLAGS, *NO_RECOVERY))
    ran = subprocess.run(
        [str(program), str(TRIALS)], capture_output=True, text=True, timeout=900, check=False
    )
    facts = re.fullmatch(rf"killed (\d+) failed 0 of {TRIALS}\n", ran.stdout)
    assert facts, ran.stdout + ran.stderr
    assert int(facts[1]) <= 1
