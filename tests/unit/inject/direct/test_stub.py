"""The stub is cut out of the machine code, and what is filled in lies where its code reads it."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path

import pytest

from flametap.agent import machine_code
from flametap.inject.direct import divert, stub
from flametap.inject.direct.divert import Result
from flametap.inject.direct.stub import Stub

AGENT = Path(__file__).resolve().parents[4] / "agent"
ASSEMBLY = (AGENT / "arch" / "x86_64" / "stub.S").read_text("utf-8")
DIVERT = (AGENT / "host" / "divert.c").read_text("utf-8")
STATE = re.findall(r"^(\w+):[ \t]+\.quad[ \t]+0\b", ASSEMBLY, re.MULTILINE)
# Behind the end of the vDSO's image: 1.5 KB on the kernels seen.
ROOM_BYTES = 1400

pytestmark = pytest.mark.needs("gcc")


@pytest.fixture(scope="module")
def made() -> machine_code.MachineCode:
    return machine_code.read()


def test_layout_of_our_memory_is_filled_in(made: machine_code.MachineCode) -> None:
    cut = Stub.of(made)
    at = made.symbols["stub_data"] - made.symbols["stub_begin"]
    filled = struct.unpack_from("<4Q", cut.code, at)
    assert cut.answer_offset == at + 8 * STATE.index("answer")
    assert STATE[:4] == ["all_bytes", "code_bytes", "entry", "naps"]
    assert filled == (cut.all_bytes, len(made.code), made.symbols["agent_main"], stub.NAPS)
    assert cut.all_bytes == cut.code_bytes + 4096 + stub.STACK_BYTES
    assert cut.all_bytes % 4096 == 0
    assert not any(cut.code[cut.state_offset :])


def test_everything_before_the_nap_is_code_that_never_changes(
    made: machine_code.MachineCode,
) -> None:
    """By these bytes the next host knows what an earlier one has left."""
    cut = Stub.of(made)
    assert made.code[made.symbols["stub_begin"] :].startswith(cut.code[: cut.nap_offset])
    assert struct.unpack_from("<2Q", cut.code, cut.nap_offset) == (0, 500_000)


def test_it_is_short_enough(made: machine_code.MachineCode) -> None:
    cut = Stub.of(made)
    assert len(cut.code) < ROOM_BYTES
    assert len(cut.code) % 8 == 0  # ptrace writes words


def test_state_is_written_in_the_order_in_which_it_is_read(made: machine_code.MachineCode) -> None:
    listed = re.search(r"const u64 state\[\] = \{(.*?)\};", DIVERT, re.DOTALL)
    assert listed
    written = [word.strip().removeprefix("r->") for word in listed[1].split(",")]
    assert written == [name.removeprefix("own_") for name in STATE[5:]]
    cut = Stub.of(made)
    assert len(cut.code) - cut.state_offset == 8 * len(written)


def test_what_is_handed_to_the_agents_function_is_as_it_declares() -> None:
    body = re.search(r"struct divert \{(.*?)\n\};", DIVERT, re.DOTALL)
    assert body
    text = re.sub(r"/\*.*?\*/", "", body[1], flags=re.DOTALL)
    sizes = {"i32": 4, "u32": 4, "u64": 8}
    declared = [
        (name, 8 if pointer else sizes[kind])
        for kind, pointer, name in re.findall(r"(?:const )?(\w+) (\*?)(\w+);", text)
    ]
    ours = [(field[0], ctypes.sizeof(field[1])) for field in divert._Divert._fields_]
    assert ours == declared


def test_results_are_the_agents() -> None:
    body = re.search(r"enum divert_result \{(.*?)\n\};", DIVERT, re.DOTALL)
    assert body
    listed = {name: int(value) for name, value in re.findall(r"DIVERT_(\w+) = (\d+)", body[1])}
    assert listed == {result.name: result.value for result in Result}
