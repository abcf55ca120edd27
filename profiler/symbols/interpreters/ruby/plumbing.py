"""Tell the functions by which Ruby calls methods from those that do work. Pure.

By name, for what libruby exports; most of the others have no name, and count as plumbing for that.

Source: vm.c, vm_eval.c, vm_insnhelper.c, eval.c, thread.c, cont.c, of 3.1 to 3.3.
"""

from __future__ import annotations

import re

from ....model import FrameKind, Function

_NATIVE = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.TAIL_CALL)
_CALLS = re.compile(
    r"(rb_)?vm_exec(_core|_loop)?|jit_exec\w*|mjit_exec"
    r"|(rb_)?vm_(call|invoke|yield|callee|sendish|search|opt|cfp|push_frame|pop_frame)\w*"
    r"|invoke_(iseq_)?block\w*|rb_vm_invoke_(proc|bmethod)\w*|rb_(vm_)?call0?\w*"
    r"|rb_yield\w*|rb_block_(call|pair_yield)\w*|rb_iterate0?|rb_lambda_call"
    r"|rb_funcall\w*|rb_check_funcall\w*|rb_ec_\w*call\w*|rb_obj_(call_init|instance_exec)\w*"
    r"|rb_class_new_instance\w*|rb_proc_call\w*|rb_method_call\w*|rb_sym_proc_call|send_internal\w*"
    r"|rb_(f_)?(public_)?send|rb_call_super\w*|rb_(protect|ensure|rescue2?|vrescue2|catch\w*)"
    r"|rb_ec_exec_node|rb_ec_(cleanup|error_print)|ruby_(exec_node|run_node|options)|rb_main"
    r"|thread_(start_func|do_start|do_start_proc)\w*|rb_fiber_start|fiber_(entry|start)\w*"
    r"|call_thread_start_func\w*|nt_start"
)


def is_plumbing(function: Function) -> bool:
    """Return True for a native function by which Ruby calls methods."""
    return function.kind in _NATIVE and _CALLS.fullmatch(function.name) is not None
