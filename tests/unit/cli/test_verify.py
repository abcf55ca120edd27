"""``--verify-detach`` speaks only of an attach that was tried."""

from __future__ import annotations

import io
import os
from contextlib import suppress
from typing import Any, cast

from flametap.cli.attach_options import AttachOptions
from flametap.cli.progress import Progress
from flametap.cli.signals import Interrupts
from flametap.cli.start import start
from flametap.cli.verify import verified
from flametap.errors import CannotAttachError


class FailingCapture:
    def start(self, _: object = None) -> None:
        raise CannotAttachError("Frida said no")


def receipt(*, is_refused: bool) -> str:
    out = io.StringIO()
    progress = Progress(stream=out)
    with (
        suppress(CannotAttachError),
        Interrupts() as interrupts,
        verified(os.getpid(), progress, AttachOptions(verify_detach=True)) as verification,
    ):
        if is_refused:
            raise CannotAttachError("a check said no")
        start(cast(Any, FailingCapture()), interrupts, progress, verification)
    return out.getvalue()


def test_process_that_was_refused_has_no_receipt() -> None:
    assert receipt(is_refused=True) == ""


def test_attach_that_failed_has_one() -> None:
    assert "detach receipt" in receipt(is_refused=False)
