"""How often an attach is tried, and what a detach waits for, with Frida's part of it played."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import frida
import pytest

from flametap.agent import machine_code
from flametap.errors import AttachFailedError, CannotAttachError
from flametap.inject.frida import ptrace_hook, quirks
from flametap.inject.frida.attach import Attach
from flametap.inject.frida.footprint import Presence
from flametap.inject.frida.fork_hold import ForkHold
from flametap.inject.frida.injector import FridaInjector
from flametap.inject.frida.loader import Loaders


@pytest.fixture
def injector(monkeypatch: pytest.MonkeyPatch) -> Iterator[FridaInjector]:
    """A way into a sleeping process to which nothing is done."""
    for module, name in (
        (ptrace_hook, "install"),
        (quirks, "restrain"),
        (Attach, "begin"),
        (ForkHold, "ask"),
        (ForkHold, "let_go"),
        (FridaInjector, "leave"),
    ):
        monkeypatch.setattr(module, name, lambda *_: None)
    monkeypatch.setattr(Attach, "is_replaced", lambda _: False)
    with subprocess.Popen(["sleep", "60"]) as target:
        made = FridaInjector(target.pid)
        yield made
        made.close()
        target.kill()


def failing(
    injector: FridaInjector, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> list[int]:
    """Have each try fail; the tries come into the list."""
    tries: list[int] = []

    def inject() -> None:
        tries.append(injector.pid)
        raise error

    monkeypatch.setattr(injector, "_inject", inject)
    return tries


def test_without_machine_code_nothing_happens(
    injector: FridaInjector, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read() -> machine_code.MachineCode:
        raise machine_code.UnusableError("it is damaged")

    tries = failing(injector, monkeypatch, frida.NotSupportedError("odd"))
    monkeypatch.setattr(machine_code, "read", read)
    with pytest.raises(CannotAttachError, match="it is damaged") as refused:
        injector.enter(0)
    assert refused.value.hint == machine_code.REMEDY
    assert not tries


@pytest.mark.parametrize(
    ("error", "count"),
    [
        (frida.TimedOutError("timed out trying to sync up with agent"), 4),
        (frida.TransportError("lost"), 4),
        (frida.NotSupportedError("odd"), 1),
    ],
)
def test_attach_is_tried_as_often_as_its_error_says(
    injector: FridaInjector, monkeypatch: pytest.MonkeyPatch, error: Exception, count: int
) -> None:
    tries = failing(injector, monkeypatch, error)
    with pytest.raises(Exception, match=str(injector.pid)):
        injector.enter(0)
    assert len(tries) == count


def test_attach_of_which_something_is_left_is_not_tried_again(
    injector: FridaInjector, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = failing(injector, monkeypatch, frida.TimedOutError("timed out"))
    monkeypatch.setattr(Presence, "has_left", lambda _: False)
    with pytest.raises(AttachFailedError, match="too slow"):
        injector.enter(0)
    assert len(tries) == 1


@pytest.mark.parametrize(
    ("is_held", "has_agent", "expected"),
    [(True, False, ["left", "let go"]), (True, True, ["let go"]), (False, False, ["let go"])],
    ids=["held", "the agent stays", "not held"],
)
def test_main_thread_is_kept_until_the_loader_has_left(
    injector: FridaInjector,
    monkeypatch: pytest.MonkeyPatch,
    is_held: bool,
    has_agent: bool,
    expected: list[str],
) -> None:
    """The agent is unmapped amid dlclose(3): a child of a fork at that moment would find the
    dynamic loader's locks taken."""
    seen: list[str] = []
    monkeypatch.setattr(ForkHold, "is_held", lambda _: is_held)
    monkeypatch.setattr(ForkHold, "let_go", lambda _: seen.append("let go"))
    monkeypatch.setattr(Presence, "has_agent", lambda _: has_agent)
    monkeypatch.setattr(Loaders, "wait_until_left", lambda *_: seen.append("left"))
    injector._wait_until_unloaded(lambda: True)
    assert seen == expected
