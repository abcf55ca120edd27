"""Debian's kernels: found, downloaded and unpacked, in ``build/kernels``.

Nothing of the system's apt is changed: a configuration and lists of our own, the mirror and the
keys of the system. Of a package only the kernel and a dozen modules are kept.
"""

from __future__ import annotations

import lzma
import os
import re
import subprocess
import tarfile
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "build" / "kernels"
# Version → the release of Debian that has it.
RELEASES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "trixie"}
KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# What a virtual machine needs to read the host's files. A kernel may have some of them built in.
MODULES = {
    *("virtio", "virtio_ring", "virtio_pci", "virtio_pci_legacy_dev", "virtio_pci_modern_dev"),
    *("fscache", "netfs", "9pnet", "9pnet_virtio", "9p"),
}
APT_S = 600.0
_APT = """\
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
Dir::Etc::sourcelist "{folder}/sources.list";
Dir::Etc::sourceparts "{folder}/none";
APT::Sandbox::User "";
"""


class KernelError(Exception):
    """A kernel cannot be had; the text is one line that says why and what to do."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel: its name in reports, its image, and its modules, uncompressed."""

    name: str
    image: Path
    modules: tuple[Path, ...]


def kernel(wanted: str) -> Kernel:
    """Return a kernel, downloaded if it is not there yet.

    Args:
        wanted: a version in ``RELEASES``, or the path of a kernel's Debian package.

    Raises:
        KernelError: there is no such kernel, or apt cannot get it.
    """
    if wanted in RELEASES:
        folder = FOLDER / wanted
        if not (folder / "vmlinuz").exists():
            _unpack(_download(RELEASES[wanted], FOLDER / "apt" / RELEASES[wanted]), folder)
        return _unpacked(wanted, folder)
    package = Path(wanted)
    if not package.is_file():
        raise KernelError(f"no kernel {wanted}: name one of {', '.join(RELEASES)}, or a .deb file")
    folder = FOLDER / package.stem
    _unpack(package, folder)
    return _unpacked(package.stem, folder)


def _unpacked(name: str, folder: Path) -> Kernel:
    return Kernel(name, folder / "vmlinuz", tuple(sorted((folder / "modules").iterdir())))


def _download(release: str, folder: Path) -> Path:
    """The package of a release's newest kernel."""
    for name in ("state/lists/partial", "cache/archives/partial", "none"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "status").touch()
    (folder / "apt.conf").write_text(_APT.format(folder=folder))
    (folder / "sources.list").write_text("".join(_sources(release)))
    _run(["apt-get", "update"], folder)
    meta = _run(["apt-cache", "depends", "linux-image-amd64"], folder)
    found = re.search(r"Depends: (linux-image-\S+)", meta)
    if found is None:
        raise KernelError(f"{release} has no linux-image-amd64: name a kernel's .deb file")
    for older in folder.glob("*.deb"):
        older.unlink()
    _run(["apt-get", "download", found[1]], folder)
    return next(folder.glob("*.deb"))


def _sources(release: str) -> list[str]:
    """The lines of a sources.list, with the mirrors that the system's has."""
    if not KEYS.exists():
        raise KernelError("no keys of Debian's archive: apt install debian-archive-keyring")
    listed = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    uris = dict.fromkeys(uri.rstrip("/") for uri in _run(listed, None).split())
    suites = {"/debian": release, "/debian-security": f"{release}-security"}
    lines = [
        f"deb [signed-by={KEYS}] {uri} {suite} main\n"
        for end, suite in suites.items()
        for uri in [next((uri for uri in uris if uri.endswith(end)), None)]
        if uri is not None
    ]
    if not lines:
        raise KernelError("apt knows no mirror of Debian here: name a kernel's .deb file")
    return lines


def _run(command: list[str], folder: Path | None) -> str:
    """The output of a command of apt's, which sees only ``folder`` if that is given."""
    environment = dict(os.environ) | {"LC_ALL": "C"}
    if folder is not None:
        environment["APT_CONFIG"] = str(folder / "apt.conf")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=folder, timeout=APT_S
        )
    except FileNotFoundError:
        raise KernelError(f"no {command[0]} here: name a kernel's .deb file") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise KernelError(f"{' '.join(command)}: {last}")
    return done.stdout


def _unpack(package: Path, folder: Path) -> None:
    """Keep a package's image and the modules of ``MODULES``, in ``vmlinuz`` and ``modules/``."""
    (folder / "modules").mkdir(parents=True, exist_ok=True)
    image = b""
    with (
        subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE
        ) as unpacking,
        tarfile.open(fileobj=unpacking.stdout, mode="r|") as members,
    ):
        for member in members:
            path = Path(member.name)
            stem = path.name.partition(".ko")[0].replace("-", "_")
            is_module = ".ko" in path.name and stem in MODULES
            if not is_module and not path.name.startswith("vmlinuz-"):
                continue
            part = members.extractfile(member)
            content = part.read() if part else b""
            if not is_module:
                image = content
                continue
            plain = lzma.decompress(content) if path.suffix == ".xz" else content
            (folder / "modules" / f"{stem}.ko").write_bytes(plain)
    if not image:
        raise KernelError(f"{package} holds no kernel")
    (folder / "vmlinuz").write_bytes(image)  # last: it says that all is there
