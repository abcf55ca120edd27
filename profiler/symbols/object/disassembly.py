"""Disassemble machine code, in the syntax of ``objdump`` and ``perf annotate`` (AT&T on x86).

Targets of calls, jumps and accesses relative to the program counter get names. Bytes that are not
an instruction are skipped one by one and shown as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...linux.elf_headers import EM_386, EM_AARCH64, EM_X86_64

if TYPE_CHECKING:
    # It loads a library of 5 MB, so it is imported only when code is shown.
    import capstone

# A direct target is a plain address. The operands of calls through registers or memory begin
# with "*".
_X86_TARGET = re.compile(r"(?:call|jmp|j[a-z]+|loop[a-z]*|xbegin)[a-z]*")
_X86_ADDRESS = re.compile(r"(?:0x)?([0-9a-f]+)")
_X86_RELATIVE = re.compile(r"(-?)(0x[0-9a-f]+|\d+)?\(%rip\)")
_X86_LARGE = re.compile(r"\$(1844674407\d{10})\b")  # -1, not 18446744073709551615
_ARM_TARGET = re.compile(r"bl?|b\..+|cbn?z|tbn?z|adr")
_ARM_ADDRESS = re.compile(r"#0x([0-9a-f]+)$")


class Instruction(NamedTuple):
    """One instruction."""

    addr: int  # file_addr
    data: bytes
    text: str
    target: str  # the name that it calls or refers to: "memcpy@plt", "main+0x1c"; "" if unknown


class UnknownMachine(ValueError):
    """There is no disassembler for this processor."""


def disassemble(
    code: bytes,
    addr: int,
    machine: int,
    names_of: Callable[[Sequence[int]], Sequence[str]] | None = None,
) -> list[Instruction]:
    """Disassemble machine code; return its instructions.

    Args:
        code: the bytes.
        addr: file_addr of the first byte.
        machine: the processor as ELF's ``e_machine``.
        names_of: returns the names of file_addrs, ``""`` for one without a name; called once for
            all.

    Raises:
        UnknownMachine: there is no disassembler for this processor.
    """
    decoder = _decoder(machine)
    is_arm = machine == EM_AARCH64
    found: list[tuple[int, bytes, str, int | None]] = []
    for place, size, mnemonic, operands in decoder.disasm_lite(code, addr):
        if is_arm:
            goal = _arm_goal(mnemonic, operands)
        else:
            goal = _x86_goal(place + size, mnemonic, operands)
            operands = _X86_LARGE.sub(lambda match: f"${int(match[1]) - (1 << 64)}", operands)
        text = f"{mnemonic} {operands}" if operands else mnemonic
        found.append((place, code[place - addr : place - addr + size], text, goal))
    goals = sorted({goal for *_, goal in found if goal is not None})
    names: dict[int | None, str] = {}
    if names_of is not None:
        names.update(zip(goals, names_of(goals), strict=True))
    return [
        Instruction(place, data, text, names.get(goal, "")) for place, data, text, goal in found
    ]


def _decoder(machine: int) -> capstone.Cs:
    import capstone

    if machine == EM_AARCH64:
        decoder = capstone.Cs(capstone.CS_ARCH_ARM64, capstone.CS_MODE_LITTLE_ENDIAN)
    elif machine in (EM_X86_64, EM_386):
        mode = capstone.CS_MODE_64 if machine == EM_X86_64 else capstone.CS_MODE_32
        decoder = capstone.Cs(capstone.CS_ARCH_X86, mode)
        decoder.syntax = capstone.CS_OPT_SYNTAX_ATT
    else:
        raise UnknownMachine(f"no disassembler for ELF machine {machine}")
    decoder.skipdata = True
    return decoder


def _x86_goal(after: int, mnemonic: str, operands: str) -> int | None:
    """Return the address to which an instruction refers; ``after`` is that of the next one."""
    if _X86_TARGET.fullmatch(mnemonic):
        address = _X86_ADDRESS.fullmatch(operands)
        if address:
            return int(address[1], 16)
    relative = _X86_RELATIVE.search(operands)
    if relative:
        offset = int(relative[2] or "0", 0)
        return after + (-offset if relative[1] else offset)
    return None


def _arm_goal(mnemonic: str, operands: str) -> int | None:
    if _ARM_TARGET.fullmatch(mnemonic):
        address = _ARM_ADDRESS.search(operands)
        if address:
            return int(address[1], 16)
    return None
