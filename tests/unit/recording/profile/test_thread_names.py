"""Names that a program gives to its threads, beside the kernel's."""

from __future__ import annotations

from typing import Any

import pytest

import wire
from flametap.model import Thread
from flametap.recording.profile.store import Profile
from flametap.wire import abi
from flametap.wire.decoder import Decoder

DEFAULTS = frozenset({"python3.12", "gunicorn"})


def apply(profile: Profile, **sections: Any) -> None:
    for batch in Decoder().feed(wire.batch(1_000, **sections)):
        profile.apply(batch)


def named(comm: str, given: str) -> tuple[str, str]:
    """The name of a thread, and the kernel's if that is another."""
    profile = Profile()
    apply(profile, threads=[wire.thread(1, 101, comm)])
    profile.set_thread_names({101: given}, DEFAULTS)
    thread = profile.threads[1]
    info = profile.thread_infos()[0]
    assert (info.name, info.comm) == (thread.name, thread.comm)
    return thread.name, thread.comm


@pytest.mark.parametrize(
    ("comm", "given", "shown"),
    [
        ("python3.12", "worker 1", ("worker 1", "python3.12")),
        ("gunicorn", "MainThread", ("MainThread", "gunicorn")),
        # Named by itself, for the kernel: that counts.
        ("pool-7", "Thread-7", ("pool-7", "")),
        ("worker", "worker", ("worker", "")),
        # The kernel keeps 15 bytes.
        ("a name that is ", "a name that is long", ("a name that is long", "a name that is ")),
        ("python3.12", "", ("python3.12", "")),
    ],
)
def test_name_of_the_program_replaces_one_that_says_nothing(
    comm: str, given: str, shown: tuple[str, str]
) -> None:
    assert named(comm, given) == shown


def test_name_stays_with_the_thread_and_not_with_its_number() -> None:
    profile = Profile()
    apply(profile, threads=[wire.thread(1, 101, "python3.12")])
    profile.set_thread_names({101: "first"}, DEFAULTS)
    apply(profile, threads=[wire.thread(1, 101, "python3.12", flags=abi.THREAD_EXITED)])
    apply(profile, threads=[wire.thread(2, 101, "python3.12")])
    assert [each.name for each in profile.threads.values()] == ["first", "python3.12"]
    profile.set_thread_names({101: "second"}, DEFAULTS)
    assert [each.name for each in profile.threads.values()] == ["first", "second"]


def test_name_follows_a_change_of_either() -> None:
    profile = Profile()
    apply(profile, threads=[wire.thread(1, 101, "python3.12")])
    profile.set_thread_names({101: "old"}, DEFAULTS)
    before = profile.revision
    profile.set_thread_names({101: "old"}, DEFAULTS)
    assert profile.revision == before
    profile.set_thread_names({101: "new"}, DEFAULTS)
    assert profile.revision > before
    assert profile.threads[1].name == "new"
    apply(profile, threads=[wire.thread(1, 101, "renamed")])
    assert profile.threads[1] == Thread(1, 101, "renamed", profile.threads[1].first_seen_ns)
