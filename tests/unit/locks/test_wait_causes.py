"""What waits in a futex are for, by names: of the C library, CPython, HotSpot, and of a program."""

from __future__ import annotations

import pytest

from flametap.model import Activity
from waits import PARK, PY_LOCK, SEM, SYNC, Waits


@pytest.mark.parametrize(
    ("leaf_first", "cause"),
    [
        (("__lll_lock_wait", "pthread_mutex_lock@@GLIBC_2.2.5", "work"), Activity.LOCK),
        (("futex_wait", "___pthread_cond_wait", "std::condition_variable::wait"), Activity.WORK),
        (("__lll_lock_wait", "__pthread_mutex_cond_lock", "pthread_cond_wait"), Activity.LOCK),
        (("?", "pthread_cond_timedwait", "take_gil", "PyEval_RestoreThread"), Activity.LOCK),
        (("pthread_cond_wait", "work", "pthread_mutex_lock"), Activity.WORK),
        (("syscall", "my_mutex_lock", "main"), Activity.LOCK),
        ((*PY_LOCK, "app.py:Shop.lock"), Activity.LOCK),
        ((*PY_LOCK, "threading.py:Condition.wait", "queue.py:Queue.get"), Activity.WORK),
        ((*PY_LOCK, "threading.py:wait"), Activity.WORK),
        ((*PY_LOCK, "app.py:Condition.wait"), Activity.LOCK),
        ((*PY_LOCK, "app.py:job", "concurrent/futures/thread.py:_worker"), Activity.LOCK),
        ((*SEM, "PyThread_acquire_lock_timed", "_queue_SimpleQueue_get_impl"), Activity.WORK),
        ((*SEM, "serve"), Activity.WORK),
        (
            (*PARK, f"{SYNC}.acquire", "java.util.concurrent.locks.ReentrantLock.lock"),
            Activity.LOCK,
        ),
        ((*PARK, f"{SYNC}$ConditionObject.await", "Shop.run"), Activity.WORK),
        ((*PARK, f"{SYNC}.acquire", "java.util.concurrent.CountDownLatch.await"), Activity.WORK),
        (("pthread_cond_wait", "ObjectMonitor::enter@libjvm.so"), Activity.LOCK),
        (("pthread_cond_wait", "ObjectMonitor::wait@libjvm.so"), Activity.WORK),
        (("runtime.futex", "runtime.futexsleep", "runtime.lock2", "main.f"), Activity.LOCK),
        (("runtime.futex", "runtime.futexsleep", "runtime.notesleep"), Activity.WORK),
    ],
    ids=lambda value: value.name if isinstance(value, Activity) else value[-1],
)
def test_names_at_the_leaf_tell_what_a_wait_is_for(
    leaf_first: tuple[str, ...], cause: Activity
) -> None:
    waits = Waits(len(leaf_first))
    waits.name(*leaf_first)
    assert waits.cause() is cause


def test_names_that_come_late_change_what_was_summed_up() -> None:
    waits = Waits(2)
    assert waits.cause() is Activity.LOCK
    waits.name("futex_wait", "pthread_cond_wait")
    assert waits.cause() is Activity.LOCK, "it is not looked at all the time"
    waits.now_s = 0.3
    assert waits.cause() is Activity.WORK
    assert waits.sums.changes == 1
