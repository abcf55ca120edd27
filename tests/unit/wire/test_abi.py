"""The Python side of the wire format agrees with the headers: a C program prints the truth."""

from __future__ import annotations

import re

import pytest

from flametap.model import KERNEL_FRAME, ManagedVerdict, ThreadState, Verdict
from flametap.wire import abi
from flametap.wire.events import INTERVAL_DTYPE, raw_frame
from header_truth import AGENT, HeaderTruth

HEADERS = HeaderTruth(AGENT / "abi.h", AGENT / "recipe.h")
struct_fields, enum_members = HEADERS.struct_fields, HEADERS.enum_members
# Structure → its fields in order, as (name, offset, bytes) are compared.
STRUCTS = {
    "ring_header": abi.RING_HEADER,
    "batch_header": abi.BATCH_HEADER,
    "section_header": abi.SECTION_HEADER,
    "module_record": abi.MODULE_RECORD,
    "thread_record": abi.THREAD_RECORD,
    "trace_record": abi.TRACE_RECORD,
    "code_record": abi.CODE_RECORD,
}
# Fields that are arrays → the bytes of an element.
ARRAYS = {"part_bytes": 4, "detail": 8}
CONSTANTS = {
    name: getattr(abi, name)
    for name in dir(abi)
    if name.isupper() and isinstance(getattr(abi, name), int)
}

pytestmark = pytest.mark.needs("gcc")


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """What the compiler makes of the header: expression → value."""
    expressions = [*CONSTANTS]
    for name in ("counter", "verdict", "managed_verdict", "thread_state", "section_kind"):
        expressions += enum_members(name)
    for name in ("recipe", "ruby_recipe"):
        expressions += enum_members(name)
    for name in (*STRUCTS, "interval_record"):
        expressions.append(f"sizeof(struct {name})")
        for field in struct_fields(name):
            expressions.append(f"offsetof(struct {name}, {field})")
            expressions.append(f"sizeof(((struct {name} *)0)->{field})")
    return HEADERS.values(expressions, tmp_path_factory.mktemp("abi"))


@pytest.mark.parametrize("name", CONSTANTS)
def test_constant_equals_the_header(name: str, truth: dict[str, int]) -> None:
    assert CONSTANTS[name] == truth[name]


@pytest.mark.parametrize("name", STRUCTS)
def test_record_layout_equals_the_header(name: str, truth: dict[str, int]) -> None:
    expected = []
    for field in struct_fields(name):
        size = truth[f"sizeof(((struct {name} *)0)->{field})"]
        step = ARRAYS.get(field, size)
        at = truth[f"offsetof(struct {name}, {field})"]
        expected += [(at + i, step) for i in range(0, size, step)]
    found = fields_of(STRUCTS[name].format)
    # The ring's counters and histogram are read as arrays, not through the struct.
    assert found == expected[: len(found)]
    if name == "ring_header":
        counters, histogram = expected[len(found) :]
        assert counters == (88, 8 * abi.COUNTER_COUNT)
        assert histogram == (88 + 8 * abi.COUNTER_COUNT, 8 * abi.HANDLER_HISTOGRAM_BUCKETS)
        assert truth["sizeof(struct ring_header)"] <= abi.RING_HEADER_BYTES
    else:
        assert STRUCTS[name].size == truth[f"sizeof(struct {name})"]


def fields_of(layout: str) -> list[tuple[int, int]]:
    """(offset, bytes) of each field of a struct format without holes."""
    sizes = {"Q": 8, "I": 4, "H": 2, "B": 1, "h": 2}
    found: list[tuple[int, int]] = []
    at = 0
    for count, code in re.findall(r"(\d*)([a-zA-Z])", layout):
        if code == "s":
            found.append((at, int(count)))
            at += int(count)
            continue
        for _ in range(int(count or 1)):
            found.append((at, sizes[code]))
            at += sizes[code]
    return found


def test_interval_dtype_equals_the_header(truth: dict[str, int]) -> None:
    assert list(INTERVAL_DTYPE.names or ()) == struct_fields("interval_record")
    for name in struct_fields("interval_record"):
        assert INTERVAL_DTYPE.fields is not None
        dtype, offset = INTERVAL_DTYPE.fields[name][:2]
        assert offset == truth[f"offsetof(struct interval_record, {name})"], name
        assert dtype.itemsize == truth[f"sizeof(((struct interval_record *)0)->{name})"], name
    assert INTERVAL_DTYPE.itemsize == truth["sizeof(struct interval_record)"]


def test_every_counter_has_its_name_and_place(truth: dict[str, int]) -> None:
    members = [name for name in enum_members("counter") if name != "COUNTER_COUNT"]
    assert [f"COUNTER_{name.upper()}" for name in abi.COUNTER_NAMES] == members
    assert [truth[name] for name in members] == list(range(len(members)))


def test_every_word_of_a_recipe_has_its_name_and_place(truth: dict[str, int]) -> None:
    members = [name for name in enum_members("recipe") if name != "RECIPE_WORDS"]
    assert [f"RECIPE_{name.upper()}" for name in abi.RECIPE_NAMES] == members
    assert [truth[name] for name in members] == list(range(len(members)))
    assert len(members) <= truth["RECIPE_WORDS"]


def test_rubys_words_follow_them(truth: dict[str, int]) -> None:
    members = enum_members("ruby_recipe")
    own = abi.RUBY_RECIPE_NAMES[len(abi.RECIPE_NAMES) :]
    assert [f"RUBY_{name.upper()}" for name in own] == members
    assert abi.RUBY_RECIPE_NAMES[: len(abi.RECIPE_NAMES)] == abi.RECIPE_NAMES
    assert [truth[name] for name in members] == [len(abi.RECIPE_NAMES) + i for i in range(len(own))]
    assert len(abi.RUBY_RECIPE_NAMES) <= truth["RECIPE_WORDS"]


def test_enums_equal_the_header(truth: dict[str, int]) -> None:
    for name in enum_members("verdict"):
        assert Verdict[name.removeprefix("VERDICT_")] == truth[name]
    for name in enum_members("managed_verdict"):
        assert ManagedVerdict[name.removeprefix("MANAGED_")] == truth[name]
    for name in enum_members("thread_state"):
        assert ThreadState[name.removeprefix("STATE_")] == truth[name]
    assert len(ManagedVerdict) == len(enum_members("managed_verdict"))
    assert len(Verdict) == len(enum_members("verdict"))
    assert len(ThreadState) == len(enum_members("thread_state"))


def test_threads_of_the_kernel_have_one_address() -> None:
    assert (
        raw_frame(abi.FRAME_KIND_RUNTIME << abi.FRAME_KIND_SHIFT | abi.KERNEL_CODE) == KERNEL_FRAME
    )
