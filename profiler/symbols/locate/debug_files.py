"""Find the files with debug information that belong to a module's own file.

A file name is no proof. A debug file must have the build-id of the file to which it belongs or, for
files without one, the CRC in ``.gnu_debuglink``. A file that dwz made must have the build-id that
its users name. Files that were found but are not the right ones are reported.

Order: the user's folders; ``/usr/lib/debug/.build-id``; the file that ``.gnu_debuglink`` names, in
the places where GDB looks. The last two in the target's root; the folder of build-ids then also in
ours.

Source: GDB manual, "Separate Debug Files".
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

from ...model import Module
from ..object.macho import MachOFile
from ..object.object_file import ObjectError, ObjectFile
from . import dsym
from .breakpad import open_breakpad
from .debug_links import alt_link, debug_link, shown, supplement_id
from .open_file import OURS, Image, Root, open_image
from .symbol_dirs import (
    DEBUG_DIR,
    breakpad_places,
    by_build_id,
    common_places,
    debug_places,
)

# Root, path below it, and a description of that place.
_Place = tuple[Root, str, str]


class DebugFiles:
    """Finds debug files.

    Args:
        roots: the roots of absolute paths that the target's files name.
        symbol_dirs: the user's folders.
    """

    def __init__(self, roots: Sequence[Root], symbol_dirs: Sequence[str]) -> None:
        self._roots = roots
        # A folder of the system's packages. Its files are named by a build-id, not by the target.
        self._system_roots = tuple(dict.fromkeys((*roots, OURS)))
        self._symbol_dirs = symbol_dirs

    def open_for(self, module: Module, own: ObjectFile, rejected: list[str]) -> Image | None:
        """Open the debug file of ``own``, the module's own file.

        Args:
            module: the module.
            own: its own file.
            rejected: receives a line for each file that was found but is not the right one.

        Returns:
            a file with a symbol table or DWARF; ``None`` if there is none.
        """
        link = debug_link(own)

        def reason_against(image: Image) -> str:
            if own.build_id and image.elf.build_id:
                reason = _other_build(image.elf.build_id, own.build_id)
            elif link is None or image.file is None or image.file.crc32() != link.crc32:
                reason = "is of another build (CRC)"
            else:
                reason = ""
            if not (reason or image.elf.has_symtab or image.elf.debug_info_bytes):
                reason = "has no symbols"
            return reason

        if isinstance(own, MachOFile):
            found = self._open_dsym(module, own)
            if found is not None or own.has_symtab:
                return found
        places = self._debug_places(module, own.build_id, link.name if link else "")
        found = _first(places, reason_against, rejected, own.build_id)
        return found or self._open_breakpad(module, own, rejected)

    def _open_breakpad(self, module: Module, own: ObjectFile, rejected: list[str]) -> Image | None:
        """Open Breakpad's symbol file, for programs of which nothing else was kept."""
        name = os.path.basename(module.path)
        for directory in self._symbol_dirs if own.build_id else ():
            for path in breakpad_places(directory, name, own.build_id):
                with contextlib.suppress(OSError, ValueError):
                    image = open_breakpad(path, own)
                    reason = _other_build(image.elf.build_id, own.build_id)
                    if not reason:
                        return image
                    rejected.append(f"{path} {reason}")
                    image.close()
        return None

    def _open_dsym(self, module: Module, own: MachOFile) -> Image | None:
        def reason_against(image: Image) -> str:
            if not image.elf.debug_info_bytes:
                return "has no debug information"
            return _other_build(image.elf.build_id, own.build_id)

        return _first(self._apple_places(module), reason_against, [], own.build_id)

    def open_apple(self, module: Module) -> Image | None:
        """Open the file of a module that was recorded on an Apple system, or its dSYM alone.

        It may be beside the module's path or in the user's folders.
        """

        def reason_against(image: Image) -> str:
            return _other_build(image.elf.build_id, module.build_id)

        return _first(self._apple_places(module), reason_against, [], module.build_id)

    def open_common(self, image: Image, rejected: list[str]) -> Image | None:
        """Open dwz's common file of ``image`` and other files; see ``open_for``."""
        link = alt_link(image.elf)
        if link is None:
            return None

        def reason_against(found: Image) -> str:
            return _other_build(supplement_id(found.elf), link.build_id)

        return _first(
            self._common_places(image, link.name, link.build_id), reason_against, rejected
        )

    def _debug_places(self, module: Module, build_id: str, link: str) -> Iterator[_Place]:
        folder, name = os.path.split(module.path)
        for directory in self._symbol_dirs:
            for path in debug_places(directory, name, build_id, link):
                yield OURS, path, "symbol folder"
        if build_id:
            for root in self._system_roots:
                yield root, f"{DEBUG_DIR}/.build-id/{by_build_id(build_id)}", "build-id folder"
        for root in self._roots:
            if link and "/" not in link:
                for path in (
                    f"{folder}/{link}",
                    f"{folder}/.debug/{link}",
                    f"{DEBUG_DIR}{folder}/{link}",
                    # Packaged before /lib became a symbolic link to /usr/lib.
                    f"{DEBUG_DIR}{folder.removeprefix('/usr')}/{link}",
                ):
                    yield root, path, "debug link"

    def _apple_places(self, module: Module) -> Iterator[_Place]:
        for root, path in dsym.places(self._symbol_dirs, self._roots, module.path, module.build_id):
            yield root, path, "dSYM" if dsym.INSIDE in path else "symbol folder"

    def _common_places(self, image: Image, name: str, build_id: str) -> Iterator[_Place]:
        if name.startswith("/"):
            yield from ((root, name, "dwz link") for root in self._roots)
        elif image.file is not None:
            path = os.path.normpath(f"{image.file.folder()}/{name}")
            yield image.file.root, path, "dwz link"
        for directory in self._symbol_dirs:
            for path in common_places(directory, name, build_id):
                yield OURS, path, "symbol folder"
        for root in self._system_roots:
            yield root, f"{DEBUG_DIR}/.build-id/{by_build_id(build_id)}", "build-id folder"
            yield root, f"{DEBUG_DIR}/.dwz/{os.path.basename(name)}", "dwz folder"


def _first(
    places: Iterator[_Place],
    reason_against: Callable[[Image], str],
    rejected: list[str],
    build_id: str = "",
) -> Image | None:
    """Open the first image without a reason against it.

    Args:
        places: where to look.
        reason_against: returns why an image is not the right one, "" if it is.
        rejected: receives a line for each image that is not the right one.
        build_id: selects the part of a fat file.
    """
    for root, path, origin in places:
        try:
            image = open_image(path, root, origin=origin, build_id=build_id)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        except OSError as error:
            rejected.append(f"{shown(path)}: {error.strerror}")
            continue
        except ValueError as error:  # ObjectError, or a NUL in the path
            rejected.append(f"{shown(path)}: {shown(str(error))}")
            continue
        try:
            reason = reason_against(image)
        except ObjectError as error:
            reason = str(error)
        if not reason:
            return image
        rejected.append(f"{shown(path)} {shown(reason)}")
        image.close()
    return None


def _other_build(found: str, wanted: str) -> str:
    if found == wanted:
        return ""
    return (
        f"is of another build ({found[:8]}… is not {wanted[:8]}…)" if found else "has no build-id"
    )
