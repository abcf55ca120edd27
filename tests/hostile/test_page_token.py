"""Attack on the page's token: ``nobody`` reads command lines, files and the page's port."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import cli
import other_user
from flametap.cli import browser
from flametap.cli.progress import Progress
from flametap.web.login import Key
from running import Start, wait_until
from visitor import Visitor

URL = r"(http://127\.0\.0\.1:\d+/\S+)"
KEY = Key("a-token-of-twenty-two-c")
DESKTOP = ("SUDO_UID", "PKEXEC_UID", "XAUTHORITY", "XDG_RUNTIME_DIR", "WAYLAND_DISPLAY")
# Reads all command lines that it may, and looks for a text.
SPY = """
import sys, pathlib
for path in pathlib.Path('/proc').glob('[0-9]*/cmdline'):
    try: text = path.read_bytes()
    except OSError: continue
    if sys.argv[1].encode()[3:] in text and b'SPY' not in text: print(text)  # SPY
"""


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A desktop whose browser notes its command line, and stays as long as a file ``stay``."""
    program = tmp_path / "browser"
    noted = tmp_path / "noted"
    stay = tmp_path / "stay"
    program.write_text(
        f'#!/bin/sh\necho "$@" >{noted}.new; mv {noted}.new {noted}\n'
        f"while [ -e {stay} ]; do sleep 0.1; done\n"
    )
    program.chmod(0o755)
    for variable in DESKTOP:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("DISPLAY", ":77")
    monkeypatch.setenv("BROWSER", f"{program} %s")
    return noted


@pytest.mark.needs("attach", "gcc", "setpriv")
def test_token_is_in_no_command_line_and_in_no_file_that_others_may_read(
    start: Start, desktop: Path, tmp_path: Path
) -> None:
    target = start("ratio")
    (tmp_path / "stay").touch()
    with cli.Running(str(tmp_path), target.pid) as run:
        url = run.wait_for(URL)
        token = urlsplit(url).query.partition("=")[2] or urlsplit(url).path.strip("/")
        wait_until(desktop.exists, "the browser to be started", 20)
        seen = subprocess.run(
            [*other_user.AS_NOBODY, "/usr/bin/env", "python3", "-c", SPY, "..." + token],
            capture_output=True,
            text=True,
            check=True,
            cwd="/",
        )
        assert seen.stdout == ""
        opened = desktop.read_text().strip()
        assert opened.startswith("file:///")
        path = Path(urlsplit(opened).path)
        assert token in path.read_text()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert token not in Visitor(url).base
        run.interrupt()
        run.result().assert_saved()
    (tmp_path / "stay").unlink()
    assert not path.parent.exists()
    target.finish()


@pytest.mark.needs("attach", "gcc", "setpriv")
def test_other_users_get_nothing_from_the_port(start: Start, tmp_path: Path) -> None:
    """Also if they know the page's address, from a screen."""
    target = start("ratio")
    with cli.Running(str(tmp_path), target.pid, "--no-open") as run:
        page = Visitor(run.wait_for(URL))
        ask = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).read())"
        for path in ("", "api/status", "api/lines?function=0", "static/main.js"):
            refused = subprocess.run(
                [*other_user.AS_NOBODY, "/usr/bin/env", "python3", "-c", ask, page.base + path],
                capture_output=True,
                text=True,
                check=False,
                cwd="/",
            )
            assert "403" in refused.stderr
            assert refused.stdout == ""
        run.interrupt()
        run.result().assert_saved()
    target.finish()


@pytest.mark.parametrize("variable", ["SUDO_UID", "XAUTHORITY", "XDG_RUNTIME_DIR"])
@pytest.mark.needs("setpriv")
def test_no_browser_is_started_as_root_on_the_desktop_of_somebody_else(
    desktop: Path,
    their_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    variable: str,
) -> None:
    value = str(other_user.UID) if variable == "SUDO_UID" else str(their_folder)
    monkeypatch.setenv(variable, value)
    with browser.showing(KEY.form("http://127.0.0.1:1/"), Progress(stream=sys.stderr)):
        said = capfd.readouterr().err
    assert "no browser is started" in said
    assert "nobody" in said
    assert said.count("\n") == 1
    assert list(their_folder.iterdir()) == []
    assert not desktop.exists()


def test_file_of_the_browser_lies_in_the_users_own_folder_or_a_private_one(
    desktop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    with browser.showing(KEY.form("http://127.0.0.1:1/"), Progress(quiet=True)):
        wait_until(desktop.exists, "the browser to be started", 20)
        assert desktop.read_text().startswith(f"file://{runtime}/flametap-")
        assert os.stat(next(runtime.iterdir())).st_mode & 0o077 == 0
    assert list(runtime.iterdir()) == []


@pytest.mark.needs("attach", "gcc")
@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_address_that_other_machines_reach_is_warned_of(
    start: Start, tmp_path: Path, host: str
) -> None:
    target = start("ratio")
    with cli.Running(str(tmp_path), target.pid, "--no-open", "--host", host) as run:
        url = run.wait_for(URL)
        warnings = [line for line in run.output.splitlines() if line.startswith("warning: --host")]
        assert len(warnings) == (host == "0.0.0.0")
        assert all("unencrypted" in line and "ssh -L" in line for line in warnings)
        with pytest.raises(urllib.error.HTTPError) as refusal:
            urllib.request.urlopen(url.partition("?")[0], timeout=60)
        refusal.value.close()
        run.interrupt()
        run.result().assert_saved()
    target.finish()
