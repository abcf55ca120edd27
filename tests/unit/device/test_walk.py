"""The walk over frame pointers, on stacks of all four processors, as C that is compiled here."""

from __future__ import annotations

import ctypes
import struct
import subprocess

import pytest

from flametap.device.far_agent import source

pytestmark = pytest.mark.needs("gcc")

# What Frida brings: memory is what the test says it is.
GLIB = """
typedef unsigned int guint; typedef unsigned char guint8; typedef unsigned long guint64;
typedef unsigned long gsize; typedef int gboolean; typedef const void *gconstpointer;
#define TRUE 1
#define FALSE 0
#define NULL ((void *)0)
void g_free(void *); long g_get_monotonic_time(void);
"""
MEMORY = "guint8 *gum_memory_read(gconstpointer address, gsize len, gsize *n_bytes_read);"
STUBS = r"""
#include <stdlib.h>
#include <string.h>
unsigned char *stack; unsigned long base, bytes;
unsigned char *gum_memory_read(const void *at, unsigned long len, unsigned long *count)
{
    unsigned long from = (unsigned long)at, left;
    unsigned char *copy;
    if (from < base || from >= base + bytes)
        return NULL;
    left = base + bytes - from;
    *count = len < left ? len : left;
    copy = malloc(*count);
    return memcpy(copy, stack + (from - base), *count);
}
void g_free(void *copy) { free(copy); }
long g_get_monotonic_time(void) { return 7; }
"""
ALL_BITS = (1 << 64) - 1
ARM64_BITS = (1 << 47) - 1  # of a signed pointer
PROCESSORS = {
    "x64": (8, ALL_BITS),
    "ia32": (4, ALL_BITS),
    "arm": (4, ALL_BITS),
    "arm64": (8, ARM64_BITS),
}
BASE = 0x7FFF0000
PC = 0x401000


@pytest.fixture(scope="module")
def walker(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("walk")
    (folder / "gum").mkdir()
    (folder / "glib.h").write_text(GLIB)
    (folder / "gum" / "gummemory.h").write_text(MEMORY)
    (folder / "walk.c").write_text(source("walk.c"))
    (folder / "stubs.c").write_text(STUBS)
    subprocess.run(
        [
            *("gcc", "-shared", "-fPIC", "-O1", "-fsanitize=undefined", "-fno-sanitize-recover"),
            *("-static-libubsan", "-I", folder, "-o", folder / "walk.so"),
            *(folder / "walk.c", folder / "stubs.c"),
        ],
        check=True,
    )
    return ctypes.CDLL(str(folder / "walk.so"))


def walk(
    walker: ctypes.CDLL, stack: bytes, fp: int, word: int, mask: int, sp: int = BASE
) -> tuple[list[int], bool]:
    """Return the frames, and whether the chain came to its end."""
    buffer = ctypes.create_string_buffer(stack, len(stack))
    for name, value in (("base", BASE), ("bytes", len(stack))):
        ctypes.c_ulong.in_dll(walker, name).value = value
    ctypes.c_void_p.in_dll(walker, "stack").value = ctypes.addressof(buffer)
    frames, is_whole = (ctypes.c_uint64 * 64)(), ctypes.c_uint()
    walker.walk.argtypes = [*[ctypes.c_uint64] * 3, ctypes.c_uint, ctypes.c_uint64]
    walker.walk.argtypes += [ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p]
    count = walker.walk(PC, sp, fp, word, mask, frames, 64, ctypes.byref(is_whole))
    return list(frames[:count]), bool(is_whole.value)


def chain(word: int, places: list[int], callers: list[int], size: int = 4096) -> bytes:
    """A stack with a frame record at each place."""
    stack = bytearray(size)
    form = "<QQ" if word == 8 else "<II"
    for number, place in enumerate(places):
        next_fp = BASE + places[number + 1] if number + 1 < len(places) else 0
        struct.pack_into(form, stack, place, next_fp, callers[number])
    return bytes(stack)


@pytest.mark.parametrize("processor", PROCESSORS)
def test_chain_of_frames_is_walked_to_its_end(walker: ctypes.CDLL, processor: str) -> None:
    word, mask = PROCESSORS[processor]
    stack = chain(word, [64, 256, 1024], [0x401100, 0x402200, 0x403300])
    assert walk(walker, stack, BASE + 64, word, mask) == ([PC, 0x401100, 0x402200, 0x403300], True)


def test_signatures_of_pointers_are_taken_off(walker: ctypes.CDLL) -> None:
    signed = 0x401100 | 0xABCD << 48
    stack = chain(8, [64, 256], [signed, 0x402200 | 0x12 << 56])
    assert walk(walker, stack, BASE + 64, 8, ARM64_BITS) == ([PC, 0x401100, 0x402200], True)


def test_long_stack_is_read_in_pieces(walker: ctypes.CDLL) -> None:
    places = list(range(64, 200_000, 20_000))
    callers = [0x400000 + 16 * number for number in range(len(places))]
    stack = chain(8, places, callers, size=200_064)
    assert walk(walker, stack, BASE + 64, 8, ALL_BITS) == ([PC, *callers], True)


@pytest.mark.parametrize("fp", [BASE + 65, BASE + 4096, BASE - 64, 0xFFFFFFFFFFF0, BASE + 4088])
def test_frame_pointer_that_leads_nowhere_ends_the_walk(walker: ctypes.CDLL, fp: int) -> None:
    assert walk(walker, bytes(4096), fp, 8, ALL_BITS) == ([PC], False)


def test_chain_that_leads_back_ends(walker: ctypes.CDLL) -> None:
    stack = bytearray(chain(8, [64, 256], [0x401100, 0x402200]))
    struct.pack_into("<Q", stack, 256, BASE + 64)
    assert walk(walker, bytes(stack), BASE + 64, 8, ALL_BITS) == ([PC, 0x401100, 0x402200], False)


@pytest.mark.parametrize("fp", [0, 1, 4095])
def test_first_function_has_no_caller(walker: ctypes.CDLL, fp: int) -> None:
    assert walk(walker, bytes(64), fp, 8, ALL_BITS) == ([PC], True)
