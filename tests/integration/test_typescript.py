"""Programs made from TypeScript: functions, files and lines are those of the source.

The judge is node itself: with ``--enable-source-maps`` an Error's stack has the places of the
source. Its names are left out where they are those of variables.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flametap.analysis.views import views_of
from flametap.capture.live import Capture
from flametap.model import Clock, FrameKind
from flametap.tree.calltree import build
from flametap.tree.selection import Selection
from js_stacks import Frame, of_capture, of_error
from nightly import nightly
from recording import capturing
from running import Target, wait_until

pytestmark = [pytest.mark.needs("attach"), pytest.mark.needs("node")]

Adopt = Callable[[Target], Target]
PROJECT = Path(__file__).parents[1] / "data" / "typescript"
FUNCTIONS = {
    *("park", "choose", "throughArrow", "throughGeneric", "inside", "settle", "from", "main"),
}


def copied(folder: Path) -> Path:
    """A copy of the project, which may be changed."""
    return Path(shutil.copytree(PROJECT, folder / "project"))


def with_map_inside(script: Path) -> None:
    """Put a script's map into it, as a ``data:`` URL; its sources lie where they lay."""
    file = script.with_name(script.name + ".map")
    found = base64.b64encode(file.read_bytes()).decode()
    code = script.read_text().rpartition("//# sourceMappingURL=")[0]
    script.write_text(f"{code}//# sourceMappingURL=data:application/json;base64,{found}\n")
    file.unlink()


def recorded(adopt: Adopt, node: str, script: Path, said: Path) -> tuple[Capture, list[Frame]]:
    """Run a script until it is parked; return its frames, leaf first, and what it says itself."""
    target = adopt(Target([node, "--enable-source-maps", str(script), str(said)]))
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(lambda: any(each.wall_ns for each in capture.profile.thread_infos()), "a stack")
        capture.stop()
        capture.finish_symbols(60)
    target.finish()
    return capture, list(of_error(said.read_text()))


@pytest.mark.parametrize("version", ["node", *nightly("node16", "node18", "node22", "node24")])
@pytest.mark.parametrize(
    ("folder", "change"),
    [
        ("dist", None),
        ("bundle", None),
        *nightly(("dist", with_map_inside), ("bundle", with_map_inside)),
    ],
)
def test_frames_are_those_of_the_source(
    adopt: Adopt,
    tmp_path: Path,
    require_capability: Callable[[str], str],
    version: str,
    folder: str,
    change: Callable[[Path], None] | None,
) -> None:
    project = copied(tmp_path)
    script = project / folder / "app.js"
    if change is not None:
        change(script)
    node = require_capability(version)
    capture, theirs = recorded(adopt, node, script, tmp_path / "stack")
    (main,) = (each for each in capture.profile.thread_infos() if each.tid == capture.status().pid)
    ours = of_capture(capture, main.thread_id)
    first = next(at for at, frame in enumerate(ours) if frame.name == "park")
    ours = ours[first:]
    places = [frame.place for frame in theirs if "/src/" in frame.place]
    assert len(places) > 20
    # The line of the innermost call is that of the read, not that of the error.
    assert [frame.place for frame in ours[1 : len(places)]] == places[1:]
    assert {frame.name for frame in ours[: len(places)]} - {""} <= FUNCTIONS
    assert {frame.name for frame in ours} >= FUNCTIONS - {"main"}
    (note,) = (each.note for each in capture.status().symbols if each.source == "javascript")
    assert "mapped by source maps" in note


def test_source_panel_shows_the_source(adopt: Adopt, tmp_path: Path) -> None:
    project = copied(tmp_path)
    shutil.rmtree(project / "src")  # a bundle has its sources in its map
    capture, _ = recorded(adopt, "node", project / "bundle" / "app.js", tmp_path / "stack")
    functions = capture.names.functions
    (settle,) = (
        at
        for at, function in enumerate(functions)
        if function.kind is FrameKind.JAVASCRIPT
        and (function.name, function.file) == ("settle", str(project / "src" / "ledger.ts"))
    )
    found = views_of(capture.recording).lines(settle, Selection(Clock.WALL))
    texts = {row.line: row.text for row in found.lines if row.total_ns}
    assert texts == {36: "            this.visitor(depth)"}


def test_script_that_was_built_anew_is_shown_as_it_runs(adopt: Adopt, tmp_path: Path) -> None:
    project = copied(tmp_path)
    script = project / "dist" / "app.js"
    target = adopt(Target(["node", str(script), str(tmp_path / "stack")]))
    script.write_text("// built anew\n" + script.read_text())
    with capturing(target.pid, rate_hz=100) as capture:
        wait_until(lambda: any(each.wall_ns for each in capture.profile.thread_infos()), "a stack")
        capture.stop()
        capture.finish_symbols(60)
    tree = build(capture.profile, capture.names, Clock.WALL)
    files = {each.file for each in tree.functions if each.kind is FrameKind.JAVASCRIPT}
    assert str(script) in files
    assert str(project / "src" / "app.ts") not in files
    assert str(project / "src" / "ledger.ts") in files
    (note,) = (each.note for each in capture.status().symbols if each.source == "javascript")
    assert "not, or no longer, what was loaded" in note
    assert target.finish() == ["done"]
