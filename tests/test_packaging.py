"""The list of packages, the tree, a built sdist and a wheel from it tell the same story.

A sub-package or data file that is missing from pyproject.toml works in an editable install and is
absent from the wheel: the likeliest way to ship a release that does not start.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flametap.agent import machine_code

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = {"profiler": "flametap", "web": "flametap/web", "agent": "flametap/agent"}
LEFT_OUT = re.compile(
    r"(^|/)README\.md$|^web/screenshot[\w-]*\.png$|(^|/)__pycache__/|\.egg-info(/|$)"
    r"|^agent/machine_code\.bin$"
)
SDIST_ONLY = ("LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")
MACHINE_CODE = "flametap/agent/machine_code.bin"
SDIST_MADE = re.compile(r"^PKG-INFO$|^setup\.cfg$|^[\w-]+\.egg-info/")  # by setuptools


def shipped_files() -> dict[str, str]:
    """What the wheel must hold: its name in there → its name in the tree."""
    return {
        f"{package}/{path.relative_to(ROOT / folder).as_posix()}": name
        for folder, package in FOLDERS.items()
        for path in sorted((ROOT / folder).rglob("*"))
        if path.is_file() and not LEFT_OUT.search(name := path.relative_to(ROOT).as_posix())
    }


def listed_packages() -> set[str]:
    """The packages pyproject.toml spells out (read without tomllib, which Python 3.10 lacks)."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    match = re.search(r"^packages = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert match, "pyproject.toml: no list of packages under [tool.setuptools]"
    return set(re.findall(r'"([\w.]+)"', match[1]))


def copy_tree(tree: Path) -> None:
    """Copy what is built: building in place would leave build/ and egg-info behind."""
    for name in (*SDIST_ONLY, "CHANGELOG.md", "CONTRIBUTING.md", "Makefile"):
        shutil.copy(ROOT / name, tree)
    for folder in FOLDERS:
        unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "machine_code.bin")
        shutil.copytree(ROOT / folder, tree / folder, ignore=unwanted)
    (tree / "tests").mkdir()
    for path in (ROOT / "tests").glob("*.py"):
        shutil.copy(path, tree / "tests")


def run_build(tree: Path, out: Path, compiler: str = "gcc") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", "-m", "build", "--no-isolation", "--outdir", str(out)]
    words = os.environ | {"CC": compiler}
    return subprocess.run(
        [*command, str(tree)], env=words, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def built(
    tmp_path_factory: pytest.TempPathFactory, require_capability: Callable[[str], str]
) -> Path:
    """The folder with an sdist, and with a wheel that was built from it, as `make wheel` does."""
    require_capability("gcc")
    tree, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("built")
    copy_tree(tree)
    done = run_build(tree, out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.fixture(scope="module")
def wheel(built: Path) -> Iterator[zipfile.ZipFile]:
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_every_package_is_listed() -> None:
    in_tree = {
        name.rpartition("/")[0].replace("/", ".")
        for name in shipped_files()
        if name.endswith(".py")
    }
    assert listed_packages() == in_tree


def test_every_package_has_an_init() -> None:
    """Without one, the editable install does not find the folder."""
    shipped = shipped_files()
    missing = [
        name for name in listed_packages() if f"{name.replace('.', '/')}/__init__.py" not in shipped
    ]
    assert not missing


def test_sdist_holds_exactly_the_tree(built: Path) -> None:
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        held = {member.name.partition("/")[2] for member in archive if member.isfile()}
    held = {name for name in held if not SDIST_MADE.search(name)}
    assert held == {*SDIST_ONLY, *shipped_files().values()}


def test_wheel_holds_exactly_the_tree(wheel: zipfile.ZipFile) -> None:
    held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert held - {MACHINE_CODE} == set(shipped_files())


def test_wheel_holds_machine_code(built: Path, wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Built from the sdist: a wheel never holds what a clean checkout does not."""
    assert wheel.getinfo(MACHINE_CODE).file_size > 100_000
    assert machine_code.read(Path(wheel.extract(MACHINE_CODE, tmp_path))).symbols
    (path,) = built.glob("*.whl")
    assert path.name.endswith("-py3-none-manylinux_2_17_x86_64.whl")
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
    assert "Tag: py3-none-manylinux_2_17_x86_64" in wheel.read(name).decode().splitlines()


def test_without_gcc_the_build_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    copy_tree(tmp_path / "tree")
    done = run_build(tmp_path / "tree", tmp_path / "out", "/absent/gcc")
    assert done.returncode != 0
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    (line,) = (line for line in said.splitlines() if "/absent/gcc" in line)
    assert line == (
        "flametap cannot be built, as its agent cannot be compiled: there is no /absent/gcc "
        "(apt install gcc)"
    )
    assert not list((tmp_path / "out").glob("*.whl"))


def test_wheel_installs_one_top_level_name(wheel: zipfile.ZipFile) -> None:
    """Nothing called web, agent, profiler or tests may land in somebody's site-packages."""
    assert {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" not in name} == {
        "flametap"
    }


def test_wheel_declares_command_and_licence(wheel: zipfile.ZipFile) -> None:
    names = {name.partition(".dist-info/")[2]: name for name in wheel.namelist()}
    scripts = configparser.ConfigParser()
    scripts.read_string(wheel.read(names["entry_points.txt"]).decode())
    assert dict(scripts["console_scripts"]) == {"flametap": "flametap.__main__:main"}
    assert "licenses/LICENSE" in names
