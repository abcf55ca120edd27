"""Find the place of an output file, and write there what nobody else can redirect.

Other users may own folders on the path, or may write to its last one (``/tmp``). So the path is
walked by descriptors, and each symbolic link on it must be ours or root's, as the kernel demands in
shared folders where it protects links. In a shared folder, an existing file must be ours as well.
A file appears under its name complete, or does not appear.

Source: path_resolution(7), symlink(7), proc_sys_fs(5) (protected_symlinks, protected_regular).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ..errors import OutputError

_LOOK = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_MODE = 0o600  # a recording tells what a process does, and names its files
_MAX_LINKS = 40  # as in the kernel


@dataclass(frozen=True)
class _Place:
    """A name in a folder, after all links. ``fd`` and ``found`` are what is there, if anything."""

    folder_fd: int
    name: str
    fd: int = -1
    found: os.stat_result | None = None

    @property
    def is_special(self) -> bool:
        """True for pipes and devices, and for what a process has open (/dev/stdout)."""
        if self.found is None or stat.S_ISDIR(self.found.st_mode):
            return False
        return not stat.S_ISREG(self.found.st_mode) or not self.name


def check(path: str) -> None:
    """Check that a file can be written, without changing an existing one.

    Raises:
        OutputError: it cannot be written, or is a link or a file of another user.
    """
    with errors(path), _find(path) as place:
        if place.is_special:
            if not os.access(f"/proc/self/fd/{place.fd}", os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        # Permission bits do not show read-only and full file systems; a new file does.
        fd, temporary = _create(place.folder_fd)
        os.close(fd)
        os.unlink(temporary, dir_fd=place.folder_fd)


def write(path: str, write_to: Callable[[BinaryIO], None]) -> None:
    """Write a file, or replace one, and keep the mode of one that is ours; a new one has 0600.

    Pipes and devices are written directly.

    Args:
        path: of the file.
        write_to: writes the contents.

    Raises:
        OutputError: it cannot be written, or is a link or a file of another user.
    """
    with errors(path), _find(path) as place:
        if place.is_special:
            with open(f"/proc/self/fd/{place.fd}", "wb") as file:
                write_to(file)
            return
        fd, temporary = _create(place.folder_fd)
        try:
            with open(fd, "wb") as file:
                write_to(file)
                os.fchmod(fd, _mode(place.found))
            both = {"src_dir_fd": place.folder_fd, "dst_dir_fd": place.folder_fd}
            os.replace(temporary, place.name, **both)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=place.folder_fd)
            raise


def open_new(path: str) -> BinaryIO:
    """Open a file to be written while it can be read: a new one, or one of ours, emptied.

    Args:
        path: of the file.

    Raises:
        OutputError: it cannot be written, is a link or a file of another user, is no ordinary
            file, or somebody else writes it just now.
    """
    with errors(path), _find(path) as place:
        if place.is_special:
            raise OutputError(
                f"cannot write {path}: a recording needs an ordinary file",
                "choose another place with -o",
            )
        flags = (_CREATE & ~os.O_EXCL) if place.found else _CREATE
        fd = os.open(place.name, flags, _NEW_MODE, dir_fd=place.folder_fd)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
        except BlockingIOError:
            os.close(fd)
            raise OutputError(
                f"cannot write {path}: another flametap writes it",
                "choose another name with -o",
            ) from None
        return open(fd, "wb")


@contextlib.contextmanager
def errors(path: str) -> Iterator[None]:
    """Say that a file cannot be written.

    Raises:
        OutputError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {error.strerror or error}", "choose another place with -o"
        ) from error


def _create(folder_fd: int) -> tuple[int, str]:
    """Create a file; return its descriptor and its name, which nobody can know before."""
    name = f".flametap-{os.urandom(8).hex()}.part"
    return os.open(name, _CREATE, _NEW_MODE, dir_fd=folder_fd), name


def _mode(found: os.stat_result | None) -> int:
    # A second name may be one that another user gave to a file of ours elsewhere (link(2)).
    if found is None or found.st_uid != os.geteuid() or found.st_nlink != 1:
        return _NEW_MODE
    return found.st_mode & 0o777


@contextlib.contextmanager
def _find(path: str) -> Iterator[_Place]:
    """Walk to the place of an output, and check it. Its descriptors are closed at the end.

    Raises:
        OutputError: a folder is missing, or something on the way belongs to another user.
        OSError: as of openat(2).
    """
    with contextlib.ExitStack() as opened:
        place = _walk(path, opened)
        if place.found is not None:
            _check_found(path, place.found, os.fstat(place.folder_fd))
        yield place


def _walk(path: str, opened: contextlib.ExitStack) -> _Place:
    def look(name: str, flags: int, folder_fd: int | None) -> int:
        fd = os.open(name, flags, dir_fd=folder_fd)
        opened.callback(os.close, fd)
        return fd

    # What a link in /proc leads to can be a pipe, or has no name any more: the kernel follows it.
    proc = os.stat("/proc").st_dev
    folder_fd = look("/" if path.startswith("/") else ".", _LOOK, None)
    parts, n_links = _parts(path), 0
    while parts:
        name = parts.pop(0)
        try:
            fd = look(name, _LOOK, folder_fd)
        except FileNotFoundError:
            if parts:
                raise _no_folder(path, "does not exist") from None
            return _Place(folder_fd, name)
        except NotADirectoryError:
            raise _no_folder(path, "is not a folder") from None
        found = os.fstat(fd)
        if stat.S_ISLNK(found.st_mode):
            _check_link(path, name, found)
            n_links += 1
            if n_links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            if found.st_dev != proc:
                target = os.readlink("", dir_fd=fd)
                if target.startswith("/"):
                    folder_fd = look("/", _LOOK, None)
                parts[:0] = _parts(target)
                continue
            fd = look(name, _LOOK & ~os.O_NOFOLLOW, folder_fd)
            found, name = os.fstat(fd), ""
        if not parts:
            return _Place(folder_fd, name, fd, found)
        folder_fd = fd
    return _Place(folder_fd, "", folder_fd, os.fstat(folder_fd))  # "/"


def _parts(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return [*parts, "."] if path.endswith("/") else parts


def _check_link(path: str, name: str, link: os.stat_result) -> None:
    if link.st_uid not in (os.geteuid(), 0):
        raise OutputError(
            f"cannot write {path}: {name} is a symbolic link of user {link.st_uid}, who can let it "
            "lead anywhere",
            "name the file without the link (realpath prints it), or choose another with -o",
        )


def _check_found(path: str, found: os.stat_result, folder: os.stat_result) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise OutputError(f"cannot write {path}: it is a folder", "name a file in it with -o")
    shared = stat.S_ISVTX | stat.S_IWOTH
    if folder.st_mode & shared == shared and found.st_uid != os.geteuid():
        raise OutputError(
            f"cannot write {path}: in this folder, which all users share, it belongs to user "
            f"{found.st_uid}",
            "choose another name with -o, or a folder of your own",
        )


def _no_folder(path: str, what: str) -> OutputError:
    folder = os.path.dirname(os.path.realpath(path))
    return OutputError(
        f"cannot write {path}: {folder} {what}",
        "create the folder first, or choose another with -o",
    )
