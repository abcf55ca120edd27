"""What tests compile, built once for all workers and kept between runs, in ``build/tests``.

An entry is known by a hash of the command, the text it compiles and the compiler. Of each kind one
entry is kept, the last. ``make clean`` removes all.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "tests"


def cached(
    kind: str,
    command: Sequence[str],
    inputs: Iterable[Path | bytes],
    make: Callable[[Path], None],
    root: Path = FOLDER,
) -> Path:
    """Return the folder that holds what a command makes, made now if it is not there.

    Args:
        kind: a relative path, ``targets/ratio`` say: what this is, whatever it was made from.
        command: begins with the compiler.
        inputs: all that is read for it but the system's headers: files, or their text.
        make: fills an empty folder. What it raises is passed on, and nothing is kept.
        root: where entries are kept.
    """
    place = root / kind / _digest(command, inputs)
    if place.exists():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if place.exists():
            return place  # another worker made it meanwhile
        for older in place.parent.iterdir():
            if older.is_dir():
                shutil.rmtree(older)
        made = Path(tempfile.mkdtemp(dir=place.parent))
        try:
            make(made)
            made.chmod(0o755)  # targets may run as another user
            made.rename(place)
        except BaseException:
            shutil.rmtree(made)
            raise
    return place


def _digest(command: Sequence[str], inputs: Iterable[Path | bytes]) -> str:
    compiler = os.stat(os.path.realpath(shutil.which(command[0]) or "/"))
    parts = [repr((*command, compiler.st_size, compiler.st_mtime_ns)).encode()]
    parts += [each if isinstance(each, bytes) else each.read_bytes() for each in inputs]
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]
