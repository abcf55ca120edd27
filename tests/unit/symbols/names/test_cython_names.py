"""Cython's names, as found in C files that it made; and names that only look like them."""

from __future__ import annotations

import pytest

from flametap.symbols.names.cython_names import cython_name
from flametap.symbols.names.demangle import demangle


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("__pyx_pw_8original_1main", "original.main"),
        ("__pyx_pw_5login_1clear_screen", "login.clear_screen"),
        ("__pyx_pw_6loader_8_loader__15load", "loader._loader_.load"),
        ("__pyx_pw_4bgen_6writer_7Indexer_1__init__", "bgen.writer.Indexer.__init__"),
        (
            "__pyx_pw_3bz3_8backends_6cython_4_bz3_16BZ3OmpCompressor_3__dealloc__",
            "bz3.backends.cython._bz3.BZ3OmpCompressor.__dealloc__",
        ),
        ("__pyx_pw_4liba_4fpid_2ec_1__get__", "liba.fpid.ec.__get__"),
        ("__pyx_pw_3pkg_3mod_5Class_7method", "pkg.mod.Class.method"),
        ("__pyx_pw_3mod_5spawn_server", "mod.spawn_server"),  # the third function, not a class
        ("__pyx_pf_4daqp_solve", "daqp.solve"),
        ("__pyx_pf_5login_2waktu", "login.waktu"),
        ("__pyx_pf_19const_cython_client_plus_1", "const_cython_client.plus_1"),
        ("__pyx_pf_7spytify_7Spytify___init__", "spytify.Spytify.__init__"),
        ("__pyx_pf_4liba_4fpid_2ec___get__", "liba.fpid.ec.__get__"),
        ("__pyx_pf_4liba_4fpid_18__reduce_cython__", "liba.fpid.__reduce_cython__"),
        ("__pyx_pf_3pkg_3mod_5Class_2method", "pkg.mod.Class.method"),
        (
            "__pyx_f_4sage_8symbolic_10expression_10Expression__mul_",
            "sage.symbolic.expression.Expression._mul_",
        ),
    ],
)
def test_name_with_module_and_class(symbol: str, name: str) -> None:
    assert cython_name(symbol) == name
    assert demangle(symbol) == (name, symbol)


@pytest.mark.parametrize(
    "symbol",
    [
        "main",
        "__pyx_pymod_exec_daqp",
        "__pyx_tp_new_3mod_Class",
        "__pyx_gb_3mod_2generator",
        "__pyx_pw_",
        "__pyx_pw_main",
        "__pyx_pw_3mod",
        "__pyx_pw_3mod_",
        "__pyx_pw_3mod_run",  # no number: not Cython's
        "__pyx_pw_3mod_1",
        "__pyx_f_3mod_1run",  # a C function has no number
        "__pyx_f_9mod_run",  # longer than there is text
        "__pyx_f_3m-d_run",
        "__pyx_f_" + "9" * 5000 + "mod_run",
        "__Pyx_PyObject_Call",
    ],
)
def test_other_names_stay(symbol: str) -> None:
    assert cython_name(symbol) == ""
    assert demangle(symbol) == (symbol[:4097], "")


def test_pieces_and_cpp_are_read_too() -> None:
    assert demangle("__pyx_pf_4daqp_solve.isra.0")[0] == "daqp.solve"
    symbol = "_ZL20__pyx_pf_4daqp_solveP7_object"
    assert demangle(symbol) == ("daqp.solve", "__pyx_pf_4daqp_solve(_object*)")


def test_long_name_takes_no_long_time() -> None:
    assert cython_name("__pyx_f_" + "1a_" * 50_000 + "run").endswith(".a.run")
