"""Odd values in files of the target that once raised what nobody caught."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flametap.model import RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.locate.debuginfod import Debuginfod
from flametap.symbols.locate.debuginfod_cache import DEBUGINFO, DebuginfodCache
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, run

WAIT_S = 60
SOURCE = "int main(int argc, char **argv) { return argc; }"


@pytest.mark.needs("gcc")
def test_debug_link_that_is_no_text_leaves_a_note_that_is(tmp_path: Path) -> None:
    """The API answered 500: the note held half a character."""
    program = compile_object(tmp_path, SOURCE, "-Wl,--build-id=none", name="program")
    link, output = tmp_path / "link", tmp_path / "output"
    link.write_bytes(b"x\xff.debug\0" + bytes(7))
    add = f".gnu_debuglink={link}"
    run(["objcopy", "--strip-all", "--add-section", add, str(program), str(output)])
    (tmp_path / "x\udcff.debug").write_bytes(program.read_bytes())
    table = SymbolTable()
    one = Symbolizer(table, None, cache_dir=tmp_path / "cache")
    one.add_module(module_of(output))
    one.submit_many([(0, RawFrame(1, 0x1100))])
    assert one.wait_idle(WAIT_S)
    (source,) = one.sources()
    one.close()
    assert "x\ufffd.debug" in source.note
    assert json.dumps(source.note, ensure_ascii=False).encode()


@pytest.mark.parametrize("build_id", ["00", "0" * 130, "../../x"])
def test_build_id_that_no_server_knows_is_not_asked_for(tmp_path: Path, build_id: str) -> None:
    servers = Debuginfod(["http://127.0.0.1:1"], DebuginfodCache(tmp_path))
    problems: list[str] = []
    assert servers.cached(build_id) is None
    assert servers.fetch(build_id, DEBUGINFO, problems) is None
    assert "was not asked" in problems[0]
    servers.close()
