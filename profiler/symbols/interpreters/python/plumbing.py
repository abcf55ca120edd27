"""Tell the functions by which CPython calls functions from those that do work.

Between two Python functions, a native stack shows how one called the other: argument parsing, the
loop, dispatch. Views fold these by default. What does work stays: ``list_sort_impl`` that calls a
key function, dictionaries, the garbage collector, allocators, ``subtype_dealloc``.

By name, for builds with symbols; a build without has nameless functions, which count when they lie
in the interpreter's own file. Pure.

Source: Objects/call.c, Objects/methodobject.c, Objects/descrobject.c, Objects/typeobject.c,
Objects/genobject.c, Python/ceval.c, Python/pythonrun.c, Modules/main.c, of 3.8 to 3.15.
"""

from __future__ import annotations

import re

from ....model import FrameKind, Function

_NATIVE = (FrameKind.NATIVE, FrameKind.INLINED, FrameKind.TAIL_CALL)
_CALLS = (
    # The loop, and what it is entered through.
    r"_PyEval_EvalFrameDefault",
    r"_PyEval_EvalFrame",
    r"_PyEval_Vector",
    r"_PyEval_EvalCode(WithName)?",
    r"_PyEvalFramePushAndInit(_UnTagged|_Ex_UnTagged|_Ex)?",
    r"_TAIL_CALL_\w+",
    r"PyEval_Eval(Frame|FrameEx|Code|CodeEx)",
    r"PyEval_CallObjectWithKeywords",
    r"(_?call_function|do_call_core|fast_function|trace_call_function)",
    r"_Py_(call_)?trampoline\w*",
    r"py_trampoline_evaluator",
    # Objects/call.c
    r"_?PyObject_Call(_Prepend|NoArgs?|NoArgsTstate|OneArg|Object|Function|FunctionObjArgs"
    r"|FunctionVa|Method|MethodObjArgs|MethodId|MethodIdObjArgs|MethodFormat)?(_SizeT)?",
    r"_?PyObject_(Vectorcall|FastCall)(Dict|DictTstate|Method|Tstate)?(_Prepend)?",
    r"_PyObject_(MakeTpCall|FastCall_Prepend|CallMethod_SizeT)",
    r"_?PyVectorcall_(Call|Function)",
    r"_PyStack_(AsDict|UnpackDict)",
    r"_Py_(Check(Function|Slot)Result|CheckRecursiveCall)",
    r"object_vacall",
    r"callmethod",
    r"_PyFunction_(Vectorcall|FastCall\w*)",
    r"_Py(C?Function|CFunction|MethodDef|MethodDescr|Stack)_(Vectorcall|Fast)\w*",
    r"function_(call|code_fastcall|vectorcall)",
    r"_Py_?\w*Call\w*_StackRef\w*",  # since 3.14
    # Functions written in C, methods and descriptors.
    r"cfunction_(call|vectorcall_\w+|call_varargs|enter_call)",
    r"PyCFunction_Call",
    r"_?method_(call|vectorcall(_\w+)?|enter_call)",
    r"(instancemethod|classmethoddescr|methoddescr|wrapperdescr)_(call|vectorcall\w*)",
    r"(wrapper|wrapperdescr)_(call|raw_call)",
    r"wrap_(unaryfunc|binaryfunc\w*|ternaryfunc\w*|lenfunc|call|init|next|richcmpfunc|hashfunc"
    r"|descr_get|descr_set|setattr|delattr|del|objobjproc|indexargfunc|sq_item|sq_setitem)",
    # From a slot of a type to a method in Python, and back.
    r"_?slot_(tp|nb|sq|mp|am|bf)_\w+",
    r"(vectorcall|lookup)_(method|maybe(_method)?|unbound)",
    r"call_(unbound|unbound_noarg|attribute|maybe)",
    r"type_(call|vectorcall)",
    # Generators and coroutines.
    r"_?gen_(send_ex2?|send|iternext|throw|close|close_iter)",
    r"_?_?gen_(_)?send_ex\w*",
    r"_PyGen_(Send|yf)",
    r"PyGen_(am_send|Send)",
    r"PyIter_Send",
    r"coro_wrapper_(send|iternext|throw|close)",
    r"async_gen_(asend|athrow)_(send|iternext|throw)",
    # ctypes' way into C.
    r"ffi_(call|closure)\w*",
)
_ROOTS = (
    r"Py_(RunMain|BytesMain|Main)",
    r"_Py_UnixMain",
    r"pymain_\w+",
    r"pyrun_file",
    r"_?PyRun_\w+",
    r"run_(mod|eval_code_obj)",
    r"_PyRun_\w+",
    r"(t_bootstrap|thread_run|pythread_wrapper)",
)
# gcc's and clang's marks on parts and copies of a function. Most are cut off with the symbol.
CLONE = r"(\.(cold|constprop|isra|part|lto_priv|llvm|warm)(\.\d+)*)*"
_PLUMBING = re.compile(f"(?:{'|'.join((*_CALLS, *_ROOTS))}){CLONE}")


def is_plumbing(function: Function) -> bool:
    """Return True for a native function by which CPython calls functions, or starts to run."""
    return function.kind in _NATIVE and _PLUMBING.fullmatch(function.name) is not None


def is_plumbing_of(function: Function, module: str) -> bool:
    """Return True for plumbing, and for a nameless function of the interpreter's own file.

    Args:
        function: any function.
        module: file name of the interpreter: ``Module.name``.
    """
    is_nameless = function.kind is FrameKind.UNKNOWN and function.module == module
    return is_nameless or is_plumbing(function)
