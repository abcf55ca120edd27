"""What the documents point at exists: links, pictures, make targets; and files are in a README."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = (
    ".",
    "agent",
    "bench",
    "docs",
    "profiler",
    "profiler/analysis",
    "profiler/code",
    "profiler/locks",
    "profiler/recording",
    "profiler/symbols",
    "profiler/timeline",
    "profiler/tree",
    "tests",
    "tests/targets",
    "tests/data",
    "web",
)
# Their READMEs list every file, once.
ROOMS = [
    f"profiler/{name}"
    for name in (
        "analysis",
        "code",
        "device",
        "export",
        "foreign",
        "locks",
        "perf",
        "push",
        "recording",
        "recording/merge",
        "recording/names",
        "recording/profile",
        "remote",
        "timeline",
        "tree",
    )
]
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in (ROOT / folder).glob("*.md")
)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_relative_links_lead_somewhere(name: str) -> None:
    path = ROOT / name
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text("utf-8"))
    lost = [link for link in links if ":" not in link and not (path.parent / link).exists()]
    assert not lost


@pytest.mark.parametrize("name", DOCUMENTS)
def test_make_targets_exist(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    told = re.findall(r"(?:^ {4}|`)make ([a-z][a-z-]*)", text, re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert not [target for target in told if not re.search(rf"^{target}:", makefile, re.MULTILINE)]


@pytest.mark.parametrize("room", ROOMS)
def test_each_file_is_in_the_readme_of_its_folder(room: str) -> None:
    listed = re.findall(r"^\| (`[^|]*`) \|", (ROOT / room / "README.md").read_text("utf-8"), re.M)
    names = [name for cell in listed for name in re.findall(r"`([\w.]+)`", cell)]
    files = {path.stem for path in (ROOT / room).glob("*.py")} - {"__init__"}
    files |= {path.name for kind in ("js", "c") for path in (ROOT / room).glob(f"*.{kind}")}
    assert set(names) == files
    assert len(names) == len(files)
