"""Reach a device as Frida's own tools do: by USB, by its id, or a Frida server or portal by TCP."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..errors import CannotAttachError, FlametapError, NoSuchProcessError, UsageError

WAIT_S = 5.0  # for a device that has just been plugged in
ATTACH_S = 30.0


@dataclass(frozen=True)
class Where:
    """What the user says of a device.

    Attributes:
        usb: the one by USB.
        host: of a server or portal, with its port.
        device_id: as Frida lists it.
        certificate: a file with what proves who it is; then the line is encrypted.
        token: what the server asks for.
    """

    usb: bool = False
    host: str = ""
    device_id: str = ""
    certificate: str = ""
    token: str = ""

    def __bool__(self) -> bool:
        return self.usb or bool(self.host) or bool(self.device_id)

    def __str__(self) -> str:
        return "the device at USB" if self.usb else self.host or self.device_id


def check(where: Where) -> None:
    """Check that one device is meant. Raises UsageError."""
    if sum((where.usb, bool(where.host), bool(where.device_id))) > 1:
        raise UsageError("several devices are named", "choose one of -U, -H and -D")
    for value, name in ((where.certificate, "--certificate"), (where.token, "--token")):
        if value and not where.host:
            raise UsageError(f"{name} is for a server", "name it: -H HOST:PORT")
    if where.certificate and not os.path.isfile(where.certificate):
        raise UsageError(
            f"--certificate {where.certificate} is no file",
            "it has the server's certificate as PEM",
        )


def open_device(where: Where) -> Any:
    """Return a device. A server is asked for nothing yet. Raises FlametapError."""
    import frida

    try:
        manager = frida.get_device_manager()
        if where.usb:
            return frida.get_usb_device(timeout=WAIT_S)
        if where.device_id:
            return manager.get_device(where.device_id, timeout=WAIT_S)
        options: dict[str, Any] = {}
        if where.certificate:
            options["certificate"] = where.certificate
        if where.token:
            options["token"] = where.token
        return manager.add_remote_device(where.host, **options)
    except Exception as error:
        raise explained(error, where) from error


def find_process(device: Any, words: str, where: Where) -> tuple[int, str]:
    """Return id and name of the process that a number or a name means. Raises FlametapError."""
    try:
        processes = within(device.enumerate_processes, ATTACH_S)
    except Exception as error:
        raise explained(error, where) from error
    if words.isdecimal():
        found = [each for each in processes if each.pid == int(words)]
    else:
        found = [each for each in processes if each.name == words] or [
            each for each in processes if words.lower() in each.name.lower()
        ]
    if not found:
        names = ", ".join(f"{each.pid} {each.name}" for each in processes[:8])
        raise NoSuchProcessError(
            f"no process {words} runs on {where}", f"there are: {names}" if names else ""
        )
    if len(found) > 1:
        listed = ", ".join(str(each.pid) for each in found[:8])
        raise UsageError(
            f"{len(found)} processes match the name '{words}'", f"choose one: {listed}"
        )
    return found[0].pid, str(found[0].name)


def explained(error: Exception, where: Where) -> FlametapError:
    """Return what went wrong, and what to do, for an error of Frida's."""
    kind, said = type(error).__name__, " ".join(str(error).split())
    if isinstance(error, FlametapError):
        return error
    if "incorrect token" in said:
        return CannotAttachError(
            f"{where} refuses the token", "give the one that it expects: --token"
        )
    if "authentication required" in said or "not authorized" in said:
        return CannotAttachError(f"{where} asks for a token", "give it: --token, or FLAMETAP_TOKEN")
    if "certificate" in said.lower() or "TLS" in said:
        return CannotAttachError(
            f"{where} cannot prove who it is: {said}", "name its certificate: --certificate FILE"
        )
    if "Connection reset" in said or "closed" in said:
        return CannotAttachError(
            f"{where} ends the connection: {said}",
            "if it wants an encrypted line, name its certificate: --certificate FILE",
        )
    if kind == "ProcessNotFoundError":
        return NoSuchProcessError(f"{where}: {said}", "")
    if kind in ("TransportError", "ServerNotRunningError") or "timed out" in said:
        return CannotAttachError(
            f"{where} cannot be reached: {said}", "is frida-server running there?"
        )
    return CannotAttachError(
        f"{where}: {said or kind}", "`frida-ps` with the same option may say more"
    )


def within(call: Callable[[], Any], seconds: float) -> Any:
    """Return what a call returns.

    Raises:
        TimeoutError: it takes longer.
        Exception: what the call raises.
    """
    answers: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put((call(), None))
        except Exception as error:
            answers.put((None, error))

    threading.Thread(target=run, name="flametap-ask", daemon=True).start()
    try:
        found, error = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError(f"no answer within {seconds:.0f} s, it timed out") from None
    if error is not None:
        raise error
    return found


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Send what Frida's library prints to stderr meanwhile: our own output may be data."""
    sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # it is closed
        yield
        return
    try:
        os.dup2(2, 1)
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
