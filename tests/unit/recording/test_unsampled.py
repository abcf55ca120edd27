"""CPU time that nobody has sampled is shown with a reason, and counts in all sums."""

from __future__ import annotations

from itertools import count

import pytest

from flametap.analysis.views import views_of
from flametap.model import Clock, Process
from flametap.recording.names.table import SymbolTable
from flametap.recording.numbers import Numbers
from flametap.recording.profile.store import Profile
from flametap.recording.recording import Recording
from flametap.recording.unsampled import Unsampled
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


def test_no_more_cpu_time_than_elapsed(unsampled: Unsampled, profile: Profile) -> None:
    unsampled.add_short("as", 1_000_000, 4_000_000)
    unsampled.apply()
    assert profile.total_ns(Clock.CPU) == profile.total_ns(Clock.WALL) == 1_000_000
