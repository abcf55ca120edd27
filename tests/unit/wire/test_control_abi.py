"""The Python side of ``struct boot`` and ``struct control`` agrees with the header: a C program
prints the truth."""

from __future__ import annotations

import re

import pytest

from flametap.wire import abi, control_abi
from header_truth import AGENT, HeaderTruth

HEADER = HeaderTruth(AGENT / "entry" / "control.h")
struct_fields, enum_members = HEADER.struct_fields, HEADER.enum_members
SIZES = {"I": 4, "i": 4, "Q": 8, "q": 8}
# What stands for each name of the header here.
VALUES = {
    **{name: getattr(control_abi, name) for name in dir(control_abi) if name.startswith("BOOT_")},
    **{name: getattr(control_abi, name) for name in dir(control_abi) if "CONTROL_" in name},
    **{
        f"CONTROL_{name}": getattr(control_abi, name)
        for name in ("PREPARE", "START", "RECIPES", "PAUSE", "RATE", "STOP", "LEAVE", "CONNECT")
    },
}
FIELDS = {
    "request": 4 * control_abi.REQUEST,
    "answered": 4 * control_abi.ANSWERED,
    "call": control_abi.AT_CALL,
    "result": control_abi.AT_RESULT,
    "arguments": control_abi.AT_ARGUMENTS,
    "ring_fd": control_abi.AT_PREPARED,
    "host_end_fd": control_abi.AT_PREPARED + 4,
    "tid_offset": control_abi.AT_OFFSETS,
    "stack_notes_offset": control_abi.AT_OFFSETS + 8,
    "robust_list_offset": control_abi.AT_OFFSETS + 16,
    "count": control_abi.AT_COUNT,
    "u": control_abi.AT_WORDS,
}
STRUCTS = {"boot": control_abi.BOOT, "control_probe": control_abi.PROBE}

pytestmark = pytest.mark.needs("gcc")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler makes of the header: expression → value."""
    expressions = [*VALUES, "sizeof(struct control)"]
    expressions += [f"offsetof(struct control, {field})" for field in FIELDS]
    for name in STRUCTS:
        expressions.append(f"sizeof(struct {name})")
        for field in struct_fields(name):
            expressions.append(f"offsetof(struct {name}, {field})")
            expressions.append(f"sizeof(((struct {name} *)0)->{field})")
            expressions.append(f"(__typeof__(((struct {name} *)0)->{field}))-1 < 0")
    return HEADER.values(expressions, tmp_path_factory.mktemp("control"))


@pytest.mark.parametrize("name", VALUES)
def test_constant_equals_the_header(name: str, truth: dict[str, int]) -> None:
    assert VALUES[name] == truth[name]


def test_every_state_and_call_has_its_name() -> None:
    assert {*enum_members("boot_state"), *enum_members("control_call")} <= set(VALUES)


@pytest.mark.parametrize("name", STRUCTS)
def test_record_layout_equals_the_header(name: str, truth: dict[str, int]) -> None:
    expected = [
        (
            truth[f"offsetof(struct {name}, {field})"],
            truth[f"sizeof(((struct {name} *)0)->{field})"],
            bool(truth[f"(__typeof__(((struct {name} *)0)->{field}))-1 < 0"]),
        )
        for field in struct_fields(name)
    ]
    found, at = [], 0
    for code in STRUCTS[name].format.lstrip("<"):
        found.append((at, SIZES[code], code.islower()))
        at += SIZES[code]
    assert found == expected
    assert at == truth[f"sizeof(struct {name})"]


@pytest.mark.parametrize("field", FIELDS)
def test_field_lies_where_the_header_has_it(field: str, truth: dict[str, int]) -> None:
    assert FIELDS[field] == truth[f"offsetof(struct control, {field})"]


def test_all_of_it_fits_into_the_file(truth: dict[str, int]) -> None:
    assert truth["sizeof(struct control)"] <= control_abi.CONTROL_BYTES
    assert control_abi.AT_WORDS + 8 * control_abi.CONTROL_WORDS <= control_abi.CONTROL_BYTES
    assert control_abi.CONTROL_PROBES * control_abi.PROBE.size <= 8 * control_abi.CONTROL_WORDS
    assert control_abi.CONTROL_WORDS >= 64 * abi.RECIPE_WORDS


def test_script_has_the_layout_of_boot(truth: dict[str, int]) -> None:
    script = (AGENT / "agent.js").read_text("utf-8")
    numbers = dict(re.findall(r"^const (BOOT_\w+) = (\d+);", script, re.MULTILINE))
    assert int(numbers["BOOT_BYTES"]) == truth["sizeof(struct boot)"]
    assert int(numbers["BOOT_LIBC_CODE"]) == truth["offsetof(struct boot, libc_code)"]
