"""Tell by a function's name what a thread waits for that is asleep in it. Pure.

A futex serves both: a thread waits for a lock that another one holds, or for what another one is to
bring: work, a result, its end. Condition variables, semaphores and parked threads are the latter,
unless a lock is built of them. Sources: glibc 2.28 to 2.42, musl 1.2, libstdc++, GLib, libuv,
CPython 3.8 to 3.15, HotSpot 8 to 25, Go 1.18 to 1.25, Rust's std and parking_lot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum

from ..model import FrameKind, Function


class WaitName(IntEnum):
    """What a function says about a wait below it."""

    SILENT = 0  # nothing: it may be any function of the program
    LOCK = 1  # waits for a lock
    WORK = 2  # waits for what another thread brings
    CARRIER = 3  # nothing, and is part of how a runtime waits: its callers may say more
    LOCK_AGAIN = 4  # waits for a lock that it gave away to wait for work, which has come


SILENT_FRAMES = 8  # at the leaf end, at most, before one says what it waits for
_LOCK_AGAIN = re.compile(r"_*pthread_mutex_cond_lock\w*")
_LOCK = re.compile(
    r"_*pthread_(mutex|rwlock|spin)_\w*|_*lll_lock_wait\w*|lll_mutex_lock\w*|__lock|_IO_flockfile|flockfile"
    # CPython
    r"|take_gil|drop_gil|PyThread_acquire_lock\w*|_?PyMutex_Lock\w*|_PyRWMutex_\w+"
    # HotSpot
    r"|ObjectMonitor::(enter|EnterI|ReenterI|enter_internal|reenter_internal|enter_with\w+)"
    r"|(Mutex|PlatformMutex|Monitor|PlatformMonitor)::(lock|ilock)\w*"
    r"|java\.util\.concurrent\.locks\.Abstract(Queued|QueuedLong)Synchronizer\.(acquire|doAcquire)\w*"
    # Go
    r"|runtime\.(lock2|lock|semacquire1|\(\*rwmutex\)\.\w+)"
    # libuv, APR, NSPR, SQLite, OpenSSL
    r"|uv_(mutex|rwlock)_\w+|apr_thread_(mutex|rwlock)_\w+|PR_(Lock|EnterMonitor|RWLock_\w+)"
    r"|sqlite3_mutex_enter|pthreadMutexEnter|CRYPTO_THREAD_(read|write)_lock"
    # Rust, GLib
    r"|std::sys::.*(mutex|rwlock).*|parking_lot::(raw_)?(mutex|rwlock|remutex)::.*"
    r"|<?parking_lot::raw_(mutex|rwlock)::.*"
    r"|g_(rec_)?mutex_lock\w*|g_rw_lock_\w+"
)
_WORK = re.compile(
    r"_*pthread_(cond|barrier)_\w*|_*pthread_(join|timedjoin|clockjoin)\w*|_*(new_)?sem_(wait|timedwait|clockwait)\w*"
    r"|cnd_(wait|timedwait)|thrd_join|aio_suspend\w*|gai_suspend"
    r"|std::(_V2::)?condition_variable(_any)?::.*|std::__atomic_futex_unsigned_base::.*|std::thread::join"
    r"|std::(__detail::)?__(atomic|platform)_wait\w*|g_cond_wait\w*|uv_(cond|sem|barrier)_\w+|uv_thread_join"
    # CPython
    r"|_queue_SimpleQueue_get\w*|PyEvent_Wait\w*|_PySemaphore_\w+|ThreadHandle_join"
    # HotSpot
    r"|ObjectMonitor::wait|(Monitor|PlatformMonitor)::(wait|IWait)\w*|(Posix)?Semaphore::(wait|timedwait)\w*"
    r"|Parker::park|JavaThread::sleep\w*|JVM_MonitorWait"
    r"|java\.util\.concurrent\.(CountDownLatch|Phaser|CyclicBarrier|Exchanger|Semaphore|FutureTask)\b.*"
    r"|java\.util\.concurrent\.locks\.Abstract(Queued|QueuedLong)Synchronizer\$ConditionObject\.await\w*"
    r"|java\.lang\.(Object\.wait|Thread\.join).*"
    # Go
    r"|runtime\.(notesleep|notetsleep\w*|stopm|mPark|futexsleep)"
    # Rust
    r"|std::sys::.*(condvar|park|once).*|std::thread::park\w*|<?parking_lot::condvar::.*"
)
_CARRIER = re.compile(
    r"_*futex\w*|do_futex_wait\w*|syscall|_*timedwait\w*|_*syscall_cp\w*|__gthread_\w+|runtime\.\w*(futex|note|park|mcall)\w*"
    r"|_?Py\w+|(method|cfunction|function)_\w*call\w*|lock_PyThread\w*|acquire_timed|rlock_acquire"
    r"|java\.util\.concurrent\..*|java\.lang\.(VirtualThread|invoke|Thread)\b.*|(jdk|sun)\.\w+\..*|\[jvm\]"
    r"|start_thread|_*clone3?|_start|__libc_start_\w+"
    r"|<?(std|core|alloc)::.*|<?parking_lot(_core)?::.*|absl::.*|g_async_queue_\w+"
)
_CARRIER_MODULES = re.compile(
    r"(lib)?python[23]?[\d.]*(m|d|t)?(\.so.*)?|_(queue|multiprocessing|thread|threading)\b.*\.so"
    r"|libjvm\.so|\[jvm\]|libstdc\+\+.*|libc\+\+.*"
)
# File → functions. Locks of Python serve both: who calls them says what they are for.
_PYTHON_WORK = {
    "/threading.py": ("Condition.wait", "Thread.join", "Thread._wait_for_tstate_lock", "_shutdown"),
    "/multiprocessing/synchronize.py": ("Condition.wait",),
    "/concurrent/futures/thread.py": ("_worker",),
}
_KINDS = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.TAIL_CALL)


def wait_name(function: Function) -> WaitName:
    """Return what a function says about a wait below it."""
    if function.kind is FrameKind.PYTHON:
        return _python(function)
    if function.kind is FrameKind.UNKNOWN:
        return WaitName.CARRIER
    name = function.name.partition("@")[0]
    if _LOCK_AGAIN.fullmatch(name):
        return WaitName.LOCK_AGAIN
    if _LOCK.fullmatch(name):
        return WaitName.LOCK
    if _WORK.fullmatch(name):
        return WaitName.WORK
    is_carrier = _CARRIER.fullmatch(name) or (
        function.kind in _KINDS and _CARRIER_MODULES.fullmatch(function.module)
    )
    return WaitName.CARRIER if is_carrier else WaitName.SILENT


def is_for_work(functions: Iterable[Function]) -> bool:
    """Return True if a thread that is asleep in a futex waits for what another thread brings.

    Args:
        functions: of its stack, leaf first, without the system call.
    """
    said = WaitName.SILENT
    for depth, function in enumerate(functions):
        word = wait_name(function)
        if word is WaitName.LOCK_AGAIN:
            return False
        if word in (WaitName.LOCK, WaitName.WORK):
            said = word
        elif (word is WaitName.SILENT and said is not WaitName.SILENT) or (
            said is WaitName.SILENT and depth + 1 >= SILENT_FRAMES
        ):
            break
    return said is WaitName.WORK


def _python(function: Function) -> WaitName:
    for file, names in _PYTHON_WORK.items():
        if function.file.endswith(file):
            # Before 3.11, functions have no qualified name.
            if any(function.name in (name, name.rpartition(".")[2]) for name in names):
                return WaitName.WORK
            break
    return WaitName.SILENT
