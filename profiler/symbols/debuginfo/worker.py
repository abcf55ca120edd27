"""Read debug information in a separate process, so that damaged files cannot harm the profiler.

``worker_client`` starts the process with one end of a socket pair. Each message requests one
symcache and carries the files as descriptors. The answer is a memfd with the symcache, or a line
with the reason why there is none. Native code reads the debug information here, which may be of any
size and damaged in any way. It may crash, hang or use up its memory, and that only ends this
process. It has limits on memory and CPU time, and is the first one that the kernel kills when
memory runs out. Its priority is low, but for what somebody waits for. It exits as soon as the other
end of its socket is closed.

A file may also be made to take over the process. So it gives up all rights before it reads one: it
can open nothing, and asks the host for split units by name (``linux.sandbox``). If it cannot give
them up, it reads nothing.

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
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...linux import out_of_memory, sandbox
from ...linux.raw_syscall import raw_syscall
from ...recording.names.inline_chains import LinesError
from ..locate.open_file import OpenFile, Root
from .job import CALLS, MINI_SYMBOLS, MISSING_PARTS, OPENED, SOURCE_MAP, Built, DebugJob, OpenNamed

MAX_MESSAGE_BYTES = 1 << 16
MAX_NOTE = 1000
_MAX_PATH = 4096
_NICE = 10
_PR_SET_PDEATHSIG = 1  # prctl(2); our parent is the thread that started us and sends the requests


def main(descriptor: int) -> None:
    """Answer requests until the socket is closed."""
    connection = socket.socket(fileno=descriptor)
    problem = ""
    try:
        _import_readers()
        _step_back()
        sandbox.confine()
        # Threads have priorities of their own. One that has lowered it cannot raise it again.
        slow = ThreadPoolExecutor(1, initializer=_step_aside)
        slow.submit(int).result()
        # Cleared when the user changes. The thread of _leave_with_host may never run: native code
        # may hold the GIL for ever.
        raw_syscall("prctl", _PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        threading.Thread(target=_leave_with_host, args=(connection,), daemon=True).start()
        sandbox.deny_system_calls()
    except Exception as caught:  # an answer says so
        problem = f"the process that reads debug information cannot start: {_line(caught)}"
    while True:
        message, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, len(OPENED))
        if not message:
            return
        payload, built, error = -1, Built(b""), ""
        try:
            if problem:
                raise LinesError(problem)
            request = json.loads(message)
            if request["is_awaited"]:
                built = _answer(request, files, connection)
            else:
                built = slow.submit(_answer, request, files, connection).result()
            payload = _memory_file(built.payload)
        except MemoryError:
            error = "reading its debug information needs too much memory"
        except Exception as caught:  # a damaged file may cause any exception
            error = _line(caught)
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


def _answer(request: dict[str, Any], files: list[int], connection: socket.socket) -> Built:
    _limit(resource.RLIMIT_AS, request["memory_bytes"])
    used = resource.getrusage(resource.RUSAGE_SELF)
    _limit(resource.RLIMIT_CPU, int(used.ru_utime + used.ru_stime) + 1 + request["cpu_s"])
    job = DebugJob.from_json(request["job"], files)

    def open_named(path: str, root: Root) -> OpenFile:
        return _borrow(connection, path, int(root.path))

    return build_one(job, open_named)


def build_one(job: DebugJob, open_named: OpenNamed) -> Built:
    """Do a job.

    Args:
        job: the request.
        open_named: opens the files that its files name.
    """
    from .build_callgraph import build_calls
    from .small_jobs import name_missing_parts, unpack_mini_symbols
    from .source_map import build_source_map
    from .symcache import build_symcache

    if job.wants == MINI_SYMBOLS:
        return unpack_mini_symbols(job)
    if job.wants == MISSING_PARTS:
        return name_missing_parts(job, open_named)
    if job.wants == CALLS:
        return build_calls(job)
    if job.wants == SOURCE_MAP:
        return build_source_map(job)
    return build_symcache(job, open_named)


def _borrow(connection: socket.socket, path: str, root: int) -> OpenFile:
    """Ask the host for a file that debug information names.

    Args:
        connection: the socket.
        path: the path below the root.
        root: the position of the root among those of the job.

    Raises:
        OSError: the host does not open it.
    """
    ask = json.dumps({"open": path[:_MAX_PATH], "root": root}).encode()
    socket.send_fds(connection, [ask], [])
    answer, files, _, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, 1)
    if not answer:
        os._exit(0)  # the host has ended
    if not files:
        raise FileNotFoundError(path)
    return OpenFile(path, descriptor=files[0])


def _import_readers() -> None:
    """Import and load what reads files, before the process loses the right to open any.

    If the library cannot be loaded, we send an error and do not die.
    """
    import numpy.ma  # noqa: F401  # numpy.unique imports it when it is called

    from . import build_callgraph, small_jobs, source_map, symcache  # noqa: F401

    symcache.load_library()
    for codec in ("ascii", "latin-1", "utf-8"):
        b"".decode(codec)


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
    out_of_memory.die_first()


def _step_aside() -> None:
    with contextlib.suppress(OSError):
        lower = os.getpriority(os.PRIO_PROCESS, 0) + _NICE
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), lower)


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


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
