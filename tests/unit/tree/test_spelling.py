"""Names of functions, paths and threads in requests."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function, ThreadInfo
from flametap.tree.spelling import (
    FunctionNames,
    find_threads,
    function_spelling,
    parse_path,
    plain,
    quoted,
    split,
)


def test_thread_of_the_same_tid_is_preferred() -> None:
    threads = [ThreadInfo(i, 100 + i, "pool", 0, 0, 0, False, "") for i in range(3)]
    assert find_threads("pool@101", threads) == ([1], [])
    assert find_threads("pool@7", threads) == ([0, 1, 2], [])
    assert find_threads("2,pool@101,x\\,y@3", threads) == ([2, 1], ["x,y"])


@pytest.mark.parametrize(
    "name",
    ["a", "f(int, long);", "x@y", "back\\slash", "=x", "?x", "1.2", "ein\u202ename", ";;@@,"],
)
def test_every_name_is_found_by_its_spelling(name: str) -> None:
    functions = [
        Function("other", "lib"),
        Function(name, "li@b;.so"),
        Function(name, "li@b;.so", kind=FrameKind.INLINED),
        Function(name, ""),
    ]
    found = FunctionNames(lambda: functions)
    for at, function in enumerate(functions):
        spelling = function_spelling(function, found.twin(at))
        assert found.ids(spelling) == [at]
        path = parse_path(";".join([spelling, function_spelling(functions[0])]))
        if not name[0].isdigit():
            assert found.path(path) == [{at}, {0}]
    assert found.ids(function_spelling(functions[1])) == [1, 2]
    assert plain(quoted(name)) == name
    assert split(quoted(name), ";") == [quoted(name)]
