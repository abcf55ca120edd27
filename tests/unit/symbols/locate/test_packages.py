"""Which package is to be installed, by what the package manager's files say."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flametap.symbols.locate.open_file import Root
from flametap.symbols.locate.packages import Packages

BUILD_ID = "ab12" * 10
LISTS = {
    "redis-tools": ["/.", "/usr", "/usr/bin", "/usr/bin/redis-check-rdb"],
    "libc6:amd64": ["/lib/x86_64-linux-gnu/libc.so.6"],
    "python3.11-minimal": ["/usr/bin/python3.11"],
    "openjdk-17-jre-headless:amd64": ["/usr/lib/jvm/lib/server/libjvm.so"],
    "odd.name+1": ["/opt/odd/lib.so"],
}


@pytest.fixture
def debian(tmp_path: Path) -> Path:
    """The root of a container, whose files are absolute links as often as not."""
    info = tmp_path / "real" / "info"
    info.mkdir(parents=True)
    for name, paths in LISTS.items():
        (info / f"{name}.list").write_text("\n".join(paths) + "\n")
    (info / "libc6:amd64.postinst").write_text("/opt/none\n")
    (tmp_path / "var/lib").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg").symlink_to("/real")
    (tmp_path / "etc").mkdir()
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/redis-check-rdb").touch()
    (tmp_path / "usr/bin/redis-server").symlink_to("/usr/bin/redis-check-rdb")
    (tmp_path / "usr/os-release").write_text('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\n')
    (tmp_path / "etc/os-release").symlink_to("../usr/os-release")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "remedy"),
    [
        ("/usr/bin/redis-check-rdb", "install redis-tools-dbgsym"),
        ("/usr/bin/redis-server", "install redis-tools-dbgsym"),
        ("/usr/lib/x86_64-linux-gnu/libc.so.6", "install libc6-dbg"),
        ("/usr/bin/python3.11", "install python3.11-dbg"),
        ("/usr/lib/jvm/lib/server/libjvm.so", "install openjdk-17-dbg"),
        ("/opt/odd/lib.so", "install odd.name+1-dbgsym"),
        ("/usr/bin/redis", ""),  # a part of a path is none
        ("/opt/none", ""),
    ],
)
def test_debian_package_of_a_file(debian: Path, path: str, remedy: str) -> None:
    assert Packages(Root(str(debian))).remedy(path, BUILD_ID) == remedy


@pytest.mark.parametrize(
    ("release", "archive"),
    [
        (
            'ID=debian\nVERSION_CODENAME=bookworm\nVERSION="12 (bookworm)"\n',
            " (debug archive: deb http://deb.debian.org/debian-debug bookworm-debug main)",
        ),
        (
            "ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\nUBUNTU_CODENAME=noble\n",
            " (debug archive: deb http://ddebs.ubuntu.com noble main)",
        ),
        (
            'ID=linuxmint\nID_LIKE="ubuntu debian"\nUBUNTU_CODENAME="noble"\n',
            " (debug archive: deb http://ddebs.ubuntu.com noble main)",
        ),
        ("ID=raspbian\nID_LIKE=debian\nVERSION_CODENAME=bookworm\n", ""),
        ("ID=debian\n", ""),
    ],
)
def test_archive_of_debug_packages(debian: Path, release: str, archive: str) -> None:
    (debian / "usr/os-release").write_text(release)
    packages = Packages(Root(str(debian)))
    found = packages.remedy("/usr/bin/redis-server", BUILD_ID)
    assert found == f"install redis-tools-dbgsym{archive}"
    # Those made by hand are in the main archive.
    libc = packages.remedy("/usr/lib/x86_64-linux-gnu/libc.so.6", BUILD_ID)
    assert libc == "install libc6-dbg"


def test_lists_that_are_no_files(debian: Path) -> None:
    os.mkfifo(debian / "real/info/fifo.list")
    (debian / "real/info/loop.list").symlink_to("loop.list")
    packages = Packages(Root(str(debian)))
    assert packages.remedy("/usr/bin/redis-check-rdb", "") == "install redis-tools-dbgsym"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf"),
        ("ID=fedora\n", "dnf"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper"),
        ("ID=arch\n", ""),
        ("", ""),
    ],
)
def test_elsewhere_the_build_id_names_the_package(tmp_path: Path, text: str, command: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/os-release").write_text(text)
    remedy = Packages(Root(str(tmp_path))).remedy("/usr/bin/some", BUILD_ID)
    assert remedy.partition(" ")[0] == command
    assert (BUILD_ID[2:] in remedy) == bool(command)
    assert Packages(Root(str(tmp_path))).remedy("/usr/bin/some", "") == ""
