"""What CPython 3.13 and newer say about themselves, in three layouts."""

from __future__ import annotations

import random

import pytest

from flametap.linux.process_memory import ProcessMemory
from flametap.symbols.interpreters.python.debug_offsets import (
    LAYOUTS,
    SIZES,
    numbers_of,
    parse_debug_offsets,
    read_debug_offsets,
)
from flametap.symbols.interpreters.python.offsets import TABLES, constants_of
from flametap.symbols.interpreters.python.version import Version, version_of_hex
from flametap.symbols.interpreters.recipe import Recipe
from flametap.symbols.interpreters.search import find_interpreters
from flametap.wire.abi import ABSENT, RECIPE_NAMES
from python_targets import PythonTarget

# What a C compiler says about the headers of 3.13.0: shared/reference's table.
FROM_HEADERS_13 = {
    "runtime_head": 632,
    "runtime_finalizing": 608,
    "interpreter_next": 7264,
    "interpreter_threads": 7344,
    "interpreter_gil": 16,
    "interpreter_collecting": 7600,
    "gil_holder": 8,
    "gil_locked": 16,
    "thread_next": 8,
    "thread_interpreter": 16,
    "thread_pointer": 152,
    "thread_tid": 160,
    "thread_frame": 72,
    "thread_datastack_chunk": 232,
    "frame_previous": 8,
    "frame_code": 0,
    "frame_position": 56,
    "frame_owner": 70,
    "code_bytes": 200,
    "code_first_line": 68,
    "code_file_name": 112,
    "code_name": 120,
    "code_qualified_name": 128,
    "code_line_table": 136,
    "object_type": 8,
    "string_length": 16,
    "string_state": 32,
    "string_ascii": 40,
    "bytes_length": 16,
    "bytes_data": 32,
}
FROM_HEADERS_14 = {
    **FROM_HEADERS_13,
    "runtime_head": 808,
    "runtime_finalizing": 784,
    "interpreter_next": 7272,
    "frame_owner": 74,
    "code_bytes": 208,
}
FROM_HEADERS_15 = {
    **FROM_HEADERS_13,
    "runtime_head": 936,
    "runtime_finalizing": 912,
    "interpreter_threads": 7336,
    "interpreter_collecting": 7512,
    "thread_pointer": 176,
    "thread_tid": 184,
    "thread_base_frame": 80,
    "thread_datastack_chunk": 256,
    "frame_owner": 74,
    "code_bytes": 208,
}
FROM_HEADERS = {(3, 13): FROM_HEADERS_13, (3, 14): FROM_HEADERS_14, (3, 15): FROM_HEADERS_15}


