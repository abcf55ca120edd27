"""A page that compares with another recording knows what is chance, as ``flametap diff`` does."""

from __future__ import annotations

from flametap.analysis.difference import difference_of
from flametap.analysis.dispersion import Side
from flametap.analysis.views import views_of
from flametap.recording.recording import Recording
from flametap.tree.selection import EVERYTHING
from flametap.web.comparing import Baseline
from flametap.web.encode import ViewQuery, encode_view
from flametap.web.trees import TreeCache
from made_programs import program


def listed(before: Recording, after: Recording) -> dict[str, int]:
    """The functions of the page's table, and how sure their changes are."""
    trees = TreeCache(views_of(after), lambda _: views_of(before))
    query = ViewQuery(EVERYTHING, baseline=Baseline(file=0), table="self")
    view, revision = trees.view(query)
    rows = encode_view(view, query, revision)["table"]["rows"]
    return dict(zip(rows["name"], map(int, rows["self_change"]), strict=True))


def test_table_is_that_of_diff() -> None:
    chance = 0
    for seed in range(5):
        before, after = (program({}, each, bursts=200) for each in (seed, 500 + seed))
        found = difference_of(Side(before, EVERYTHING), Side(after, EVERYTHING))
        assert listed(before, after) == {each.function.name: each.grade for each in found.own}
        chance += any(each.grade for each in found.own)
    assert chance < 5
