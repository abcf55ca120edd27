"""Another user owns the home folder that root's environment names (``sudo`` may keep it)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flametap.linux.homes import cache_home, is_ours
from flametap.symbols.debuginfo.disk_cache import DiskCache
from flametap.symbols.locate.debuginfod_cache import DEBUGINFO, DebuginfodCache, default_folder
from other_user import GID, UID

pytestmark = pytest.mark.needs("setpriv")
VARIABLES = ("HOME", "XDG_CACHE_HOME", "DEBUGINFOD_CACHE_PATH")


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A folder of root's, which an attack tries to change."""
    folder = tmp_path / "secret"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def their_home(their_folder: Path, secret: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Their folder, with a link to the secret one in each place that we might use."""
    for name in (".cache", "cache"):
        (their_folder / name).symlink_to(secret)
        os.lchown(their_folder / name, UID, GID)
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    return their_folder


@pytest.mark.parametrize("variable", VARIABLES)
def test_nothing_is_written_where_a_link_of_theirs_leads(
    variable: str, their_home: Path, secret: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = secret.parent / "own"
    monkeypatch.setattr("flametap.linux.homes._listed_home", lambda: str(own))
    monkeypatch.setenv(variable, str(their_home if variable == "HOME" else their_home / "cache"))
    DiskCache().save("abcd", b"payload")
    downloads = DebuginfodCache(default_folder(os.environ))
    downloads.store_missing("0123456789", DEBUGINFO)
    assert not list(secret.iterdir())
    assert (own / ".cache/flametap/symcache/abcd.symcache").exists()
    assert (own / ".cache/debuginfod_client/0123456789/debuginfo").exists()


def test_folders_of_others_on_the_way_and_shared_ones_are_not_ours(
    their_home: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    (tmp_path / "link").symlink_to(their_home)
    assert is_ours(str(tmp_path / "not/there/yet"))
    assert is_ours("/tmp/not-there-yet")
    assert not is_ours(str(shared / "x"))
    assert not is_ours(str(tmp_path / "link" / "x"))
    assert not is_ours(str(their_home / "x"))
    assert cache_home({"HOME": str(tmp_path)}) == tmp_path / ".cache"
