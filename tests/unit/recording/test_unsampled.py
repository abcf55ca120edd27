"""CPU time that nobody has sampled is shown with a reason, and counts in all sums."""

from __future__ import annotations

from itertools import count

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock, Process, Verdict
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.unsampled import Place, Sampled, Seen, Stack, Unsampled
from flametap.tree.selection import Selection
from stacks import of_tree

GCC = Process(3, 77, "gcc", "gcc -c x.c", first_seen_ns=10**9)


@pytest.fixture
def profile() -> Profile:
    return Profile()


@pytest.fixture
def names(profile: Profile) -> SymbolTable:
    return SymbolTable(profile.locate)


@pytest.fixture
def unsampled(profile: Profile, names: SymbolTable) -> Unsampled:
    profile.add_process(GCC)
    return Unsampled(profile, names, Numbers(), count(8).__next__)


def test_each_reason_is_a_function_with_the_program(
    unsampled: Unsampled, profile: Profile, names: SymbolTable
) -> None:
    unsampled.add_early(GCC, 3_000_000)
    unsampled.add_late(GCC, 2_000_000)
    unsampled.add_late(GCC, 900)  # less than anybody sees
    for _ in range(41):
        unsampled.add_short("as", 5_000_000, 4_000_000)
    unsampled.add_short("ld", 0, 1_000_000)
    unsampled.apply()
    tree = views_of(Recording(profile, names)).tree(Selection(Clock.CPU))
    assert dict(of_tree(tree).weights) == {
        ("[before it was attached to: gcc]",): 3_000_000,
        ("[not sampled: gcc]",): 2_000_000,
        ("[short-lived: as]",): 41 * 4_000_000,
        ("[short-lived: ld]",): 1_000_000,
    }
    assert profile.verdicts().native == {"NO_STACK": 170_000_000}
    threads = {each.name: each for each in profile.thread_infos()}
    assert threads["as × 41"].cpu_ns == 41 * 4_000_000
    assert profile.processes[threads["as × 41"].process].program == "[short-lived]"
    assert threads["gcc 77: [not sampled]"].process == GCC.number


MS = 1_000_000
WORK = Stack((Place("/bin/as", "ab", 0x10), Place("/bin/as", "ab", 0x20)), Verdict.COMPLETE)
OTHER = Stack((Place("/bin/as", "ab", 0x18),), Verdict.BAD_MEMORY)


def sampled(*stacks: Stack) -> Sampled:
    return Sampled([Seen((100 + at) * MS, 2 * MS, each) for at, each in enumerate(stacks)])


def test_what_the_kernel_has_sampled_has_stacks(
    unsampled: Unsampled, profile: Profile, names: SymbolTable
) -> None:
    unsampled.add_short("as", 0, 9 * MS, sampled(WORK, OTHER, WORK))
    unsampled.add_short("as", 0, 2 * MS, sampled(WORK, WORK))  # the first thread's time is told
    unsampled.add_early(GCC, 3 * MS, sampled(WORK, WORK))  # there is room for one
    unsampled.apply()
    tree = views_of(Recording(profile, names)).tree(Selection(Clock.CPU))
    assert dict(of_tree(tree).weights) == {
        ("as+0x20", "as+0x10"): 10 * MS,
        ("[truncated]", "as+0x18"): 2 * MS,
        ("[short-lived: as]",): 3 * MS,
        ("[before it was attached to: gcc]",): 1 * MS,
    }
    found = {"COMPLETE": 10 * MS, "BAD_MEMORY": 2 * MS, "NO_STACK": 4 * MS}
    assert profile.verdicts().native == found
    assert len([each for each in profile.modules.values() if each.path == "/bin/as"]) == 1
    assert (unsampled.n_samples, unsampled.sampled_ns) == (6, 12 * MS)
    first_ns = min(each.first_seen_ns for each in profile.threads.values())
    assert first_ns == 98 * MS  # a sample stands for the time before it


def test_no_more_cpu_time_than_elapsed(unsampled: Unsampled, profile: Profile) -> None:
    unsampled.add_short("as", 1_000_000, 4_000_000)
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == profile.total_ns(Clock.WALL) == 1_000_000
