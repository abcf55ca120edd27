"""Source maps: places and names as another reader has them; what breaks a rule is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from symbolic.sourcemap import SourceMapView

from flametap.recording.names.inline_chains import LinesError
from flametap.symbols.debuginfo import source_map
from flametap.symbols.debuginfo.job import SOURCE_MAP, DebugJob
from flametap.symbols.debuginfo.source_map import MAX_MAP_BYTES, decode, table_of
from flametap.symbols.debuginfo.source_map_table import NONE, Origin, SourceMapTable
from flametap.symbols.debuginfo.worker_client import Worker

PROJECT = Path(__file__).parents[3] / "data" / "typescript"
MAPS = sorted(path.relative_to(PROJECT) for path in PROJECT.glob("*/*.js.map"))
# a|b of line 1 → 1:1 of x.ts; 5th column of line 2 → 3:3, called "run"; column 8: nothing.
SMALL = {
    "version": 3,
    "sources": ["x.ts"],
    "names": ["run"],
    "sourcesContent": ["one\ntwo\n  run\n"],
    "mappings": "AAAA;IAEEA,G",
}


def small(**changes: Any) -> bytes:
    return json.dumps({**SMALL, **changes}).encode()


def table(data: bytes) -> SourceMapTable:
    return SourceMapTable(table_of(data))


@pytest.mark.parametrize("path", MAPS, ids=str)
def test_places_and_names_are_those_of_symbolic(path: Path) -> None:
    data = (PROJECT / path).read_bytes()
    ours, theirs = table(data), SourceMapView.from_json_bytes(data)
    tokens = {(each.dst_line, each.dst_col): each for each in theirs}
    assert len(tokens) > 30
    for (line, column), token in tokens.items():
        found = ours.origin(line + 1, column + 1)
        assert found is not None
        place = (ours.sources[found.source], found.line - 1, found.column - 1)
        assert place == (token.src, token.src_line, token.src_col)
        assert found.name == (token.name or "")


def test_place_is_that_of_the_last_mapping_of_its_line() -> None:
    found = table(small())
    assert found.origin(1, 1) == found.origin(1, 99) == Origin(0, 1, 1, "")
    assert found.origin(2, 4) is None
    assert found.origin(2, 5) == Origin(0, 3, 3, "run")
    assert found.origin(2, 6) == Origin(0, 3, 3, "")  # not exactly there
    assert found.origin(2, 8) is None
    assert found.origin(3, 1) is found.origin(0, 0) is found.origin(-5, -5) is None
    assert found.text(0) == "one\ntwo\n  run\n"
    assert found.last_line == 2


def test_parts_of_an_index_map_lie_where_they_say() -> None:
    part = {**SMALL, "sources": ["y.ts"], "mappings": "AAAA,KAACA;CACA"}
    sections = [
        {"offset": {"line": 0, "column": 0}, "map": {**SMALL, "sourceRoot": "lib"}},
        {"offset": {"line": 1, "column": 6}, "map": part},
    ]
    found = table(json.dumps({"version": 3, "sections": sections}).encode())
    assert found.sources == ["lib/x.ts", "y.ts"]
    assert found.origin(2, 5) == Origin(0, 3, 3, "run")
    assert found.origin(2, 7) == Origin(1, 1, 1, "")
    assert found.origin(2, 12) == Origin(1, 1, 2, "run")
    assert found.origin(3, 2) == Origin(1, 2, 2, "")


@pytest.mark.parametrize(
    ("root", "source", "whole"),
    [
        ("", "../x.ts", "../x.ts"),
        ("src", "x.ts", "src/x.ts"),
        ("/abs/", "x.ts", "/abs/x.ts"),
        ("webpack://app", "./x.ts", "webpack://app/./x.ts"),
        ("src", "/abs/x.ts", "/abs/x.ts"),
        ("src", "file:///abs/x.ts", "file:///abs/x.ts"),
    ],
)
def test_sources_lie_below_the_root(root: str, source: str, whole: str) -> None:
    assert table(small(sourceRoot=root, sources=[source])).sources == [whole]


def test_guard_and_missing_sources() -> None:
    found = table(b")]}'\n" + small(sources=[None], sourcesContent=None))
    assert found.origin(1, 1) is None
    assert found.text(0) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"\xff\xfe{}",
        b"[" * 1_000_000,
        b'{"version": 3, "sections": ' * 5_000,
        small(version=2),
        small(mappings=None),
        small(mappings=["AAAA"]),
        small(sources={"0": "x"}),
        small(mappings="AAAA;*"),
        small(mappings="AAA"),
        small(mappings="AAAAAA"),
        small(mappings="g"),  # ends within a number
        small(mappings="g,AAAA"),
        small(mappings="ggggggggggggC"),
        small(mappings="AADA"),  # a line below zero
        small(mappings="DAAA"),
        small(mappings="ADAA"),
        small(mappings="ACAA"),  # no such source
        small(mappings="AAAAC"),  # no such name
        small(mappings="\u202eAAAA"),
        json.dumps({"version": 3, "sections": 5}).encode(),
        json.dumps({"version": 3, "sections": [{"offset": {"line": -1, "column": 0}}]}).encode(),
        json.dumps(
            {"version": 3, "sections": [{"offset": {"line": 0, "column": 0}, "url": "x"}]}
        ).encode(),
    ],
)
def test_what_breaks_a_rule_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(LinesError) as caught:
        table_of(data)
    assert 0 < len(str(caught.value)) < 100
    assert "\n" not in str(caught.value)


def test_sections_in_sections_end() -> None:
    nested: dict[str, Any] = dict(SMALL)
    for _ in range(200):
        nested = {"version": 3, "sections": [{"offset": {"line": 0, "column": 0}, "map": nested}]}
    with pytest.raises(LinesError, match="damaged"):
        table_of(json.dumps(nested).encode())


def test_too_many_mappings_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_map, "MAX_MAPPINGS", 1000)
    assert len(decode(b"A" + b",C" * 900)) == 901
    with pytest.raises(LinesError, match="too many"):
        decode(b"A" + b",C" * 1000)


def test_line_without_mappings_and_columns_out_of_order() -> None:
    assert decode(b";;;").shape == (0, 6)
    found = decode(b"IAAA,DAAA;;AACA")
    assert found.tolist() == [
        [0, 3, 0, 0, 0, NONE],
        [0, 4, 0, 0, 0, NONE],
        [2, 0, 0, 1, 0, NONE],
    ]


@pytest.mark.parametrize("cut", [0, 3, 10, 60, -1])
def test_damaged_table_is_refused_or_bounded(cut: int) -> None:
    data = table_of(small())
    with pytest.raises(LinesError):
        SourceMapTable(data[:cut] if cut >= 0 else b"\xff" * len(data))


def test_map_of_a_gigabyte_is_refused_by_the_process_that_reads(
    tmp_path: Path, worker: Worker
) -> None:
    path = tmp_path / "x.map"
    with open(path, "wb+") as file:
        for data, why in ((b"", "larger than"), (small(), "")):
            file.truncate(0)
            file.seek(0)
            file.write(data)
            file.truncate(len(data) or MAX_MAP_BYTES + 1)
            file.flush()
            job = DebugJob(str(path), 0, wants=SOURCE_MAP)
            if why:
                with pytest.raises(LinesError, match=why):
                    worker.build(job, [file.fileno()], len(data))
            else:
                payload = worker.build(job, [file.fileno()], len(data)).payload
                assert SourceMapTable(payload).origin(2, 5) == Origin(0, 3, 3, "run")
