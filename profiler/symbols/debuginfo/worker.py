"""The process that reads debug information, so that nothing in it can harm the profiler.

Started by ``worker_client`` with one end of a socket pair. Each message asks for one symcache and
brings the files as descriptors; the answer is a memfd with the symcache, or a line that says why
there is none. Debug information of any size and in any state of damage is read here by native
code: it may crash, hang or want all memory there is, and takes nothing along but this process.
It runs at a low priority, within limits on memory and processor time, is the first that the
kernel ends when memory runs out, and goes as soon as the other end of its socket is closed.

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

from .job import OPENED, DebugJob

MAX_MESSAGE_BYTES = 1 << 16
MAX_NOTE = 1000
_NICE = 10
_OUT_OF_MEMORY_FIRST = 1000  # oom_score_adj, proc(5)
_PR_SET_PDEATHSIG = 1  # prctl(2); the parent is the thread that started us, which asks us as well


def main(descriptor: int) -> None:
    """Answers requests until the socket is closed."""
    connection = socket.socket(fileno=descriptor)
    _step_back()
    threading.Thread(target=_leave_with_host, args=(connection,), daemon=True).start()
    while True:
        message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, len(OPENED))
        if not message:
            return
        payload, note, error = -1, "", ""
        try:
            payload, note = _answer(message, files)
        except MemoryError:
            error = "reading its debug information needs too much memory"
        except Exception as problem:  # whatever a file can do to code that trusts it
            error = " ".join(str(problem).split()) or type(problem).__name__
        for file in files:
            os.close(file)
        answer = json.dumps({"error": error[:MAX_NOTE], "note": note[:MAX_NOTE]}).encode()
        socket.send_fds(connection, [answer], [payload] if payload >= 0 else [])
        if payload >= 0:
            os.close(payload)


def _answer(message: bytes, files: list[int]) -> tuple[int, str]:
    request = json.loads(message)
    _limit(resource.RLIMIT_AS, request["memory_bytes"])
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + request["cpu_s"])
    job = DebugJob.from_json(request["job"], files)

    # Here, not above: a library that cannot be loaded is an answer, not a death.
    from .build_callgraph import build_calls
    from .symcache import build_symcache

    built = build_calls(job) if job.wants_calls else build_symcache(job)
    return _memory_file(built.payload), built.note


def _memory_file(data: bytes) -> int:
    """A file without a folder (memfd_create(2)): works where nothing can be written to."""
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
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is meant for the profiler
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
        score.write(str(_OUT_OF_MEMORY_FIRST))
    _limit(resource.RLIMIT_CORE, 0)
    # The watch below is a thread, and native code may hold the interpreter's lock for ever.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _limit(which: int, value: int) -> None:
    """Lowers a limit; the hard one stays where it is, so that the next request may raise it."""
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, hard))


def _leave_with_host(connection: socket.socket) -> None:
    """Ends the process when the host has gone, also in the middle of a file."""
    watch = select.poll()
    watch.register(connection, select.POLLRDHUP)
    watch.poll()
    os._exit(0)
