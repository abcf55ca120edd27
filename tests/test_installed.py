"""What is installed works by itself: away from the checkout, isolated from it, through the console
script.

``make test`` runs these on the editable install. ``make installed`` runs them on the wheel, in a
virtual environment of its own, with FLAMETAP_EXPECT_WHEEL=1.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(sys.executable).with_name("flametap")


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


def run_python(text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return run(sys.executable, "-I", "-c", text, cwd=cwd)


def test_package_comes_from_where_it_should(tmp_path: Path) -> None:
    done = run_python(
        "import flametap, flametap.web, flametap.agent; print(flametap.__file__)", tmp_path
    )
    assert done.returncode == 0, done.stderr
    in_checkout = Path(done.stdout.strip()).is_relative_to(ROOT / "profiler")
    assert in_checkout != bool(os.environ.get("FLAMETAP_EXPECT_WHEEL"))


def test_console_script_prints_its_version(tmp_path: Path) -> None:
    done = run(SCRIPT, "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    version = run_python("import flametap; print(flametap.__version__)", tmp_path).stdout.strip()
    assert version in done.stdout


@pytest.mark.parametrize("command", ["live", "record", "dump", "ps", "doctor", "symbols"])
def test_every_command_has_help(command: str, tmp_path: Path) -> None:
    done = run(SCRIPT, command, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Usage" in done.stdout


def test_module_runs_like_the_script(tmp_path: Path) -> None:
    done = run(sys.executable, "-I", "-m", "flametap", "--version", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_agent_sources_are_installed(tmp_path: Path) -> None:
    text = "from flametap import agent; assert len(agent.source()) > 10_000; assert agent.script()"
    done = run_python(text, tmp_path)
    assert done.returncode == 0, done.stderr


def test_machine_code_is_installed(tmp_path: Path) -> None:
    text = "from flametap.agent import machine_code; machine_code.read()"
    done = run_python(text, tmp_path)
    assert done.returncode == 0, done.stderr


def test_page_files_are_installed(tmp_path: Path) -> None:
    text = (
        "import json; from importlib.resources import files; top = files('flametap.web');"
        "print(json.dumps([(top / name).is_file() for name in"
        " ('templates/index.html', 'static/main.js', 'static/css/base.css')]))"
    )
    done = run_python(text, tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [True] * 3


CLOSED = """
import sys, sysconfig
site, closed = sysconfig.get_path("purelib"), sys.argv.pop(1)
sys.path[:] = [closed if path == site else path for path in sys.path]
from flametap.__main__ import main
main()
"""


@pytest.mark.needs("gcc")
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which gives up its rights")
def test_lines_are_read_where_only_root_may_enter(tmp_path: Path) -> None:
    """What reads debug information is imported from there before its process is nobody."""
    (tmp_path / "a.c").write_text("int main(int argc, char **argv) { return argc + !argv; }")
    subprocess.run(["gcc", "-g", "-o", "a", "a.c"], cwd=tmp_path, check=True, timeout=60)
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "site").symlink_to(sysconfig.get_path("purelib"))
    names = run("nm", "a", cwd=tmp_path).stdout.split()
    address = names[names.index("main") - 2]
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-I", "-c", CLOSED, closed / "site", "symbols", "./a", address],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert "a.c:1" in done.stdout, done


def test_unknown_pid_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    """The whole way through import, command line and checks, without a target."""
    highest = int(Path("/proc/sys/kernel/pid_max").read_text())
    done = run(SCRIPT, "dump", str(highest + 1), cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("flametap: ")
    assert "Traceback" not in done.stderr
