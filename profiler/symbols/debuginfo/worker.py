"""Read debug information in a separate process, so that damaged files cannot harm the profiler.

``worker_client`` starts the process with one end of a socket pair. Each message requests one
symcache and carries the files as descriptors. The answer is a memfd with the symcache, or a line
with the reason why there is none. Native code reads the debug information here, which may be of any
size and damaged in any way. It may crash, hang or use up its memory, and that only ends this
process. The process has a low priority and limits on memory and CPU time, and is the first one that
the kernel kills when memory runs out. It exits as soon as the other end of its socket is closed.

Messages are JSON lines in packets; see ``worker_client``.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import socket
import threading

from .job import CALLS, MINI_SYMBOLS, MISSING_PARTS, OPENED, Built, DebugJob

MAX_MESSAGE_BYTES = 1 << 16
MAX_NOTE = 1000
_NICE = 10
_OUT_OF_MEMORY_FIRST = 1000  # oom_score_adj, proc(5)
_PR_SET_PDEATHSIG = 1  # prctl(2); our parent is the thread that started us and sends the requests


def main(descriptor: int) -> None:
    """Answer requests until the socket is closed."""
    connection = socket.socket(fileno=descriptor)
    _step_back()
    threading.Thread(target=_leave_with_host, args=(connection,), daemon=True).start()
    while True:
        message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, len(OPENED))
        if not message:
            return
        payload, built, error = -1, Built(b""), ""
        try:
            built = _answer(message, files)
            payload = _memory_file(built.payload)
        except MemoryError:
            error = "reading its debug information needs too much memory"
        except Exception as problem:  # a damaged file may cause any exception
            error = " ".join(str(problem).split()) or type(problem).__name__
        for file in files:
            os.close(file)
        said = {
            "error": error[:MAX_NOTE],
            "note": built.note[:MAX_NOTE],
            "may_be_kept": built.may_be_kept,
        }
        answer = json.dumps(said).encode()
        socket.send_fds(connection, [answer], [payload] if payload >= 0 else [])
        if payload >= 0:
            os.close(payload)


def _answer(message: bytes, files: list[int]) -> Built:
    request = json.loads(message)
    _limit(resource.RLIMIT_AS, request["memory_bytes"])
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + request["cpu_s"])
    job = DebugJob.from_json(request["job"], files)

    # Imported here: if the library cannot be loaded, we send an error and do not die.
    if job.wants == MINI_SYMBOLS:
        from .small_jobs import unpack_mini_symbols

        return unpack_mini_symbols(job)
    if job.wants == MISSING_PARTS:
        from .small_jobs import name_missing_parts

        return name_missing_parts(job)
    if job.wants == CALLS:
        from .build_callgraph import build_calls

        return build_calls(job)
    from .symcache import build_symcache

    return build_symcache(job)


def _memory_file(data: bytes) -> int:
    """Return a memfd with the data (memfd_create(2)): needs no writable folder."""
    descriptor = os.memfd_create("flametap-symcache", os.MFD_CLOEXEC)
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _step_back() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the profiler handles Ctrl-C
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(str(_OUT_OF_MEMORY_FIRST))
    _limit(resource.RLIMIT_CORE, 0)
    # The thread of _leave_with_host may never run: native code may hold the GIL for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit(which: int, value: int) -> None:
    """Lower a soft limit. The hard limit stays, so that the next request may raise it again."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, hard))


def _leave_with_host(connection: socket.socket) -> None:
    """Exit the process when the host has exited, even in the middle of a file."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    watch.poll()
    os._exit(0)
