"""The process that attaches: it lets go of the target whatever becomes of the profiler.

A profiler can be killed at any moment. What it has changed for the time of the attach, as the masks
of threads, has to be put back all the same; and while Frida has the target's main thread run its
functions, nobody may die. So this is a process of its own that nobody kills, and that ends when it
has detached: soon after the other end of its connection has closed. What is said there: ``rpc``.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

from ..errors import AttachFailedError, CannotAttachError, FlametapError
from ..linux import procfs
from .link.session import Session
from .rpc import MAX_PACKET_BYTES, decode, encode
from .ways import AUTO, injector_for

CALLS = ("attach", "set_recipes", "start", "set_paused", "set_rate", "stop", "detach")
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# What an attach takes when nothing is wrong. Whoever wants to leave does not wait for more.
PATIENCE_S = 2.0
# Another one may just be leaving.
CLAIM_TIMEOUT_S = 2.0
# In /proc/PID/comm: its command line may be that of the command. `pkill flametap` does not mean it.
NAME = "ft-inject"


def main(descriptor: int, pid: int, way: str) -> None:
    """Serve one attach to ``pid`` over a socket; return when it is over.

    Args:
        descriptor: the socket.
        pid: the target.
        way: one of ``ways.WAYS``.
    """
    be_left_alone()
    with socket.socket(fileno=descriptor) as link:
        serve(link, pid, way)


def be_left_alone() -> None:
    """Ignore the signals that end a process. This one ends when its connection is closed."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(NAME)


def serve(link: socket.socket, pid: int, way: str = AUTO) -> None:
    """See the module."""
    injector, reason = injector_for(pid, way)
    session = Session(pid, injector)
    claim = contextlib.ExitStack()
    requests: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    is_alone = threading.Event()
    threading.Thread(target=_receive, args=(link, session, requests, is_alone), daemon=True).start()
    try:
        while (request := requests.get()) is not None and not is_alone.is_set():
            answer, descriptors = _answer(session, request, claim)
            if descriptors:
                answer["answer"] = reason
            with contextlib.suppress(OSError):
                socket.send_fds(link, [encode(answer)], descriptors)
            if descriptors:
                threading.Thread(target=_tell_end, args=(link, session), daemon=True).start()
    finally:
        if not session.ended.is_set():
            session.stop()
        session.close()
        claim.close()


def _receive(
    link: socket.socket,
    session: Session,
    requests: queue.SimpleQueue[dict[str, Any] | None],
    is_alone: threading.Event,
) -> None:
    try:
        while packet := link.recv(MAX_PACKET_BYTES):
            request = decode(packet)
            requests.put(request)
            if request["call"] == "detach" and not session.ended.wait(PATIENCE_S):
                session.give_up()
    except (OSError, ValueError, KeyError, TypeError):
        pass  # nobody we know is at the other end
    finally:
        is_alone.set()
        requests.put(None)


def _claim(claim: contextlib.ExitStack, pid: int) -> None:
    """Take a process for us alone, until ``claim`` closes or we end.

    Two agents in one process would take each other's signal, and two of Frida's abort the process
    when the older one leaves. The lock lies on a file that only those can open who may attach
    (``/proc/PID/mem`` in proc(5), flock(2)): nobody else can keep us out.

    Raises:
        CannotAttachError: somebody else has it, and keeps it.
    """
    try:
        descriptor = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        return  # the attach will say why
    claim.callback(os.close, descriptor)
    deadline = time.monotonic() + CLAIM_TIMEOUT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() > deadline:
                raise CannotAttachError(
                    f"process {pid} is already recorded by flametap", "wait for its end, or end it"
                ) from error
        time.sleep(CLAIM_TIMEOUT_S / 100)


def _answer(
    session: Session, request: dict[str, Any], claim: contextlib.ExitStack
) -> tuple[dict[str, Any], list[int]]:
    try:
        if request["call"] not in CALLS:
            raise AttachFailedError(f"no such call: {request['call']}")
        if request["call"] == "attach":
            _claim(claim, session.pid)
        answer = getattr(session, request["call"])(*request["arguments"])
        if request["call"] == "detach":
            claim.close()  # the page may be served for long after
    except FlametapError as error:
        said = [type(error).__name__, error.message, error.hint]
        return {"id": request["id"], "error": said}, []
    except procfs.GONE:
        said = ["NoSuchProcessError", f"process {session.pid} has exited", ""]
        return {"id": request["id"], "error": said}, []
    except Exception as error:  # whatever it is, the one who asked must hear of it
        said = ["AttachFailedError", f"{type(error).__name__}: {error}", "the target continues"]
        return {"id": request["id"], "error": said}, []
    if request["call"] == "attach":
        return {"id": request["id"], "answer": None}, [answer]
    return {"id": request["id"], "answer": answer}, []


def _tell_end(link: socket.socket, session: Session) -> None:
    session.ended.wait()
    with contextlib.suppress(OSError):
        link.send(encode({"ended": session.end_reason}))
