"""Processes of our own for work that must not be done, or must not end, with this one: a module of
flametap in a fresh interpreter.

They see nothing of Python's environment variables and the current folder; what we import is what
they import, however flametap was installed. Each is a session of its own, so that Ctrl-C in the
terminal does not reach it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

BOOT = """
import importlib.util, json, os, sys
start, path, module, arguments = json.loads(sys.argv[1])
sys.path[:] = path
folders = [os.path.dirname(start)]
spec = importlib.util.spec_from_file_location("flametap", start, submodule_search_locations=folders)
sys.modules["flametap"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["flametap"])
importlib.import_module(module).main(*arguments)
"""
_PACKAGE = str(Path(__file__).parents[1] / "__init__.py")


def command(module: str, *arguments: int | str) -> list[str]:
    """Return the command that calls ``main(*arguments)`` of a module in a fresh interpreter."""
    return [
        # Not -I: where we were installed for one user, that user's site is where things are.
        *(sys.executable or "python3", "-E", "-c", BOOT),
        json.dumps([_PACKAGE, sys.path, module, arguments]),
    ]


def start(
    module: str, *arguments: int | str, descriptors: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start an interpreter that calls ``main(*arguments)`` of a module.

    Args:
        module: its full name.
        arguments: for ``main``.
        descriptors: ours that it inherits, by the same numbers.

    Raises:
        OSError: no process can be had.
    """
    return subprocess.Popen(
        command(module, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=descriptors,
        cwd="/",
        start_new_session=True,
    )
