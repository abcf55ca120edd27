"""The stack pointer that Frida is shown: one that it can use through ptrace only.

Before each function that Frida has the main thread call, it writes a return address below the stack
pointer that the thread came with, by process_vm_writev(2), for which nobody needs to stand still.
It does so, too, to clean up after an attach that has failed, when that thread may have been
released long ago and have frames there: a word of them was lost (``tests/targets/deeper.c``, in
every second attach of that kind). What it is shown is no address. The kernel refuses it (EFAULT),
Frida takes PTRACE_POKEDATA instead, and that comes to ``ptrace_proxy``: with a thread that stands
still it is done where it was meant, with any other it is not.
"""

from __future__ import annotations

# User space ends below, with 5-level page tables, too; and address tags leave this bit alone:
# Documentation/arch/x86/x86_64/mm.rst.
_USER_BITS = 57
_SHIFT = 1 << 63


def shown(real_addr: int) -> int:
    """What Frida gets to see of a runtime_addr on the stack."""
    return real_addr + _SHIFT


def real(shown_addr: int) -> int:
    """The runtime_addr that is meant by an address of Frida's, shown or not."""
    is_shown = shown_addr >> _USER_BITS == _SHIFT >> _USER_BITS
    return shown_addr - _SHIFT if is_shown else shown_addr
