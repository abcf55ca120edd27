"""Slots of a loaded library that lead to functions of ours, and back."""

from __future__ import annotations

import ctypes

import frida

from flametap.inject.frida import plt_hook

LIBRARY = frida._frida.__file__
NAME = b"recvmsg"


def test_slot_that_is_redirected_twice_gets_its_own_function_back() -> None:
    slot_addr = plt_hook._slot_of(ctypes.CDLL(LIBRARY), NAME)
    assert slot_addr is not None
    slot = ctypes.c_uint64.from_address(slot_addr)
    libcs = slot.value
    recvmsg = ctypes.CDLL(None).recvmsg
    function = ctypes.CFUNCTYPE(ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(
        lambda descriptor, message, flags: int(recvmsg(descriptor, message, flags))
    )
    try:
        for _ in range(2):
            assert plt_hook.redirect(LIBRARY, NAME, function)
            assert slot.value == ctypes.cast(function, ctypes.c_void_p).value
    finally:
        plt_hook.restore(LIBRARY, NAME)
    assert slot.value == libcs
