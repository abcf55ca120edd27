"""Check a recipe against a running Ruby before it is used.

The recipe is followed as the agent follows it: from the virtual machine over its ractors to their
threads, and from each over its frames to iseqs with a label and a path. A build whose structures
differ is recognised by that.

The process runs meanwhile, and what is being changed looks wrong for a moment: so a look that fails
is repeated, and one that succeeds is enough.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ....linux.process_memory import MemoryReadError, ProcessMemory
from ....wire.abi import NO_POSITION
from ..found import Checked
from ..recipe import Recipe
from .objects import ARRAY, INTERNAL, TYPE_MASK, element, text_of

_LOOKS = 20
_PAUSE_S = 0.002
_MAX_NODES = 4096
_MAX_FRAMES = 1 << 17  # of one stack: 1 MiB of it holds 2 ** 14
_WANTED_FRAMES = 64  # that are looked into
_MAX_LOOKED_FRAMES = 2048  # of all threads, in one look: a millisecond for 100
_KINDS = {
    0x11110001,  # VM_FRAME_MAGIC_METHOD, …_BLOCK, …_CLASS, …_TOP, …_CFUNC, …_IFUNC, …_EVAL
    0x22220001,
    0x33330001,
    0x44440001,
    0x55550001,
    0x66660001,
    0x77770001,
    0x78880001,  # …_RESCUE
    0x79990001,  # …_DUMMY
}
_KIND_MASK = 0x7FFF0001
_DUMMY = 0x79990001  # at the root of each stack
_IN_C = 0x80
_ISEQ, _INTERNAL_SHIFT = 7, 12


class _WrongError(Exception):
    """Something is not where it should be."""


class _Looked:
    """What a look may still read."""

    def __init__(self) -> None:
        self.frames = _MAX_LOOKED_FRAMES

    def has_room(self) -> bool:
        self.frames -= 1
        return self.frames >= 0


def check(memory: ProcessMemory, recipe: Recipe, pause_s: float = _PAUSE_S) -> tuple[Checked, str]:
    """Compare a recipe with a running Ruby; return the outcome, and what is wrong.

    Args:
        memory: the memory of the process.
        recipe: the recipe.
        pause_s: between two looks.
    """
    reason = ""
    for look in range(_LOOKS):
        if look:
            time.sleep(pause_s)
        try:
            machine = memory.word(recipe["runtime_addr"])
            if not machine:
                return Checked.UNSEEN, ""
            frames, looked = 0, _Looked()
            for thread in _threads(memory, recipe, machine):
                frames += _frames(memory, recipe, thread, looked)
            if frames:
                return Checked.FITS, ""
            reason = ""  # it has not run anything yet
        except (_WrongError, MemoryReadError) as error:
            reason = str(error)
    return (Checked.WRONG, reason) if reason else (Checked.UNSEEN, "")


def _nodes(memory: ProcessMemory, head: int) -> Iterator[int]:
    """Yield the nodes of one of Ruby's linked lists."""
    node = memory.word(head)
    for _ in range(_MAX_NODES):
        if node == head:
            return
        yield node
        node = memory.word(node)
    raise _WrongError("its lists of threads have no end")


def _threads(memory: ProcessMemory, recipe: Recipe, machine: int) -> Iterator[int]:
    for node in _nodes(memory, machine + recipe["vm_ractors"]):
        ractor = node - recipe["ractor_node"]
        for each in _nodes(memory, ractor + recipe["ractor_threads"]):
            thread = each - recipe["thread_node"]
            if memory.word(thread + recipe["thread_interpreter"]) != machine:
                raise _WrongError("its threads are not where they should be")
            if memory.word(thread + recipe["thread_ractor"]) != ractor:
                raise _WrongError("its threads are not where they should be")
            yield thread


def _frames(memory: ProcessMemory, recipe: Recipe, thread: int, looked: _Looked) -> int:
    """Return how many frames of a thread are iseqs with names, at most ``_WANTED_FRAMES``.

    From the root, where they stay; those at the leaf come and go, so a wrong one behind others ends
    the look.
    """
    context = memory.word(thread + recipe["thread_context"])
    if not context:
        return 0
    stack = memory.word(context + recipe["context_stack"])
    end = stack + 8 * memory.word(context + recipe["context_stack_words"])
    frame = memory.word(context + recipe["context_frame"])
    size = recipe["frame_bytes"]
    if not stack:
        return 0
    if not stack <= frame <= end or (end - frame) % size or (end - frame) // size > _MAX_FRAMES:
        raise _WrongError("its frames are not where they should be")
    found = 0
    for at in range(end - size, frame - 1, -size):
        if found >= _WANTED_FRAMES or not looked.has_room():
            break
        try:
            found += _is_iseq(memory, recipe, at)
        except (_WrongError, MemoryReadError):
            if not found:
                raise
            break
    return found


def _is_iseq(memory: ProcessMemory, recipe: Recipe, frame: int) -> bool:
    """Check a frame; return whether it runs an iseq."""
    flags = memory.word(memory.word(frame + recipe["frame_environment"]))
    if flags & _KIND_MASK not in _KINDS:
        raise _WrongError("its frames have kinds that are not known")
    iseq = memory.word(frame + recipe["frame_code"])
    pc = memory.word(frame + recipe["frame_position"])
    if not iseq or not pc or flags & _IN_C or flags & _KIND_MASK == _DUMMY:
        return False
    _check_iseq(memory, recipe, iseq, pc)
    return True


def _check_iseq(memory: ProcessMemory, recipe: Recipe, iseq: int, pc: int) -> None:
    flags = memory.word(iseq)
    if flags & TYPE_MASK != INTERNAL or flags >> _INTERNAL_SHIFT & 15 != _ISEQ:
        raise _WrongError("its frames have no code where it should be")
    body = memory.word(iseq + recipe["code_body"])
    start = memory.word(body + recipe["code_bytes"])
    words = memory.integer(body + recipe["body_words"], 4)
    if not 0 <= pc - start <= 8 * words or words > NO_POSITION:
        raise _WrongError("its instructions are not where they should be")
    path = memory.word(body + recipe["code_file_name"])
    if memory.word(path) & TYPE_MASK == ARRAY:
        path = element(memory, path, 0)
    for text in (path, memory.word(body + recipe["code_name"])):
        if not text_of(memory, recipe.numbers, text):
            raise _WrongError("its names are not where they should be")
