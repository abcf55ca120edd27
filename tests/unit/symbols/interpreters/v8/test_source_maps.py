"""Maps of scripts: only those that belong to what was loaded; whatever else is a note."""

from __future__ import annotations

import base64
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flametap.symbols.interpreters.v8.code import Place
from flametap.symbols.interpreters.v8.functions import SharedFunction
from flametap.symbols.interpreters.v8.heap import Text
from flametap.symbols.interpreters.v8.mapped_places import SourceMap, Spot
from flametap.symbols.interpreters.v8.names import FunctionNames
from flametap.symbols.interpreters.v8.scripts import Script, ends_of
from flametap.symbols.interpreters.v8.source_maps import SourceMaps
from flametap.symbols.locate.open_file import Root
from flametap.symbols.names.limits import Budget

PROJECT = Path(__file__).parents[4] / "data" / "typescript"


class Asked:
    """Asks for maps, and waits for the answers."""

    def __init__(self, budget: int = 1 << 30) -> None:
        self.answers: dict[str, SourceMap | None] = {}
        self._changed = threading.Condition()
        self.maps = SourceMaps([Root()], self._on_read, Budget(budget))

    def _on_read(self, key: str, script: Script, found: SourceMap | None) -> None:
        with self._changed:
            script.map = found
            self.answers[key] = found
            self._changed.notify_all()

    def about(self, script: Script) -> SourceMap | None:
        self.maps.ask(script)
        with self._changed:
            assert self._changed.wait_for(lambda: script.key in self.answers, 60)
        return self.answers[script.key]


@pytest.fixture
def asked() -> Iterator[Asked]:
    found = Asked()
    yield found
    found.maps.close()


def loaded(path: Path, code: str, link: str) -> Script:
    """A script as the engine has it."""
    text = Text(code.encode("latin-1"), is_wide=False)
    return Script(str(path), ends_of(text), text, link)


def built(path: Path) -> Script:
    """The script in a file, just loaded."""
    return loaded(path, path.read_text(), f"{path.name}.map")


def test_places_count_from_where_a_script_begins_in_its_file() -> None:
    text = Text(b"(f(){\n  g()})", is_wide=False)
    inner = Script("page.html", ends_of(text), first=(100, 40))
    assert (inner.place(1), inner.place(8)) == ((101, 42), (102, 3))
    wrapped = Script("case.js", ends_of(text), first=(0, -3))  # code before it that is not its own
    assert (wrapped.place(0), wrapped.place(3), wrapped.place(8)) == ((1, 1), (1, 1), (2, 3))


@pytest.mark.parametrize("folder", ["dist", "bundle"])
def test_functions_have_names_and_places_of_their_sources(asked: Asked, folder: str) -> None:
    script = built(PROJECT / folder / "app.js")
    code = script.source.raw.decode() if script.source else ""
    park = code.index("(", code.index("function park" if folder == "dist" else "function l"))
    function = SharedFunction("park" if folder == "dist" else "l", park, script)
    file = str(PROJECT / "src" / "app.ts")
    assert function.spot.file == script.file
    assert asked.about(script) is not None
    assert function.own_name == "park"
    assert function.spot[:2] == (file, 52)
    shown = FunctionNames(Budget(1 << 20)).function(function)
    assert (shown.name, shown.file, shown.module) == ("park", file, "src/app.ts")
    assert asked.maps.note == "1 script mapped by source maps"
    whole = SharedFunction("", 0, script)
    assert whole.spot == (
        Spot(file, 1, 1) if folder == "dist" else Spot(script.file, *script.place(0))
    )


def test_variables_of_a_minifier_are_no_part_of_a_name(asked: Asked) -> None:
    script = built(PROJECT / "bundle" / "app.js")
    assert script.name("e.settle", 20) == "e.settle"
    asked.about(script)
    assert script.name("e.settle", 20) == "settle"
    assert script.name("Ledger.settle", 20) == "Ledger.settle"
    assert script.name("", 20) == ""


