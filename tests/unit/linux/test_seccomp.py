"""Filters of classic BPF, and what they mean for an attach."""

from __future__ import annotations

import struct

import pytest

from flametap.linux import seccomp
from flametap.linux.arch_x86_64 import AUDIT_ARCH
from flametap.linux.seccomp_calls import SOCKETS
from flametap.linux.syscalls import syscall_number

LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # BPF_LD|W|ABS, BPF_JMP|JEQ|K, BPF_RET|K


def answering(action: int, *names: str, otherwise: int = seccomp.ALLOW) -> bytes:
    """A filter with one answer for some calls and another for the rest."""
    rows = [(LOAD, 0, 0, 0)]
    for name in names:
        rows += [(EQUAL, 0, 1, syscall_number(name)), (RETURN, 0, 0, action)]
    rows.append((RETURN, 0, 0, otherwise))
    return b"".join(seccomp.INSTRUCTION.pack(*row) for row in rows)


@pytest.mark.parametrize("action", seccomp.DEADLY)
def test_call_that_kills_is_named(action: int) -> None:
    decision = seccomp.decide([answering(action, "process_vm_readv")], is_main_thread=True)
    assert decision.deadly == ("process_vm_readv",)


def test_filter_that_allows_all_is_no_obstacle() -> None:
    assert seccomp.decide([answering(seccomp.ALLOW)], is_main_thread=True) == seccomp.Decision()
    assert seccomp.decide([], is_main_thread=True) == seccomp.Decision()


def test_most_drastic_of_several_filters_counts() -> None:
    filters = [
        answering(seccomp.ALLOW),
        answering(seccomp.ERRNO | 1, "memfd_create"),
        answering(seccomp.KILL_PROCESS, "memfd_create"),
        answering(seccomp.KILL_THREAD, "memfd_create"),
    ]
    assert seccomp.decide(filters, is_main_thread=True).deadly == ("memfd_create",)
    assert seccomp.decide(filters[:2], is_main_thread=True).failing == ("memfd_create",)


def test_calls_the_agent_can_do_without() -> None:
    program = answering(seccomp.ERRNO | 38, "clone3", "rt_tgsigqueueinfo")
    decision = seccomp.decide([program], is_main_thread=True)
    assert decision.deadly == decision.failing == ()
    assert decision.missing == ("running threads cannot be sampled",)


def test_clone3_may_be_missing_but_not_forbidden() -> None:
    assert seccomp.decide(
        [answering(seccomp.ERRNO | 1, "clone3")], is_main_thread=True, is_direct=False
    ).failing == ("clone3",)


def test_signal_handler_that_cannot_return_is_deadly_even_with_an_error() -> None:
    program = answering(seccomp.ERRNO | 1, "rt_sigreturn")
    assert seccomp.decide([program], is_main_thread=False).deadly == ("rt_sigreturn",)


def test_calls_of_the_signal_handler_are_asked_for_on_every_thread() -> None:
    program = answering(seccomp.KILL_THREAD, "rt_sigpending", "getpid")
    decision = seccomp.decide([program], is_main_thread=False)
    assert decision.deadly == ("rt_sigpending", "getpid")


def test_sealing_of_the_ring_is_asked_for_besides_other_uses_of_fcntl() -> None:
    rows = [
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 3, syscall_number("fcntl")),
        (LOAD, 0, 0, 24),  # the lower half of the second argument
        (EQUAL, 0, 1, 1033),  # F_ADD_SEALS
        (RETURN, 0, 0, seccomp.KILL_PROCESS),
        (RETURN, 0, 0, seccomp.ALLOW),
    ]
    program = b"".join(seccomp.INSTRUCTION.pack(*row) for row in rows)
    assert seccomp.decide([program], is_main_thread=True).deadly == ("fcntl",)


def test_other_threads_make_few_calls() -> None:
    program = answering(seccomp.KILL_THREAD, "mmap", "openat", "socketpair")
    assert seccomp.decide([program], is_main_thread=False) == seccomp.Decision()


def test_calls_are_allowed_only_all_together() -> None:
    one_fails = answering(seccomp.FAILING[0], "connect")
    assert not seccomp.allows([answering(seccomp.ALLOW), one_fails], SOCKETS)
    assert seccomp.allows([answering(seccomp.KILL_THREAD, "socketpair")], SOCKETS)


def test_arguments_are_looked_at() -> None:
    # mmap with PROT_EXEC (bit 2 of the third argument) kills.
    rows = [
        (LOAD, 0, 0, 0),
        (EQUAL, 0, 3, syscall_number("mmap")),
        (LOAD, 0, 0, 32),
        (0x45, 0, 1, 4),  # BPF_JSET
        (RETURN, 0, 0, seccomp.KILL_PROCESS),
        (RETURN, 0, 0, seccomp.ALLOW),
    ]
    program = b"".join(seccomp.INSTRUCTION.pack(*row) for row in rows)
    assert seccomp.decide([program], is_main_thread=True).deadly == ("mmap",)


def test_every_kind_of_instruction() -> None:
    data = struct.pack("=iIQ6Q", 7, AUDIT_ARCH, 0, 1, 2, 3, 4, 5, 6)
    rows = [
        (0x00, 0, 0, 5),  # A = 5
        (0x02, 0, 0, 3),  # M[3] = A
        (0x01, 0, 0, 2),  # X = 2
        (0x2C, 0, 0, 0),  # A *= X
        (0x07, 0, 0, 0),  # X = A
        (0x80, 0, 0, 0),  # A = length of the data
        (0x1C, 0, 0, 0),  # A -= X
        (0x61, 0, 0, 3),  # X = M[3]
        (0x9C, 0, 0, 0),  # A %= X
        (0x64, 0, 0, 4),  # A <<= 4
        (0x05, 0, 0, 1),  # over the next
        (RETURN, 0, 0, 0),
        (0x16, 0, 0, 0),  # return A
    ]
    assert seccomp.run(rows, data) == (64 - 10) % 5 << 4


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [(LOAD, 0, 0, 0)],
        [(LOAD, 0, 0, 64), (RETURN, 0, 0, 0)],
        [(0x34, 0, 0, 0), (RETURN, 0, 0, 0)],  # / 0
        [(EQUAL, 200, 200, 0)],
        [(RETURN, 0, 0, 0)] * 5000,
    ],
)
def test_program_that_is_none_is_told(rows: list[tuple[int, int, int, int]]) -> None:
    with pytest.raises(ValueError, match="filter"):
        seccomp.run(rows, bytes(64))
