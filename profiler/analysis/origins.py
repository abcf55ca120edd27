"""Say whose code a function is. A stand-in until ``symbols.interpreters`` knows it exactly."""

from __future__ import annotations

from enum import Enum

from ..model import FrameKind, Function


class Origin(str, Enum):
    """Whose code a function is."""

    PROJECT = "project"  # the program's own
    LIBRARY = "library"  # installed packages
    STDLIB = "stdlib"  # the language's standard library
    INTERPRETER = "interpreter"  # native code of the interpreter
    NATIVE = "native"  # other native code


_INSTALLED = ("/site-packages/", "/dist-packages/")
_INTERPRETER = ("libpython", "python")
_PLUMBING = frozenset(
    (
        "_PyEval_EvalFrame",
        "_PyEval_EvalFrameDefault",
        "_PyEval_Vector",
        "_PyFunction_Vectorcall",
        "_PyFunction_FastCallDict",
        "_PyObject_Call",
        "_PyObject_FastCallDictTstate",
        "_PyObject_MakeTpCall",
        "_PyObject_Vectorcall",
        "_PyObject_VectorcallTstate",
        "_PyVectorcall_Call",
        "PyEval_EvalCode",
        "PyObject_Call",
        "PyObject_CallMethod",
        "PyObject_Vectorcall",
        "PyRun_AnyFileObject",
        "Py_BytesMain",
        "Py_RunMain",
        "call_function",
        "function_code_fastcall",
        "method_vectorcall",
        "object_vacall",
        "pymain_run_python",
        "run_eval_code_obj",
        "run_mod",
        "slot_tp_call",
    )
)


def origin_of(function: Function) -> Origin:
    """Return whose code a function is."""
    if function.kind is not FrameKind.PYTHON:
        is_interpreter = function.module.startswith(_INTERPRETER)
        return Origin.INTERPRETER if is_interpreter else Origin.NATIVE
    if any(part in function.file for part in _INSTALLED):
        return Origin.LIBRARY
    if "/lib/python3" in function.file or function.file.startswith("<frozen"):
        return Origin.STDLIB
    return Origin.PROJECT


def is_plumbing(function: Function) -> bool:
    """Return True for the interpreter's own functions between two Python functions."""
    return function.name in _PLUMBING and origin_of(function) is Origin.INTERPRETER
