"""The agent's sources as a package: every file is in the list, the joined text names its lines."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from flametap import agent


def test_every_c_file_is_joined_once() -> None:
    folder = Path(str(files(agent)))
    present = {str(path.relative_to(folder)) for path in folder.rglob("*.[ch]")}
    assert len(set(agent.C_SOURCES)) == len(agent.C_SOURCES)
    assert set(agent.C_SOURCES) == present


def test_source_marks_where_each_file_begins() -> None:
    text = agent.source(("abi.h", "unwind/rules.h"))
    assert text.startswith('#line 1 "abi.h"\n')
    assert text.count("#line 1 ") == 2
    assert text.endswith("\n")


def test_source_of_an_absent_file_says_which() -> None:
    with pytest.raises(FileNotFoundError, match=r"absent\.c"):
        agent.source(("absent.c",))


def test_script_is_there() -> None:
    assert "rpc.exports" in agent.script()
