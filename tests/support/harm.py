"""Have the process that reads debug information do what a hostile file might make it do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flametap.linux import helper_process
from flametap.symbols.debuginfo.worker_client import Worker

# Runs in the worker instead of reading: what native code does with a file made to break it.
HARM = """
import flametap.symbols.debuginfo.symcache
def harm(job, *opened):
    import ctypes, os, time
    {harm}
flametap.symbols.debuginfo.symcache.build_symcache = harm
"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    """A client of that process, which ends with the test."""
    one = Worker()
    yield one
    one.close()
    one.rest()


def harmful(monkeypatch: pytest.MonkeyPatch, harm: str) -> None:
    """Make every worker that is started from now on do ``harm`` with each file."""
    call = "importlib.import_module(module).main(*arguments)"
    boot = helper_process.BOOT.replace(call, HARM.format(harm=harm) + call)
    assert boot != helper_process.BOOT
    monkeypatch.setattr(helper_process, "BOOT", boot)
