"""``flametap save``: have a recording with ``--keep`` write what it keeps."""

from __future__ import annotations

import os
import signal

import click

from ...errors import PermissionRefusedError, UsageError
from ...safety.other_agents import recorders_of
from ..progress import Progress
from ..streams import print_line
from ..targets import find_target


@click.command("save", short_help="Have `record --keep` write what it keeps.")
@click.argument("pid", metavar="PID|NAME")
def save(pid: str) -> int:
    """Have the flametap that records a process with --keep write the last part of it to a file.

    The recording goes on. The file is where that flametap was told to write; it prints its name.
    """
    target = find_target(pid, None, Progress())
    recorders = recorders_of(target)
    if not recorders:
        raise UsageError(
            f"no flametap records process {target}, as far as you may see",
            f"begin one: flametap record {target} --keep 10m",
        )
    keeping = [recorder for recorder, saves in recorders if saves]
    if not keeping:
        raise UsageError(
            f"process {target} is recorded without --keep (by process {recorders[0][0]})",
            "that recording is saved at its end: Ctrl-C, or kill -INT",
        )
    try:
        os.kill(keeping[0], signal.SIGUSR1)
    except PermissionError as error:
        raise PermissionRefusedError(
            f"flametap {keeping[0]}, which records process {target}, is another user's",
            "save as that user, or with sudo",
        ) from error
    print_line(f"asked flametap {keeping[0]} to save the last part of process {target}")
    return 0
