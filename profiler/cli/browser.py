"""Open the page in the user's browser, with no secret in a command line.

Every user can read the command lines of all processes. So the browser is started with the path of a
file that only this user may read, which logs in by itself (as Jupyter does). A browser is started
only for the user who runs flametap: one that runs as root would do what web pages ask as root.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from ..linux import out_of_memory
from .progress import Progress

NO_LOGIN = 2**32 - 1  # of a process that nobody logged in for: a service, a container


@contextlib.contextmanager
def showing(form: str, progress: Progress) -> Iterator[None]:
    """Open a form in a browser, if there is a desktop; delete its file when the block ends.

    Args:
        form: HTML that leads to the page, and contains the secret.
        progress: told why no browser is opened on the desktop of somebody else.
    """
    if not _has_desktop():
        yield
        return
    owner = _stranger()
    if owner is not None:
        progress.say(
            f"open the URL yourself: no browser is started as {_name(os.geteuid())}"
            f" on the desktop of {_name(owner)}"
        )
        yield
        return
    with tempfile.TemporaryDirectory(prefix="flametap-", dir=_runtime_folder()) as folder:
        path = Path(folder, "open.html")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(form)
        threading.Thread(target=_open, args=(path.as_uri(),), daemon=True).start()
        yield


def _open(address: str) -> None:
    import webbrowser  # late: it is slow to import

    with out_of_memory.dying_as_others():
        webbrowser.open(address)


def _has_desktop() -> bool:
    # Without a desktop, webbrowser would start a text browser in this terminal.
    variables = ("DISPLAY", "WAYLAND_DISPLAY")
    return sys.platform == "darwin" or any(map(os.environ.get, variables))


def _stranger() -> int | None:
    """Return the uid of the desktop's owner if that is somebody else than we run as, else None."""
    found: list[int] = []
    for variable in ("SUDO_UID", "PKEXEC_UID"):
        with contextlib.suppress(KeyError, ValueError):
            found.append(int(os.environ[variable]))
    with contextlib.suppress(OSError, ValueError):  # the kernel's record; su does not change it
        found.append(int(Path("/proc/self/loginuid").read_text("ascii")))
    for variable in ("XAUTHORITY", "XDG_RUNTIME_DIR"):
        with contextlib.suppress(KeyError, OSError, ValueError):
            found.append(os.stat(os.environ[variable]).st_uid)
    return next((uid for uid in found if uid not in (NO_LOGIN, os.geteuid())), None)


def _runtime_folder() -> str | None:
    """Return the user's own folder in memory, None for the usual one for temporary files."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    with contextlib.suppress(OSError, ValueError):
        if folder and os.stat(folder).st_uid == os.geteuid() and os.access(folder, os.W_OK):
            return folder
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
