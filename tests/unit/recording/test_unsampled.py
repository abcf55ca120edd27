"""CPU time that nobody has sampled is shown with a reason, and counts in all sums."""

from __future__ import annotations

from itertools import count

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock, Process, Verdict
from flametap.recording.kernel_samples import (
    ENDING,
    NOT_SAMPLED,
    UNKNOWN,
    Place,
    Sampled,
    Seen,
    Stack,
)
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.unsampled import RESERVE_NS, Unsampled
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
    unsampled.settle()
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
    # The first thread's time is told.
    others = [each._replace(is_first=False) for each in sampled(WORK).seen]
    unsampled.add_short("as", 0, 2 * MS, Sampled([*sampled(WORK).seen, *others]))
    later = unsampled.add_early(GCC, 3 * MS, sampled(WORK, WORK, OTHER))
    assert [each.stack for each in later.seen] == [OTHER]
    unsampled.add_late(GCC, 3 * MS, sampled(OTHER, WORK))
    unsampled.settle()
    unsampled.apply()
    tree = views_of(Recording(profile, names)).tree(Selection(Clock.CPU))
    assert dict(of_tree(tree).weights) == {
        ("as+0x20", "as+0x10"): 12.5 * MS,
        ("[truncated]", "as+0x18"): 3.5 * MS,
        ("[short-lived: as]",): 1 * MS,
    }
    found = {"COMPLETE": 12.5 * MS, "BAD_MEMORY": 3.5 * MS, "NO_STACK": 1 * MS}
    assert profile.verdicts().native == found
    assert len([each for each in profile.modules.values() if each.path == "/bin/as"]) == 1
    assert (unsampled.n_samples, unsampled.sampled_ns) == (9, 16 * MS)
    first_ns = min(each.first_seen_ns for each in profile.threads.values())
    assert first_ns == 98 * MS  # a sample stands for the time before it


def test_no_more_cpu_time_than_elapsed(unsampled: Unsampled, profile: Profile) -> None:
    unsampled.add_short("as", 1_000_000, 4_000_000)
    unsampled.settle()
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == profile.total_ns(Clock.WALL) == 1_000_000


def test_sample_of_one_stands_for_others_of_its_program(
    unsampled: Unsampled, profile: Profile
) -> None:
    """Each has used a quarter of a period; each fourth was seen, for a whole one."""
    for turn in range(400):
        unsampled.add_short("as", 0, MS // 2, sampled(WORK) if turn % 4 == 3 else NOT_SAMPLED)
    unsampled.settle()
    unsampled.apply()
    assert profile.verdicts().native == {"COMPLETE": 200 * MS}


def test_what_was_not_seen_is_added_meanwhile(unsampled: Unsampled, profile: Profile) -> None:
    for _ in range(1000):
        unsampled.add_short("as", 0, MS)
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == 1000 * MS - RESERVE_NS
    unsampled.settle()
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == 1000 * MS


def test_time_of_many_threads_at_once_is_inside_the_recording(
    unsampled: Unsampled, profile: Profile
) -> None:
    second = 10**9
    unsampled.add_early(GCC, second // 10)
    unsampled.apply()
    later = Process(4, 78, "java", "java", first_seen_ns=GCC.first_seen_ns + second)
    profile.add_process(later)
    unsampled.add_early(later, 9 * second // 2)  # of four threads and more
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == 46 * second // 10
    inside = profile.leaf_weights(Clock.CPU, None, profile.start_ns, profile.now_ns)
    assert inside.total == 46 * second // 10


def test_long_one_has_what_the_kernel_tells(unsampled: Unsampled, profile: Profile) -> None:
    """And up to a tick more: it has not looked at the clock since."""
    unsampled.add_short("as", 0, 196 * MS, sampled(*[WORK] * 150))
    unsampled.settle()
    unsampled.apply()
    assert profile.verdicts().native == {"COMPLETE": pytest.approx(200 * MS, abs=150)}


def test_sample_without_a_stack_counts(unsampled: Unsampled, profile: Profile) -> None:
    unsampled.add_short("as", 0, 0, sampled(WORK, UNKNOWN))
    unsampled.settle()
    unsampled.apply()
    assert profile.verdicts().native == {"COMPLETE": 2 * MS, "NO_STACK": 2 * MS}


def test_work_of_the_kernel_at_the_end_is_told_by_name(
    unsampled: Unsampled, profile: Profile, names: SymbolTable
) -> None:
    unsampled.add_ending(None, "as", sampled(ENDING))
    unsampled.add_ending(GCC, "gcc", sampled(ENDING, ENDING))
    unsampled.settle()
    unsampled.apply()
    tree = views_of(Recording(profile, names)).tree(Selection(Clock.CPU))
    assert dict(of_tree(tree).weights) == {("[exit]",): 6 * MS}
    assert profile.verdicts().native == {"COMPLETE": 6 * MS}
    names_of = {each.name: each.process for each in profile.thread_infos()}
    assert names_of["gcc 77: [not sampled]"] == GCC.number