def layout_15(order: list[str]) -> list[int]:
    """The words of 3.15.2, with its groups behind the known part in an order of ours."""
    head = {
        "version": 0x030F02F0,
        "free_threaded": 0,
        "runtime.size": 346560,
        "runtime.finalizing": 912,
        "runtime.interpreters_head": 936,
        "interpreter.size": 226232,
        "interpreter.id": 7272,
        "interpreter.next": 7264,
        "interpreter.threads_head": 7336,
        "interpreter.gc": 7392,
        "interpreter.ceval_gil": 16,
        "interpreter.gil": 7736,
        "interpreter.gil_locked": 7752,
        "interpreter.gil_holder": 7744,
        "thread.size": 888,
        "thread.next": 8,
        "thread.interp": 16,
        "thread.current_frame": 72,
        "thread.base_frame": 80,
    }
    groups = {
        "thread": [176, 184, 256, 32, 36, 40],
        "frame": [88, 8, 0, 56, 80, 74, 64, 0],
        "code": [216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0],
        "object": [16, 8],
        "bytes": [40, 16, 32],
        "unicode": [64, 32, 16, 40, 56],
    }
    words = [head.get(name, 0) for name in LAYOUTS[3, 15]]
    for name in order:
        words += [77, *groups[name]]
    return words + [0] * (SIZES[3, 15] // 8 - 1 - len(words))


def test_layouts_have_the_sizes_of_the_structures() -> None:
    for version in ((3, 13), (3, 14)):
        assert 8 + 8 * len(LAYOUTS[version]) == SIZES[version]
        assert len(set(LAYOUTS[version])) == len(LAYOUTS[version])


@pytest.mark.needs("attach")
def test_running_process_says_what_its_headers_say(waiting_python: PythonTarget) -> None:
    (found,) = find_interpreters(waiting_python.pid)
    assert found.recipe is not None
    version = Version(*found.minor_version)
    with ProcessMemory(f"/proc/{waiting_python.pid}") as memory:
        read = read_debug_offsets(memory, found.recipe["runtime_addr"], version)
    assert (read and numbers_of(read)) == FROM_HEADERS.get(found.minor_version)


def test_3_14_is_read_by_name() -> None:
    names = LAYOUTS[3, 14]
    found = parse_debug_offsets([8 * i for i in range(len(names))], Version(3, 14))
    assert found is not None
    assert found["code.co_tlbc"] == 8 * names.index("code.co_tlbc")
    assert "thread_base_frame" not in numbers_of(found)


def test_3_15_takes_what_is_not_known_from_the_table_if_it_is_all_there() -> None:
    order = ["thread", "frame", "code", "object", "bytes", "unicode"]
    for seed in range(5):
        random.Random(seed).shuffle(order)
        found = parse_debug_offsets(layout_15(order), Version(3, 15))
        assert found is not None
        assert numbers_of(found) == FROM_HEADERS_15
    for left_out in order:
        rest = [name for name in order if name != left_out]
        assert parse_debug_offsets(layout_15(rest), Version(3, 15)) is None


@pytest.mark.parametrize("version", [Version(3, 13), Version(3, 14), Version(3, 15)])
def test_damaged_offsets_are_refused(version: Version) -> None:
    count = SIZES[version.minor_version] // 8 - 1
    assert parse_debug_offsets([1 << 40] * count, version) is None
    assert parse_debug_offsets([0] * 5, version) is None


def test_recipes_have_all_words_that_their_walk_needs() -> None:
    needed = set(RECIPE_NAMES[RECIPE_NAMES.index("runtime_head") :])
    optional = {name for name in needed if name.startswith(("thread_", "cframe_", "gil_"))}
    optional |= {"frame_owner", "frame_is_entry", "code_bytes", "code_version"}
    optional |= {"code_qualified_name", "interpreter_gil", "interpreter_collecting"}
    optional |= {"runtime_bytes"}  # of the process, not of the version
    for table in TABLES.values():
        assert needed - optional <= table.keys()
        Recipe(table)
    for minor in (13, 14, 15):
        constants = constants_of(Version(3, minor))
        assert constants is not None
        assert needed - optional <= constants.keys() | FROM_HEADERS_13.keys()
        assert not constants.keys() & FROM_HEADERS_13.keys()


def test_builds_without_a_lock_have_larger_objects() -> None:
    constants = constants_of(Version(3, 14, is_free_threaded=True))
    assert constants is not None
    assert (constants["string_kind_shift"], constants["string_compact"]) == (8, 72)
    thirteen = constants_of(Version(3, 13, is_free_threaded=True))
    assert thirteen is not None
    assert thirteen["string_kind_shift"] == 2
    assert constants_of(Version(3, 16)) is None


def test_words_are_in_the_agents_order() -> None:
    words = Recipe({"runtime": 1, "id": 3, "interpreter_collecting": 9}).words()
    assert (words[0], words[1], words[2], words[56], words[63]) == (1, 3, ABSENT, 9, ABSENT)
    with pytest.raises(ValueError, match="no words of a recipe: speed"):
        Recipe({"speed": 1})


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0x030C01F0, "CPython 3.12.1"),
        (0x030F00A3, "CPython 3.15.0a3"),
        (0x030E00C2, "CPython 3.14.0rc2"),
        (0, "None"),
        (0x020712F0, "None"),
        (0x1030C01F0, "None"),
        (0x030C0110, "None"),
    ],
)
def test_version(number: int, text: str) -> None:
    assert str(version_of_hex(number)) == text
