"""Which native functions are the interpreter's way of calling others."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.symbols.interpreters.function_origin import origin_of
from flametap.symbols.interpreters.origin import Origin
from flametap.symbols.interpreters.python.plumbing import is_plumbing, is_plumbing_of

PLUMBING = [
    "_PyEval_EvalFrameDefault",
    "_PyEval_EvalFrameDefault.cold",
    "_PyEval_Vector",
    "_PyEval_EvalCodeWithName",
    "_PyFunction_Vectorcall",
    "function_code_fastcall",
    "method_vectorcall",
    "method_vectorcall_O",
    "method_vectorcall_FASTCALL_KEYWORDS",
    "method_vectorcall_FASTCALL_KEYWORDS_METHOD",
    "cfunction_vectorcall_NOARGS",
    "cfunction_vectorcall_FASTCALL_KEYWORDS",
    "cfunction_call",
    "method_call",
    "_PyObject_MakeTpCall",
    "_PyObject_Call",
    "_PyObject_Call_Prepend",
    "_PyObject_VectorcallTstate",
    "_PyObject_FastCallDictTstate",
    "PyObject_Call",
    "PyObject_CallObject",
    "PyObject_CallFunctionObjArgs",
    "PyObject_CallOneArg",
    "PyObject_CallNoArgs",
    "PyObject_CallMethodObjArgs",
    "PyObject_CallFunction",
    "PyObject_Vectorcall",
    "PyObject_VectorcallMethod",
    "PyVectorcall_Call",
    "_PyVectorcall_Call",
    "object_vacall",
    "slot_tp_call",
    "slot_tp_init",
    "slot_tp_iternext",
    "slot_nb_add",
    "slot_sq_length",
    "slot_mp_subscript",
    "slot_tp_finalize",
    "slot_tp_richcompare",
    "wrapper_call",
    "wrap_init",
    "type_call",
    "gen_send_ex",
    "gen_send_ex2",
    "gen_send_ex2.constprop.0",
    "gen_iternext",
    "PyIter_Send",
    "PyGen_am_send",
    "vectorcall_method",
    "call_unbound_noarg",
    "ffi_call",
    "ffi_call_unix64",
    "ffi_call_int",
    "ffi_closure_unix64_inner",
    "_TAIL_CALL_CALL_PY_EXACT_ARGS",
    "Py_RunMain",
    "Py_BytesMain",
    "Py_Main",
    "pymain_run_python",
    "pymain_run_python.constprop.0",
    "pymain_run_file",
    "run_mod",
    "run_eval_code_obj",
    "PyEval_EvalCode",
    "_PyRun_SimpleFileObject",
    "_PyRun_AnyFileObject",
    "PyRun_StringFlags",
    "thread_run",
    "pythread_wrapper",
    "t_bootstrap",
    "_PyEval_EvalFrame",
    "call_function",
]
WORK = [
    "list_sort_impl",
    "list_sort",
    "functools_reduce",
    "_functools_reduce_impl",
    "_PyDict_LoadGlobal",
    "dict_get",
    "_PyDict_GetItem_KnownHash",
    "gc_collect_main",
    "_PyObject_Malloc",
    "PyObject_Malloc",
    "PyObject_Free",
    "subtype_dealloc",
    "PyObject_GetAttr",
    "PyObject_CallFinalizerFromDealloc",
    "builtin_sum",
    "builtin_exec",
    "_PyEval_CallTracing",
    "lru_cache_call",
    "context_run",
    "partial_vectorcall",
    "sre_search",
    "time_sleep",
    "lock_PyThread_acquire_lock",
    "take_gil",
    "PyEval_AcquireThread",
    "main",
    "_start",
    "start_thread",
    "clone3",
    "PyObject_RichCompare",
    "PyObject_Repr",
    "long_add",
    "unicode_join",
    "PyImport_ImportModuleLevelObject",
    "import_run_extension",
    "_PyPegen_run_parser",
    "malloc",
    "_io__Buffered_read",
    "gen_dealloc",
    "method_dealloc",
    "PyRuntime",
    "type_new",
    "call_me",
    "run_model",
]


@pytest.mark.parametrize("name", PLUMBING)
def test_calls_are_plumbing(name: str) -> None:
    function = Function(name, "libpython3.12.so.1.0")
    assert is_plumbing(function)
    assert is_plumbing_of(function, "another")
    assert origin_of(function) is Origin.INTERPRETER
    assert not is_plumbing(Function(name, "x.py", "/x.py", FrameKind.PYTHON))


@pytest.mark.parametrize("name", WORK)
def test_work_is_no_plumbing(name: str) -> None:
    function = Function(name, "libpython3.12.so.1.0")
    assert not is_plumbing_of(function, "libpython3.12.so.1.0")
    assert origin_of(function) is Origin.NATIVE


def test_nameless_function_of_the_interpreter_is_plumbing() -> None:
    nameless = Function("python3.11+0x1234", "python3.11", kind=FrameKind.UNKNOWN)
    assert is_plumbing_of(nameless, "python3.11")
    assert not is_plumbing_of(nameless, "python3.12")
    assert not is_plumbing(nameless)
