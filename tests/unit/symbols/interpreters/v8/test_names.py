"""V8's functions are named, or have an answer that says why not."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast

from flametap.symbols.interpreters.found import FoundInterpreter
from flametap.symbols.interpreters.v8.names import V8Code, V8Names
from flametap.symbols.names.limits import Budget
from flametap.wire.abi import V8_CODE_IS_BYTECODE, V8_KIND_SHIFT
from flametap.wire.events import Code

NO_PROCESS = 1_000_000_000


def test_process_that_has_ended_leaves_no_request_open() -> None:
    """Its records may be read before its memory was opened: somebody waits for their names."""
    answers: list[tuple[int, list[int]]] = []
    answered = threading.Event()

    def on_named(n_codes: int, named: list[tuple[int, V8Code]]) -> None:
        answers.append((n_codes, [code_id for code_id, _ in named]))
        answered.set()

    found = cast(FoundInterpreter, SimpleNamespace(layout=object(), bytecode_lengths=b""))
    names = V8Names(NO_PROCESS, lambda _: found, on_named, Budget(1000), Budget(1000))
    names.ask([Code(7, 1, False, (), (V8_CODE_IS_BYTECODE << V8_KIND_SHIFT, 0))])
    assert answered.wait(30)
    assert answers == [(1, [7])]
    assert "had changed" in names.note
    names.close()
