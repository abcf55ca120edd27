"""Where threads wait for locks: the line of the program's own, and the kind of lock."""

from __future__ import annotations

import pytest

from flametap.locks.lock_places import GIL, UNKNOWN, lock_places
from flametap.tree.selection import EVERYTHING, Selection, Span
from gil_profiles import MS, READER, gil_profile
from waits import PARK, PY_LOCK, SECOND, SEM, SYNC, Waits

MUTEX = ("__lll_lock_wait", "pthread_mutex_lock@@GLIBC_2.2.5")


@pytest.mark.parametrize(
    ("leaf_first", "kind", "place"),
    [
        ((*MUTEX, "store", "main"), "a mutex", "store"),
        ((*MUTEX, "std::mutex::lock@prog", "Cache::get", "main"), "a mutex", "Cache::get"),
        (
            # glibc's and libstdc++'s inlined functions, where debug information tells of them
            (
                "__lll_lock_wait",
                "lll_mutex_lock_optimized",
                "___pthread_mutex_lock",
                "__gthread_mutex_lock@prog",
                "std::mutex::lock@prog",
                "Cache::get",
                "main",
            ),
            "a mutex",
            "Cache::get",
        ),
        (("lll_mutex_lock_optimized", "store", "main"), "a mutex", "store"),
        (
            # woken for work, and waiting for the mutex that goes with it
            ("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait", "take", "main"),
            "a mutex",
            "take",
        ),
        ((*MUTEX, "uv_mutex_lock", "store", "main"), "a mutex", "store"),
        ((*MUTEX, "pthreadMutexEnter", "sqlite3_step", "main"), "a mutex", "sqlite3_step"),
        (("__lll_lock_wait", "__pthread_rwlock_wrlock", "store"), "a read-write lock", "store"),
        (("__lll_lock_wait_private", "malloc", "main"), "a lock of the C library", "malloc"),
        ((*PY_LOCK, "app.py:stock", "app.py:main"), "a Python lock", "stock"),
        ((*PY_LOCK, "threading.py:Condition.__enter__", "app.py:put"), "a Python lock", "put"),
        (
            (*PARK, f"{SYNC}.acquire", "java.util.concurrent.locks.ReentrantLock.lock", "Shop.buy"),
            "a Java lock (java.util.concurrent)",
            "Shop.buy",
        ),
        (
            (
                *("pthread_cond_wait", "ObjectMonitor::enter@libjvm.so"),
                *("[_complete_monitor_locking_Java]@[jvm]", "Shop.sell"),
            ),
            "a Java monitor (synchronized)",
            "Shop.sell",
        ),
        (("runtime.futex", "runtime.lock2", "main.work"), "a Go lock", "main.work"),
        (("syscall", "my_lock", "main"), UNKNOWN, "my_lock"),
    ],
)
def test_place_is_the_first_function_of_the_programs_own(
    leaf_first: tuple[str, ...], kind: str, place: str
) -> None:
    waits = Waits(len(leaf_first))
    waits.name(*leaf_first)
    found = lock_places(waits.profile, waits.table, EVERYTHING)
    assert (found.total_ns, found.n_places) == (2 * SECOND, 1)
    (only,) = found.places
    assert only.frame
    assert (only.kind, only.frame.function.name) == (kind, place)
    names = [name.rpartition(":")[2] if ".py:" in name else name for name in leaf_first]
    assert only.frame.line == names.index(place)
    assert only.thread_ids == {1}


@pytest.mark.parametrize(
    "leaf_first", [(*SEM, "serve", "main"), (*PY_LOCK, "threading.py:Condition.wait", "app.py:get")]
)
def test_waits_for_work_are_not_for_a_lock(leaf_first: tuple[str, ...]) -> None:
    waits = Waits(len(leaf_first))
    waits.name(*leaf_first)
    assert lock_places(waits.profile, waits.table, EVERYTHING).places == []


def test_the_start_of_a_thread_is_no_place() -> None:
    waits = Waits(4)
    waits.name("futex", "os::wait@libjvm.so", "start_thread", "clone3")
    (only,) = lock_places(waits.profile, waits.table, EVERYTHING).places
    assert (only.kind, only.frame) == (UNKNOWN, None)


def test_a_thread_that_runs_only_the_library_has_a_place_there() -> None:
    waits = Waits(8)
    waits.name(*PY_LOCK, "threading.py:Thread.run", "start_thread")
    (only,) = lock_places(waits.profile, waits.table, EVERYTHING).places
    assert only.frame
    assert only.frame.function.name == "Thread.run"


def test_only_the_chosen_time_and_threads() -> None:
    waits = Waits(3)
    waits.name(*MUTEX, "store")
    half = Selection(span=Span(0, SECOND))
    assert lock_places(waits.profile, waits.table, half).total_ns == SECOND
    assert (
        lock_places(waits.profile, waits.table, Selection(thread_ids=frozenset({2}))).places == []
    )


def test_waits_for_the_gil_are_one_place() -> None:
    waits = Waits(4)
    waits.name("futex_wait", "take_gil", "PyEval_RestoreThread", "app.py:read")
    (only,) = lock_places(waits.profile, waits.table, EVERYTHING).places
    assert (only.kind, only.frame) == (GIL, None)
    profile, table = gil_profile()
    (only,) = lock_places(profile, table, EVERYTHING).places
    assert (only.kind, only.frame, only.wait_ns) == (GIL, None, 110 * MS)
    assert READER in only.thread_ids
