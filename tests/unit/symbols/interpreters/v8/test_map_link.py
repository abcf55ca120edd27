"""Which map a script names, what its sources are called, and where functions have their names."""

from __future__ import annotations

import pytest

from flametap.symbols.interpreters.v8.heap import Text
from flametap.symbols.interpreters.v8.map_link import (
    data_of,
    identifier_of,
    link_of,
    name_of,
    path_of,
    source_file,
)


def texts(text: str) -> list[Text]:
    """The text as the engine keeps it: with characters of one byte, if that is enough, or two."""
    wide = Text(text.encode("utf-16-le"), is_wide=True)
    if max(map(ord, text), default=0) > 255:
        return [wide]
    return [Text(text.encode("latin-1"), is_wide=False), wide]


@pytest.mark.parametrize(
    ("code", "url"),
    [
        ("f()\n//# sourceMappingURL=app.js.map", "app.js.map"),
        ("f()\n//@ sourceMappingURL=app.js.map\n\n", "app.js.map"),
        ("f() //# sourceMappingURL=é.map  \r\n// the end\n", "é.map"),
        ("//# sourceMappingURL=a.map\n//# sourceMappingURL=b.map", "b.map"),
        ("//# sourceMappingURL=a.map\nf()", ""),
        ("g('//# sourceMappingURL=a.map')", ""),
        ("const x = `\n//# sourceMappingURL=a.map`", ""),
        ("//# sourceMappingURL=", ""),
        ("sourceMappingURL=a.map", ""),
        ("\u2603 f()\n//# sourceMappingURL=a.map", "a.map"),
        ("//# sourceMappingURL=" + "a" * 5000, ""),
        ("//# sourceMappingURL=data:application/json,{}", "data:application/json,{}"),
        ("eval\n//# sourceMappingURL=a.map\n//# sourceURL=webpack:///x.ts\n\n}", "a.map"),
        ("", ""),
    ],
)
def test_map_is_named_by_the_last_comment(code: str, url: str) -> None:
    assert [link_of(text) for text in texts(code)] == [url] * len(texts(code))


def test_evaluated_code_may_name_itself() -> None:
    for text in texts("f()\n//# sourceURL=[module]\n//# sourceURL=webpack:///x.ts\n}"):
        assert name_of(text) == "webpack:///x.ts"
        assert link_of(text) == ""


def test_long_comment_is_searched_in_a_moment() -> None:
    code = "//# sourceMappingURL=a.map\n" + "//" * 200_000 + "\nf()"
    assert link_of(texts(code)[0]) == ""


@pytest.mark.parametrize(
    ("url", "data"),
    [
        ("data:application/json;base64,e30=", b"{}"),
        ("data:application/json;charset=utf-8;base64,e30%3D", b"{}"),
        ("data:,%7B%7D", b"{}"),
        ("data:;base64,e3*=", None),
        ("data:;base64,e", None),
    ],
)
def test_data_urls(url: str, data: bytes | None) -> None:
    assert data_of(url) == data


@pytest.mark.parametrize(
    ("url", "script", "path"),
    [
        ("app.js.map", "/srv/dist/app.js", "/srv/dist/app.js.map"),
        ("../maps/a%20b.map?v=1#x", "/srv/dist/app.js", "/srv/maps/a b.map"),
        ("file:///maps/a.map", "/srv/dist/app.js", "/maps/a.map"),
        ("/maps/a.map", "/srv/dist/app.js", "/maps/a.map"),
        ("../" * 50 + "etc/a.map", "/srv/app.js", "/etc/a.map"),
        ("https://example.org/a.map", "/srv/app.js", ""),
        ("a.map", "evalmachine", ""),
        ("file://[", "/srv/app.js", ""),
    ],
)
def test_map_lies_beside_the_script(url: str, script: str, path: str) -> None:
    assert path_of(url, script) == path


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("../src/app.ts", "/srv/src/app.ts"),
        ("/abs/app.ts", "/abs/app.ts"),
        ("file:///abs/a%20b.ts", "/abs/a b.ts"),
        ("webpack://shop/./src/app.ts", "webpack://shop/src/app.ts"),
        ("webpack:///./src/app.ts?9aad", "webpack://src/app.ts"),
        ("webpack://shop/../" + "../" * 9 + "x.ts", "webpack://../" + "../" * 8 + "x.ts"),
        ("../" * 90 + "etc/passwd", "/etc/passwd"),
        ("a\u202esj.ts\n", "/srv/dist/a?sj.ts?"),
        ("//host/x.ts", "/host/x.ts"),
    ],
)
def test_sources_lie_beside_the_map(source: str, file: str) -> None:
    assert source_file(source, "/srv/dist") == file


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("function ab|(x) {}", "ab"),
        ("var y=1;ab=|(x)=>x", "ab"),
        ("ab = async |x => x", "ab"),
        ("{ab: async function*|(x) {}}", "ab"),
        ("{ab(x) {}, async ab|(x) {}}", "ab"),
        ("class ab{c=1;constructor|(x){}}", "ab"),
        ("class ab extends cd {constructor|(x){}}", "ab"),
        ("\u2603;function ab|(x) {}", "ab"),
        ("function cab|(x) {}", ""),
        ("function $ab|(x) {}", ""),
        ("f(ab, |(x) => x)", ""),
        ("ab == |(x) => x", ""),
        ("class cab{constructor|(x){}}", ""),
    ],
)
def test_function_has_its_name_before_its_parameters(code: str, name: str) -> None:
    start = code.index("|")
    code = code.replace("|", "")
    for text in texts(code):
        at = identifier_of(text, "ab", start)
        assert code[at : at + len(name)] == name if name else at == -1


def test_characters_outside_the_basic_plane_count_twice_as_in_the_engine() -> None:
    code = "/*😀*/ function ab"
    (text,) = texts(f"{code}() {{}}")
    start = len(code) + 1
    assert identifier_of(text, "ab", start) == start - len("ab")


def test_functions_without_a_name_and_places_outside() -> None:
    (text, _) = texts("function f() {}")
    assert identifier_of(text, "", 10) == identifier_of(text, "f", -1) == -1
    assert identifier_of(text, "f", 0) == identifier_of(text, "f", 10_000) == -1
    assert identifier_of(text, "f" * 1000, 10) == -1
