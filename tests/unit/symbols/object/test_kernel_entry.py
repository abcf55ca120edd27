"""Which system call a thread is in, by the code around its address."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from flametap.linux.syscalls import KERNEL, syscall_name, syscall_number
from flametap.model import RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.object.kernel_entry import BEFORE_BYTES, CODE_BYTES, call_number
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, run, symbols

SYSCALL = "0f 05"
ERROR_TEST = "48 3d 00 f0 ff ff"


def number(before: str, after: str) -> int | None:
    """Before and after the address, in hex."""
    code = bytes.fromhex(before).rjust(BEFORE_BYTES, b"\x90")[-BEFORE_BYTES:]
    return call_number((code + bytes.fromhex(after)).ljust(CODE_BYTES, b"\x90"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (f"b8 e8 00 00 00 {SYSCALL}", "", syscall_number("epoll_wait")),
        (f"31 c0 {SYSCALL}", ERROR_TEST, syscall_number("read")),
        ("b8 e8 00 00 00", SYSCALL, syscall_number("epoll_wait")),  # to begin again
        # sendto of a program with threads: mov $44,%eax; mov 0x10(%rsp),%r8; mov %ebx,%edi; syscall
        (f"b8 2c 00 00 00 4c 8b 44 24 10 89 df {SYSCALL}", ERROR_TEST, syscall_number("sendto")),
        (f"31 c0 89 df {SYSCALL}", ERROR_TEST, syscall_number("read")),
        (f"b8 2c 00 00 00 89 d8 {SYSCALL}", ERROR_TEST, KERNEL),  # mov %ebx,%eax
        (f"b8 2c 00 00 00 75 00 {SYSCALL}", ERROR_TEST, KERNEL),  # a jump
        (f"b8 2c 00 00 00 4c 8b {SYSCALL}", ERROR_TEST, KERNEL),  # no instruction ends there
        (f"4c 8b 4c 24 08 {SYSCALL}", "48 3d 01 f0 ff ff", KERNEL),  # syscall(2): from a register
        ("4c 8b 4c 24 08", f"{SYSCALL} {ERROR_TEST}", KERNEL),
        (SYSCALL, "3d 00 f0 ff ff", KERNEL),
        (SYSCALL, "48 89 c3", None),  # may be the end of another instruction
        ("e8 11 22 0f 05", "48 89 c3", None),
        (f"b8 e8 00 55 00 {SYSCALL}", "", None),  # no such number
        ("b8 e8 00 00 00 cd 80", ERROR_TEST, None),
        ("", "", None),
    ],
)
def test_code_tells_the_call(before: str, after: str, expected: int | None) -> None:
    assert number(before, after) == expected


def test_any_bytes_are_taken() -> None:
    generator = random.Random(1)
    for _ in range(20_000):
        code = bytearray(generator.randbytes(generator.choice((0, 3, CODE_BYTES, CODE_BYTES))))
        code[5:7] = b"\x0f\x05"
        found = call_number(bytes(code))
        assert found is None or 0 <= found <= KERNEL


@pytest.mark.needs("gcc", "readelf")
def test_addresses_of_a_program(tmp_path: Path) -> None:
    source = """
    #define CALL(n) __asm__ volatile("mov %0, %%eax\\n\\tsyscall" : : "i"(n) : "rax", "rcx", "r11")
    int main(void) { CALL(39); CALL(186); return 0; }
    """
    program = compile_object(tmp_path, source, "-O2")
    start, size = symbols(program)["main"]
    span = (f"--start-address={start}", f"--stop-address={start + size}")
    text = run(["objdump", "-d", *span, str(program)])
    places = [int(a, 16) + 2 for a in re.findall(r"^ +([0-9a-f]+):.*\tsyscall", text, re.M)]
    assert len(places) == 2
    table = SymbolTable()
    symbolizer = Symbolizer(table, None, cache_dir=tmp_path)
    try:
        symbolizer.add_module(module_of(program))
        addrs = [*places, start, 1, 1 << 39]
        symbolizer.submit_leaves([(i, RawFrame(1, addr)) for i, addr in enumerate(addrs)])
        symbolizer.submit_leaves([(9, RawFrame(77, start)), (10, RawFrame(0, start))])
    finally:
        symbolizer.close()
    assert {i: syscall_name(n) for i, n in table.kernel().items()} == {0: "getpid", 1: "gettid"}
