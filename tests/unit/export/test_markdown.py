"""The summary in Markdown: its numbers, and names from which nothing is made."""

from __future__ import annotations

import html
import io
import random
import re
from collections import Counter

import pytest

from flametap.export import markdown
from flametap.export.request import ExportRequest
from flametap.model import Clock, Frame, Function, Split, Status
from flametap.recording.names.table import SymbolTable
from flametap.recording.profile.store import Profile
from flametap.tree.selection import Selection
from profiles import WORK_ADDR, name_addresses, random_profile, small_profile, stacks_of_tree
from recordings import recorded

# One cell of a table: a span or an element of code, in which nothing else can begin; or a number.
CODE = r"(?:`[^`|\\]+`|<code>(?:[\w …]|&#\d+;)+</code>)"
ROW = re.compile(rf"\| ([\d.]+)% \| (\S+(?: \S+)?) \| ([\d.]+)% \| ({CODE}) \| (?:{CODE})? \|")


def lines_of(request: ExportRequest) -> list[str]:
    file = io.BytesIO()
    markdown.write(request, file)
    return file.getvalue().decode().removesuffix("\n").split("\n")


def rows(lines: list[str], heading: str) -> list[tuple[str, str, str, str]]:
    """The cells of a table."""
    at = next(i for i, line in enumerate(lines) if line.startswith(heading))
    assert lines[at + 3] == "|--:|--:|--:|---|---|"
    found = []
    for line in lines[at + 4 :]:
        if not line.startswith("|"):
            break
        matched = ROW.fullmatch(line)
        assert matched, line
        found.append(matched.groups())
    return found  # type: ignore[return-value]


@pytest.mark.parametrize("unit", ["time", "samples"])
def test_tables_are_the_heaviest_functions(unit: str) -> None:
    recording = recorded(*random_profile(random.Random(unit)))
    request = ExportRequest(recording, Selection(Clock.WALL, split=Split.THREAD), unit=unit)
    own: Counter[Function] = Counter()
    total: Counter[Function] = Counter()
    stacks = stacks_of_tree(ExportRequest(recording, Selection(Clock.WALL), unit=unit).tree())
    for stack, weight in stacks.items():
        own[stack[-1]] += weight
        for function in set(stack):
            total[function] += weight
    whole = sum(stacks.values())
    lines = lines_of(request)
    for heading, by in (("by own", own), ("by total", total)):
        found = rows(lines, f"## Heaviest functions {heading}")
        assert len(found) == 15
        heaviest_first = by.most_common(15)
        assert [row[0] for row in found] == [
            f"{100 * each / whole:.1f}" for _, each in heaviest_first
        ]
        if unit == "samples":
            assert [row[1] for row in found] == [f"{each:,}" for _, each in heaviest_first]
        names = {name.strip("`") for *_, name in found}
        assert names >= {function.name for function, _ in by.most_common(10)}
    heaviest = max(stacks, key=lambda stack: stacks[stack])
    at = lines.index("```text")
    assert lines[at + 1 : lines.index("```", at)] == [each.name for each in heaviest]


def test_what_was_recorded_and_what_is_doubtful() -> None:
    status = Status(7, "prog --x", "ended", notes=["lost: 3 intervals", "see *this* of @me"])
    lines = lines_of(ExportRequest(recorded(*small_profile(), status)))
    assert lines[0] == "# `prog --x (7)`"
    assert lines[2] == "cpu time of the whole recording: **16 µs** in 8 ms."
    assert "- lost: 3 intervals" in lines
    assert "- see `*this*` of `@me`" in lines


HOSTILE = [
    "</code><img src=x onerror=alert(1)>",
    "a|b",
    "`x` [l](http://e.vil) **b**",
    "a\\|b\n# c",
    "&lt;b&gt; @somebody #1",
    "\udcff\u202e\x1b[31m",
    "``` \n```\n<b>",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_made_of_a_name(name: str) -> None:
    profile, table = small_profile()
    for address_id, frame in profile.news().addresses:
        if frame.addr in (WORK_ADDR & 0xFFFF, 0x1010):
            table.set(address_id, [Frame(Function(name, name))])
    status = Status(7, name, "ended", notes=[name])
    lines = lines_of(ExportRequest(recorded(profile, table, status)))
    assert all(line.isprintable() for line in lines)
    seen = re.sub(r"[^!-~]+", "", name.replace("\udcff", ""))
    cells = [row[3] for row in rows(lines, "## Heaviest functions by own")]
    shown = [html.unescape(re.sub("</?code>", "", cell)) for cell in cells if "<code>" in cell]
    shown += [cell.strip("`") for cell in cells if "<code>" not in cell]
    assert seen in [re.sub(r"[^!-~]+", "", each) for each in shown]
    fence = next(line for line in lines if re.fullmatch("`{3,}text", line)).removesuffix("text")
    begin = lines.index(f"{fence}text")
    end = lines.index(fence, begin)
    assert not any(fence in line for line in lines[begin + 1 : end])
    # Without code spans and code blocks, only words are left.
    rest = "\n".join(lines[:begin] + lines[end + 1 :])
    words = re.sub(CODE, "", re.sub(r"^\|[-:|]+\|$", "", rest, flags=re.MULTILINE))
    assert not re.findall(r"[\[\]<>`\\@_~&]|www\.|://", words)


@pytest.mark.parametrize("word", ["www.e.vil", "(www.e.vil", "1.", "-", "x_y", ":smile:", "#1"])
def test_words_of_notes_that_mean_something_are_code(word: str) -> None:
    assert markdown.prose(f"{word} was lost") == f"`{word}` was lost"


def test_long_names_and_stacks_are_cut() -> None:
    profile, table = small_profile()
    name_addresses(profile, table)
    for address_id, _ in profile.news().addresses:
        table.set(address_id, [Frame(Function("n" * 4096, "prog"))] * 50)
    lines = lines_of(ExportRequest(recorded(profile, table)))
    assert max(map(len, lines)) < 200
    assert len(lines) < 100
    assert any(re.fullmatch(r"… \d+ more …", line) for line in lines)


def test_empty_profile() -> None:
    lines = lines_of(ExportRequest(recorded(Profile(), SymbolTable())))
    assert lines[2] == "cpu time of the whole recording: **0 ns** in 0 ns."
