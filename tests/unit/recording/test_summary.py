"""The title and the summary of a recording."""

from __future__ import annotations

from flametap.model import Status, Verdict
from flametap.recording import summary
from profiles import small_profile
from recordings import recorded


def test_title_is_short_whatever_the_command() -> None:
    status = Status(7, "java -cp " + "x" * 12_000, "ended")
    title = summary.title(recorded(*small_profile(), status))
    assert len(title) < 100
    assert title.endswith("… (7)")


def test_cut_reasons_cover_every_verdict_that_is_not_whole() -> None:
    assert {v for v in Verdict if not v.is_complete} == set(summary.CUT_BY)
