"""The page of another profiler's file: what the file knows is shown, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from flametap.analysis.views import views_of
from flametap.web.recordings import File, Recordings
from flametap.web.server import Server, serve
from foreign_files import opened

pytestmark = pytest.mark.needs("chromium")


READY = (
    "() => globalThis.flametap?.views.current?.total_ns > 0"
    " && flametap.feed.status && flametap.feed.line !== 'connecting'"
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    frames = [{"name": "main"}, {"name": "work"}]
    profile = {"type": "sampled", "name": "t", "unit": "none", "startValue": 0, "endValue": 1}
    profile |= {"samples": [[0], [0, 1]], "weights": [3, 14_000]}
    data = {"shared": {"frames": frames}, "profiles": [profile], "exporter": "py-spy@0.4.0"}
    recording = opened(tmp_path, "x", json.dumps(data))
    server = serve(Recordings([File("x", lambda: views_of(recording))]), "127.0.0.1", 0, "secret")
    yield server
    server.close()


def test_counts_without_moments_and_clocks(open_page: Callable[..., Page]) -> None:
    page = open_page("#tab=functions", ready=READY)
    expect(page.locator("#functions")).to_contain_text("14\u202f000 samples")
    expect(page.locator("#state-text")).to_have_text("File")
    expect(page.locator("#banner-text")).to_have_text(
        "A file of another profiler: speedscope, by py-spy."
    )
    for hidden in ("#clock", "#timeline", "#elapsed", "#rate"):
        expect(page.locator(hidden)).to_be_hidden()
    page.keyboard.press("q")
    expect(page.locator("#quality-trust")).to_contain_text("flametap did not take these stacks")
    expect(page.locator("#quality section h2:visible")).to_have_count(0)
    page.keyboard.press("e")
    expect(page.locator("#save-what")).to_have_text(re.compile("^samples: "))
