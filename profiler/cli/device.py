"""Record on a device or another system by Frida: ``-U``, ``-H``, ``-D``, as Frida's own tools."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from ..device.connect import Where, check
from ..errors import UsageError
from .attach_options import AttachOptions
from .far import closing
from .progress import Progress

if TYPE_CHECKING:
    from ..device.device_capture import DeviceCapture


def device_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options that name a device; the command receives them as one ``where``."""

    @functools.wraps(command)
    def with_where(
        *,
        usb: bool,
        frida_host: str | None,
        device_id: str | None,
        certificate: str | None,
        token: str | None,
        **others: object,
    ) -> int:
        # The variable alone, without a server, is for other recordings.
        where = Where(
            usb,
            frida_host or "",
            device_id or "",
            certificate or "",
            token or "" if frida_host else "",
        )
        check(where)
        return command(where=where, **others)

    options = (
        click.option("-U", "--usb", is_flag=True, help="The device at USB, by Frida."),
        click.option(
            *("-H", "--frida-host"),
            metavar="HOST[:PORT]",
            help="A Frida server or portal there.",
        ),
        click.option(
            *("-D", "--device", "device_id"), metavar="ID", help="The device of this id, by Frida."
        ),
        click.option("--certificate", metavar="FILE", help="What proves who -H is: PEM, for TLS."),
        click.option(
            "--token",
            envvar="FLAMETAP_TOKEN",
            metavar="TEXT",
            help="What the server of -H asks for; better in FLAMETAP_TOKEN.",
        ),
    )
    found: Callable[..., int] = with_where
    for option in reversed(options):
        found = option(found)
    return found


def refuse(where: Where, *others: object) -> None:
    """Check that nothing else is named beside a device. Raises UsageError."""
    if any(others):
        raise UsageError(f"on {where}, one process is recorded", "give its id or its name")


@contextmanager
def prepared(
    where: Where,
    words: Sequence[str],
    pid: int | None,
    how: AttachOptions,
    progress: Progress,
) -> Iterator[DeviceCapture]:
    """Enter a process on a device, and yield a capture of it; leave it at the end of the block.

    Raises:
        FlametapError: it cannot be recorded.
    """
    named = [*words, *([str(pid)] if pid is not None else [])]
    if len(named) != 1:
        raise UsageError(f"one process on {where} has to be named", "give its id or its name")
    for value, name in ((how.verify_detach, "--verify-detach"), (how.children, "--children")):
        if value:
            raise UsageError(f"{name} is not for devices", "leave it out")
    progress.step(f"attaching to {named[0]} on {where}")
    from ..device.device_capture import DeviceCapture

    capture = DeviceCapture(
        *(where, named[0]),
        rate_hz=how.rate_hz,
        symbol_dirs=how.symbol_dirs,
        inlines=how.inlines,
        say=progress.say,
    )
    with closing(capture, progress):
        yield capture