def test_place_that_the_map_does_not_know_stays(asked: Asked) -> None:
    script = built(PROJECT / "dist" / "app.js")
    asked.about(script)
    assert script.spot(20) == Spot(script.file, 2, 7)  # Object.defineProperty(exports …
    assert script.spot(-1) == script.spot(1 << 29) == Spot(script.file, 0, 0)
    assert Place(SharedFunction("f", -1, script), 0).file == ""


def test_sources_are_shown_from_the_map(asked: Asked) -> None:
    asked.about(built(PROJECT / "bundle" / "app.js"))
    asked.about(built(PROJECT / "dist" / "ledger.js"))
    file = PROJECT / "src" / "ledger.ts"
    text = asked.maps.text(str(file))
    assert text is not None
    assert text.lines is not None
    assert "\n".join(text.lines) == file.read_text()
    assert asked.maps.text("/no/such.ts") is None
    written = os.stat(PROJECT / "dist" / "ledger.js.map").st_mtime_ns
    assert asked.maps.modified_ns(str(file)) >= written
    assert asked.maps.modified_ns("/no/such.ts") == 0


CODE = "f()\n"
MAP = json.dumps({"version": 3, "sources": ["x.ts"], "names": [], "mappings": "AAAA"})


def inside(text: str) -> str:
    return "data:application/json;base64," + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("link", "file", "note"),
    [
        ("x.map", MAP, ""),
        (inside(MAP), "", ""),
        ("x.map", "", "is empty"),
        ("x.map", "{", "is no JSON"),
        ("no.map", "", "is not there"),
        ("folder", "", "not a regular file"),
        ("fifo", "", "not a regular file"),
        ("/dev/zero", "", "not a regular file"),
        ("/proc/self/maps", "", "is empty"),
        ("huge", "", "is larger than"),
        ("https://example.org/x.map", "", "is in no file"),
        (inside("{"), "", "is no JSON"),
        ("data:;base64,*", "", "is damaged"),
        (inside(MAP.replace("AAAA", ";;;;;AAAA")), "", "is of another script"),
        (inside(MAP.replace("AAAA", "AADA")), "", "is damaged"),
        ("x\0.map", "", "cannot be read"),
    ],
)
def test_what_cannot_be_used_is_a_note(
    asked: Asked, tmp_path: Path, link: str, file: str, note: str
) -> None:
    (tmp_path / "x.map").write_text(file)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with open(tmp_path / "huge", "wb") as huge:
        huge.truncate(1 << 40)
    path = tmp_path / "app.js"
    path.write_text(CODE)
    found = asked.about(loaded(path, CODE, link))
    if note:
        assert found is None
        assert note in asked.maps.note
        assert "1 script shown as compiled (" in asked.maps.note
        assert "\n" not in asked.maps.note
    else:
        assert found is not None
        assert found.spot(1, 1) == Spot(str(tmp_path / "x.ts"), 1, 1)


def test_script_that_is_not_what_its_file_says_has_no_map(asked: Asked, tmp_path: Path) -> None:
    path = tmp_path / "app.js"
    (tmp_path / "x.map").write_text(MAP)
    for on_disk in ("g()\n", None):
        if on_disk is None:
            path.unlink()
        else:
            path.write_text(on_disk)
        assert asked.about(loaded(path, CODE + "//" * (on_disk is None), "x.map")) is None
    assert "2 scripts shown as compiled (" in asked.maps.note
    path.write_text(f"\ufeff{CODE}", "utf-8")
    assert asked.about(loaded(path, CODE, "./x.map")) is not None  # the engine drops the mark


def test_maps_that_take_too_much_memory_are_left_out(tmp_path: Path) -> None:
    asked = Asked(budget=10)
    try:
        assert asked.about(built(PROJECT / "bundle" / "app.js")) is None
        assert "too much memory" in asked.maps.note
    finally:
        asked.maps.close()
