"""The agent as gcc builds it, inside a process of its own: it tells the truth of that process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_build import build_driver
from flametap.agent import C_SOURCES
from flametap.model import Clock, Verdict
from flametap.recording.profile.store import Profile
from flametap.wire.decoder import Decoder

DRIVER = Path(__file__).parent / "self_profile.c"
# Not AddressSanitizer: the handler reads other functions' frames, red zones and all.
FLAGS = ("-O1", "-g1", "-fomit-frame-pointer", "-pthread", "-fsanitize=undefined")
NO_RECOVERY = ("-fno-sanitize-recover=all",)


@pytest.fixture(scope="module")
def program(require_capability: Callable[[str], str]) -> Path:
    require_capability("sanitizers")
    return build_driver(DRIVER, C_SOURCES, (*FLAGS, *NO_RECOVERY))


@pytest.fixture(scope="module")
def recording(program: Path) -> tuple[Profile, dict[str, int], list[int]]:
    return run(program, "1500", "1000")


def run(
    program: Path, *arguments: str, folder: Path | None = None
) -> tuple[Profile, dict[str, int], list[int]]:
    """(profile, facts the program printed, sequence numbers of the batches)."""
    ran = subprocess.run(
        [str(program), *arguments], cwd=folder, capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    facts = dict(fact.split("=") for fact in ran.stderr.decode().split())
    profile = Profile()
    batches = Decoder().feed(ran.stdout)
    for batch in batches:
        profile.apply(batch)
    return profile, {k: int(v) for k, v in facts.items()}, [b.sequence for b in batches]


def test_no_batch_is_missing(recording: tuple[Profile, dict[str, int], list[int]]) -> None:
    _, _, sequences = recording
    assert sequences == list(range(len(sequences)))
    assert len(sequences) >= 10


def test_cpu_time_is_the_kernels(recording: tuple[Profile, dict[str, int], list[int]]) -> None:
    profile, facts, _ = recording
    cpu_ns = {info.tid: info.cpu_ns for info in profile.thread_infos()}
    assert 0.98 * facts["cpu_ns"] <= cpu_ns[facts["busy"]] <= facts["cpu_most_ns"]
    assert cpu_ns[facts["asleep"]] == 0


def test_stacks_reach_their_roots(recording: tuple[Profile, dict[str, int], list[int]]) -> None:
    profile, _, _ = recording
    weights = profile.verdicts().native
    # The thread with short waits is asleep whenever it is looked at: its CPU time has no stack, and
    # is more than 1 % of the whole where the machine is too busy to let the other one run.
    weights.pop(Verdict.NO_STACK.name, None)
    assert weights[Verdict.COMPLETE.name] >= 0.99 * sum(weights.values()), weights


def test_a_long_sleep_is_one_interval(
    recording: tuple[Profile, dict[str, int], list[int]],
) -> None:
    profile, facts, _ = recording
    thread_id = next(t.thread_id for t in profile.threads.values() if t.tid == facts["asleep"])
    leaves = profile.leaf_weights(Clock.WALL, frozenset({thread_id}))
    assert len(leaves.node) == 1
    assert leaves.sysno.tolist() == [230]  # clock_nanosleep
    # A machine may have the whole process stand still for a while: the agent takes that out. A wait
    # that was cut short by it begins again, and is looked at more than once.
    assert leaves.total == pytest.approx(profile.duration_ns - facts["gap_ns"], rel=0.02)
    samples = profile.leaf_samples(Clock.WALL, frozenset({thread_id}))
    if not facts["gap_ns"]:
        assert samples.weight.tolist() == [1]  # looked at once, never again


def test_short_waits_are_not_interrupted(
    recording: tuple[Profile, dict[str, int], list[int]],
) -> None:
    _, facts, _ = recording
    assert facts["interrupted"] == 0


def test_hidden_threads_do_not_appear(
    recording: tuple[Profile, dict[str, int], list[int]],
) -> None:
    profile, facts, _ = recording
    tids = {thread.tid for thread in profile.threads.values()}
    assert tids == {facts["busy"], facts["asleep"], facts["waiting"]}


def test_the_signal_is_given_back(recording: tuple[Profile, dict[str, int], list[int]]) -> None:
    _, facts, _ = recording
    assert facts["handler"] == 0  # SIG_DFL
    assert facts["unanswered"] == 0
    assert facts["again"] == -1  # a second stop has nothing to do


def test_filter_that_comes_before_the_first_turn_is_noticed(program: Path) -> None:
    ran = subprocess.run(
        [str(program), "200", "1000", "filtered"], capture_output=True, timeout=60, check=False
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr.decode())
    assert b" again=-1" in ran.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change the root")
def test_threads_without_procfs_are_sampled_while_they_run(program: Path, tmp_path: Path) -> None:
    profile, facts, _ = run(program, "500", "1000", "rootless", folder=tmp_path)
    thread_id = next(t.thread_id for t in profile.threads.values() if t.tid == facts["busy"])
    leaves = profile.leaf_samples(Clock.CPU, frozenset({thread_id}))
    assert sum(leaves.weight.tolist()) > 0
    assert facts["interrupted"] == 0
