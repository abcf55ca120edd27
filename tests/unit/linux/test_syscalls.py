"""Names of system calls, against the kernel's own header where there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flametap.linux.syscalls import syscall_name, syscall_number, syscall_numbers

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def test_common_calls_have_their_names() -> None:
    assert [syscall_name(i) for i in (0, 7, 202, 230, 232, 270, 462)] == [
        "read", "poll", "futex", "clock_nanosleep", "epoll_wait", "pselect6", "mseal",
    ]  # fmt: skip


def test_calls_have_their_numbers() -> None:
    assert syscall_number("sigaltstack") == 131
    assert syscall_numbers("mmap", "clone3", "pidfd_getfd") == (9, 435, 438)
    with pytest.raises(KeyError, match="no_such_call"):
        syscall_numbers("read", "no_such_call")


def test_number_that_is_no_call_is_shown() -> None:
    assert syscall_name(400) == "syscall_400"
    assert syscall_name(99_999) == "syscall_99999"


@pytest.mark.skipif(not HEADER.exists(), reason="needs linux-libc-dev for x86-64")
def test_names_equal_the_header() -> None:
    pairs = re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text())
    assert len(pairs) > 300
    for name, number in pairs:
        if int(number) <= 462:
            assert syscall_name(int(number)) == name
