"""List the places where files of an image recorded on an Apple system may be on this machine.

Apple's linker leaves DWARF in the object files. ``dsymutil`` collects it in a bundle: a folder
``X.dSYM`` with the file ``Contents/Resources/DWARF/X``. The caller checks the UUID of each file. We
look:

- beside the image, and beside the application or framework to which it belongs;
- in the user's folders: a bundle, a folder of bundles, an Xcode archive, a flat folder, or folders
  named by UUID: ``xx/yyyy…``, or ``XXXX/XXXX/XXXX/XXXX/XXXX/XXXXXXXXXXXX`` as Apple's own tools
  write it.

Source: dsymutil(1); "Building your app to include debugging information", developer.apple.com;
lldb.llvm.org/use/symbols.html.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from .open_file import OURS, Root

INSIDE = "Contents/Resources/DWARF"
_UUID_DIGITS = 32
_BUNDLES = (".app", ".framework", ".appex", ".xpc", ".bundle")
MAX_LISTED = 4096  # entries read of a user's folder, which may be large, such as a home folder


def places(
    symbol_dirs: Sequence[str], roots: Sequence[Root], module_path: str, build_id: str
) -> Iterator[tuple[Root, str]]:
    """Yield root and path of every file that may be the image or its debug file.

    Args:
        symbol_dirs: the user's folders.
        roots: the roots of the module's path.
        module_path: the path on the system that ran the module.
        build_id: its UUID; without one, no path is returned, because no file could be checked.
    """
    if len(build_id) != _UUID_DIGITS:
        return
    folder, name = os.path.split(module_path)
    for directory in symbol_dirs:
        yield from ((OURS, path) for path in _in_symbol_dir(directory, name, build_id))
    owners = {name, *(part for part in folder.split("/") if part.endswith(_BUNDLES))}
    for root in roots:
        yield root, f"{folder}/{name}.dSYM/{INSIDE}/{name}"
        while folder not in ("", "/"):
            folder, part = os.path.split(folder)
            if part in owners:
                yield root, f"{folder}/{part}.dSYM/{INSIDE}/{name}"
        folder = os.path.dirname(module_path)


def dwarf_in(bundle: str) -> str:
    """Return the first file with debug information in a dSYM bundle; ``""`` for other folders."""
    return next(_files(f"{bundle}/{INSIDE}"), "")


def _in_symbol_dir(directory: str, name: str, build_id: str) -> Iterator[str]:
    upper = build_id.upper()
    dashed = f"{upper[:8]}-{upper[8:12]}-{upper[12:16]}-{upper[16:20]}-{upper[20:]}"
    apple = "/".join((*(upper[i : i + 4] for i in range(0, 20, 4)), upper[20:]))
    split = f"{build_id[:2]}/{build_id[2:]}"
    for path in (apple, split, f"{split}.debug", f"{split}.dSYM", name, f"{name}.dSYM"):
        yield os.path.join(directory, path)
        yield os.path.join(directory, path, INSIDE, name)
    for path in (directory, f"{directory}/dSYMs"):
        # A bundle that is not named after the file, a folder of bundles, or an Xcode archive.
        yield from _files(f"{path}/{INSIDE}")
        for bundle in _listed(path):
            if bundle.endswith(".dSYM"):
                yield from _files(f"{path}/{bundle}/{INSIDE}")
    for bundle in (f"{dashed}.dSYM", f"{build_id}.dSYM"):
        yield from _files(os.path.join(directory, bundle, INSIDE))


def _files(folder: str) -> Iterator[str]:
    return (f"{folder}/{name}" for name in _listed(folder))


def _listed(folder: str) -> list[str]:
    names = []
    try:
        with os.scandir(folder) as listing:
            for entry in listing:
                names.append(entry.name)
                if len(names) == MAX_LISTED:
                    break
    except (OSError, ValueError):  # no such folder, or a NUL in the path
        return []
    return sorted(names)
