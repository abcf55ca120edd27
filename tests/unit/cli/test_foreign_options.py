"""Options of other profilers: each has one line that says what to use instead."""

from __future__ import annotations

import pytest

from flametap.cli.foreign_options import ATTACHING, FOREIGN, instead_of
from flametap.cli.main import command_of, run


@pytest.mark.parametrize(
    ("arguments", "says", "hint"),
    [
        (["record", "--native", "-p", "1"], "no option --native: native functions", "leave it out"),
        (["-n", "-p", "1"], "no option -n: native functions are always shown", "leave it out"),
        (["1", "--nonblocking"], "stops no thread", "leave it out"),
        (["dump", "--gil", "1"], "all threads", "flametap record --gil"),
        (["1", "--idle"], "the page has a switch", "wall"),
        (["record", "1", "--subprocesses"], "without its children", "flametap ps"),
        (["record", "-g", "1"], "whole stacks", "--gil counts only"),
        (["record", "--call-graph=dwarf", "1"], "whole stacks", "leave it out"),
        (["record", "-e", "cycles", "1"], "not events", "--clock"),
        (["record", "-a"], "not a whole machine", "perf record -a"),
        (["record", "--save-only", "1"], "only saves", "leave it out"),
        (["record", "--no-open", "1"], "only saves", "leave it out"),
        (["record", "--locals", "1"], "variables", "flametap dump --locals"),
        (["dump", "-j", "1"], "--json", "--json"),
        (["1", "--wall"], "switch for the clock", "wall"),
        (["1", "--python-only"], "switch for the language", "record"),
        (["1", "--lines"], "lines of each function", "record"),
        (["dump", "--lines", "1"], "always shows the line", "leave it out"),
        (["record", "--function", "1"], "whole function", "leave it out"),
        (["1", "--alloc", "1m"], "not memory", "heaptrack"),
        # One of ours, in another command.
        (["record", "1", "--exitt"], "No such option", "flametap record --help"),
        (["ps", "--force"], "no option --force", "live, record, top, dump"),
        (["record", "sh", "-c", "x"], "no option -c", "after --"),
        (["record", "./a", "-x"], "no option -x: the duration", "-d 10"),
        (["record", "./a", "-y"], "No such option", "after --"),
    ],
)
def test_foreign_option(
    capfd: pytest.CaptureFixture[str], arguments: list[str], says: str, hint: str
) -> None:
    assert run(arguments) == 2
    out, err = capfd.readouterr()
    assert out == ""
    first, second = err.splitlines()
    assert first.startswith("flametap: ")
    assert says in first
    assert second.startswith("hint: ")
    assert hint in second


def test_table_names_only_options_that_we_do_not_have() -> None:
    for name in ATTACHING:
        ours = {each for option in command_of(name).params for each in option.opts}
        specific = {each for entry in FOREIGN if entry.commands == {name} for each in entry.names}
        assert not specific & ours, name


def test_every_line_is_one_line() -> None:
    for entry in FOREIGN:
        for text in (entry.says, entry.hint):
            assert text
            assert "\n" not in text
            assert not text.endswith(".")
        assert all(instead_of(name, command) for name in entry.names for command in entry.commands)
    assert instead_of("--native", "ps") is None
