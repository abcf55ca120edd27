"""Which attach Frida's calls go to, and that nothing else of an attach is a global."""

from __future__ import annotations

import ast
import errno
import threading
from collections.abc import Iterator
from importlib.resources import files
from types import SimpleNamespace

import pytest

from flametap.inject.frida import ptrace_hook
from flametap.inject.frida.attach import Attach
from flametap.linux.ptrace_thread import Tracer

NOBODY = 0  # no process has this number


@pytest.fixture
def attaches(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Attach]]:
    """Two attaches to nobody, none of them begun."""
    monkeypatch.setattr(ptrace_hook, "_under_way", None)
    made = [Attach(NOBODY), Attach(NOBODY)]
    yield made
    for attach in made:
        attach.end()


def test_attach_is_under_way_from_its_begin_to_its_end(attaches: list[Attach]) -> None:
    attach, _ = attaches
    assert ptrace_hook.under_way() is None
    attach.begin()
    assert ptrace_hook.under_way() is attach
    attach.end()
    assert ptrace_hook.under_way() is None


def test_attach_that_begins_ends_the_one_before(attaches: list[Attach]) -> None:
    former, attach = attaches
    former.begin()
    attach.begin()
    assert ptrace_hook.under_way() is attach
    former.end()  # again, when nothing of it is under way
    assert ptrace_hook.under_way() is attach
    assert former.waitpid(NOBODY, None, 0) == -1
    error = former.take_error()
    assert isinstance(error, OSError)
    assert error.errno == errno.ESRCH


def test_error_of_ours_is_a_failed_call_and_is_told_once(
    attaches: list[Attach], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach, _ = attaches

    def fail(request: int, tid: int, where: int | None, data: int | None) -> int:
        raise OSError(errno.EMFILE, "no descriptor left")

    monkeypatch.setattr(attach.proxy, "ptrace", fail)
    assert attach.ptrace(0, NOBODY, None, None) == -1
    assert attach.ptrace(0, NOBODY, None, None) == -1
    error = attach.take_error()
    assert isinstance(error, OSError)
    assert error.errno == errno.EMFILE
    assert attach.take_error() is None


def test_program_is_replaced_only_after_the_begin(
    attaches: list[Attach], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach, _ = attaches
    assert not attach.is_replaced()
    attach.begin()
    assert not attach.is_replaced()
    monkeypatch.setattr(attach, "_program", SimpleNamespace(is_replaced=lambda: True))
    assert attach.is_replaced()


def test_thread_that_traces_runs_a_last_call_and_ends_when_nothing_is_left() -> None:
    looks: list[bool] = [True, True, False]
    done: list[str] = []
    tracer = Tracer(lambda: looks.pop(0) if "last" in done else False, 0.001)
    assert tracer.run(lambda: 7) == 7
    thread = tracer._thread
    assert thread is not None

    def last() -> int:
        done.append("last")
        return 0

    tracer.end(last)
    tracer.end(lambda: 1 // 0)  # it has had its last call
    thread.join(10)
    assert not thread.is_alive()
    assert (done, looks) == (["last"], [])
    with pytest.raises(OSError, match="has ended"):
        tracer.run(lambda: 0)


def test_thread_that_never_traced_is_not_started_to_end() -> None:
    before = threading.active_count()
    Tracer(lambda: False, 0.001).end(lambda: 1 // 0)
    assert threading.active_count() == before


MUTABLE = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def _globals(module: str, source: str) -> list[str]:
    """What of a module's own state changes: names bound to what can be changed, and ``global``."""
    found = []
    for node in ast.parse(source).body:
        value = getattr(node, "value", None)
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        name = target.id if isinstance(target, ast.Name) else ""
        is_made = isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] in (
            *("set", "dict", "list", "deque", "Event", "Lock", "Queue", "SimpleQueue", "Tracer"),
            *("defaultdict", "ForkHold", "PtraceProxy", "Attach"),
        )
        if name and not name.lstrip("_").isupper() and (isinstance(value, MUTABLE) or is_made):
            found.append(f"{module}.{name}")
    for inner in ast.walk(ast.parse(source)):
        if isinstance(inner, ast.Global):
            found += [f"{module}.{name}" for name in inner.names]
    return found


def test_one_attach_and_the_redirected_calls_are_the_only_globals() -> None:
    sources = {
        path.name.removesuffix(".py"): path.read_text("utf-8")
        for path in files("flametap.inject.frida").iterdir()
        if path.name.endswith(".py")
    }
    sources["execs"] = files("flametap.linux").joinpath("execs.py").read_text("utf-8")
    found = {name for module, source in sources.items() for name in _globals(module, source)}
    assert found == {"ptrace_hook._under_way", "plt_hook._originals"}


@pytest.mark.parametrize(
    "text", ["_seen: set[int] = set()", "_seen = {}", "def f():\n    global _seen\n    _seen = 1"]
)
def test_planted_global_is_found(text: str) -> None:
    assert _globals("new", text) == ["new._seen"]
