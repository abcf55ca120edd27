"""Flame graphs as SVG: well-formed whatever the names, with the boxes of the tree, in the page's
colours."""

from __future__ import annotations

import io
import json
import random
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.export import svg
from flametap.export.palette import box_color, root_color, run_color
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, FrameKind, Function, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection, Span
from profiles import MAIN_ADDR, NAMES, random_profile, small_profile
from recordings import recorded

SVG = "{http://www.w3.org/2000/svg}"
COLORS = Path(__file__).resolve().parents[3] / "web" / "static" / "model" / "color.js"


def drawn(request: ExportRequest) -> ET.Element:
    file = io.BytesIO()
    svg.write(request, file)
    return ET.fromstring(file.getvalue())


PROG = Status(7, "prog", "ended")


def widths(root: ET.Element) -> dict[str, float]:
    """The width of the first box of each name."""
    found: dict[str, float] = {}
    for group in root.iter(f"{SVG}g"):
        title, rect = group.find(f"{SVG}title"), group.find(f"{SVG}rect")
        assert title is not None
        assert rect is not None
        found.setdefault((title.text or "").rpartition(": ")[0], float(rect.attrib["width"]))
    return found


def test_widths_are_shares() -> None:
    found = widths(drawn(ExportRequest(recorded(*small_profile(), PROG))))
    whole = found["all"]
    assert whole == pytest.approx(svg.WIDTH_PX, abs=1)
    assert found["main"] / whole == pytest.approx((1_500 + 2_300 + 700 + 10_000) / 16_000, abs=1e-3)
    assert found["[unattributed]"] / whole == pytest.approx(400 / 16_000, abs=2e-3)


def test_only_what_is_chosen() -> None:
    selection = Selection(Clock.WALL, frozenset({2}), span=Span(0, 10_000))
    root = drawn(ExportRequest(recorded(*small_profile(), PROG), selection))
    assert set(widths(root)) == {"all", "main", "work", "clamp"}
    title = root.find(f"{SVG}title")
    assert title is not None
    assert title.text == "prog (7): wall time; 0 s to 1e-05 s of the recording; only pool;1"


@pytest.mark.parametrize(
    "name", ["</svg><script>alert(1)</script>", "a\x00b\x1b\ufffe\ud800", "]]>&amp;", "'\"\u2028"]
)
def test_names_cannot_break_it(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMES, MAIN_ADDR, [Frame(Function(name, "prog"))])
    root = drawn(ExportRequest(recorded(*small_profile(), Status(7, name, "ended"))))
    assert {each.tag.removeprefix(SVG) for each in root.iter()} == {
        *("svg", "title", "rect", "text", "g"),
    }
    assert len(widths(root)) == len(widths(drawn(ExportRequest(recorded(*small_profile())))))


def test_large_and_empty_profiles() -> None:
    assert len(widths(drawn(ExportRequest(recorded(*random_profile(random.Random(2))))))) > 5
    assert set(widths(drawn(ExportRequest(recorded(Profile(), SymbolTable()))))) <= {"all"}


def test_colours_are_the_page_s(require_capability: Callable[[str], str]) -> None:
    functions = [
        Function(name, module, kind=kind)
        for name in ("main", "std::vector<int>::push_back", "größe", "[waiting for a CPU]", "😀")
        for module in ("prog", "libc.so.6", "libstdc++.so.6.0.30", "[vdso]", "")
        for kind in FrameKind
    ]
    cases = [
        {"kind": f.kind.value, "module": f.module, "name": f.name, "origin": origin}
        for f in functions
        for origin in ("", "project", "native", "interpreter")
    ]
    script = (
        f"import {{ Palette }} from '{COLORS}';"
        "const text = (await import('node:fs')).readFileSync(0, 'utf8');"
        "const palette = new Palette('light', 'prog');"
        "const found = JSON.parse(text).map((f) => palette.box(f));"
        "console.log(JSON.stringify([palette.root, palette.run, ...found]));"
    )
    command = [require_capability("node"), "--input-type=module", "--eval", script]
    done = subprocess.run(
        command, input=json.dumps(cases), capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    ours = [root_color(), run_color()]
    ours += [
        box_color(
            Function(case["name"], case["module"], kind=FrameKind(case["kind"])),
            case["origin"],
            "prog",
        )
        for case in cases
    ]
    assert ours == json.loads(done.stdout)
