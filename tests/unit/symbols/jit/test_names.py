"""Names that runtimes give to their code, as they write them."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind
from flametap.recording.names.table import JIT_MODULE
from flametap.symbols.jit.names import MAX_NAME_CHARACTERS, NUMBA_MODULE, frames_of


@pytest.mark.parametrize(
    ("text", "name", "file", "line", "full_name"),
    [
        # node 20
        ("JS:*fib /srv/app.js:6:13", "fib", "/srv/app.js", 6, "fib (app.js:6:13) [optimised]"),
        ("JS:~fib /srv/app.js:6:13", "fib", "/srv/app.js", 6, "fib (app.js:6:13) [interpreted]"),
        ("JS:^fib /srv/app.js:6:13", "fib", "/srv/app.js", 6, "fib (app.js:6:13) [baseline]"),
        ("JS:+f /a.js:1:2", "f", "/a.js", 1, "f (a.js:1:2) [optimised by Maglev]"),
        ("JS:*'f /a.js:1:2", "f", "/a.js", 1, "f (a.js:1:2) [optimised]"),
        ("JS:~get foo /s/w.js:2:18", "get foo", "/s/w.js", 2, "get foo (w.js:2:18) [interpreted]"),
        ("JS:*f /a b/c d.js:1:2", "f", "/a b/c d.js", 1, "f (c d.js:1:2) [optimised]"),
        ("JS:* /srv/a.js:7:2", "(anonymous) a.js:7", "/srv/a.js", 7, "[optimised]"),
        ("JS:~ :1:20", "(anonymous) (eval):1", "", 1, "[interpreted]"),
        ("Eval:~ /srv/a.js:1:1", "(top level)", "/srv/a.js", 1, "(a.js:1:1) [interpreted]"),
        ("JS:^resolve node:path:1217:10", "resolve", "node:path", 1217, "[baseline]"),
        ("JS:^Module._extensions..js node:internal/modules/cjs/loader:1604:37",
         "Module._extensions..js", "node:internal/modules/cjs/loader", 1604, "[baseline]"),
        ("JS:wasm-function[0]-0-liftoff", "wasm-function[0]-0", "", 0, "[baseline]"),
        ("LazyCompile:*fib /srv/app.js:6", "fib", "/srv/app.js", 6, "fib (app.js:6) [optimised]"),
        ("LazyCompile:~fib /srv/app.js:6:13", "fib", "/srv/app.js", 6, "[interpreted]"),
        ("Function:^f file:///srv/app.mjs:6:13", "f", "file:///srv/app.mjs", 6, "[baseline]"),
        # CPython 3.12
        ("py::inner:/srv/app.py", "inner", "/srv/app.py", 0, ""),
        ("py::a.<locals>.b:/srv/app.py", "a.<locals>.b", "/srv/app.py", 0, ""),
        ("py::<module>:<frozen importlib._bootstrap>", "<module>",
         "<frozen importlib._bootstrap>", 0, ""),
        ("py::Condition.wait:app.py", "Condition.wait", "app.py", 0, ""),
        # OpenJDK 17
        ("int Busy.fib(int)", "Busy.fib", "", 0, "int Busy.fib(int)"),
        ("byte[] java.lang.String.getBytes()", "java.lang.String.getBytes", "", 0, "byte[] java"),
        ("void java.lang.StringBuilder.<init>()", "java.lang.StringBuilder.<init>", "", 0, "void"),
        ("java.lang.Object java.lang.invoke.LambdaForm$MH/0x0000000800c03000.invoke(int, long[])",
         "java.lang.invoke.LambdaForm$MH.invoke", "", 0, "0x0000000800c03000"),
        ("I2C/C2I adapters", "I2C/C2I adapters", "", 0, ""),
        ("Ljava/lang/String;::hashCode", "java.lang.String.hashCode", "", 0, "Ljava"),
        ("Ljava/lang/String;hashCode()I", "java.lang.String.hashCode", "", 0, "()I"),
        ("java.lang.String::hashCode", "java.lang.String.hashCode", "", 0, "::"),
        # .NET
        ("instance bool [System.Private.CoreLib] System.String::Equals(string)[Optimized]",
         "System.String.Equals", "", 0, "System.String::Equals(string) [optimised]"),
        ("void [app] Program::Main(string[])[QuickJitted]", "Program.Main", "", 0, "[baseline]"),
        ("class [System.Runtime]System.Type [app] A.B`1[T]::.ctor(int32)[Weird]",
         "A.B`1[T]..ctor", "", 0, "[Weird]"),
        ("stub<1780> AllocateTemporaryEntryPoints<PRECODE_FIXUP>",
         "AllocateTemporaryEntryPoints", "", 0, "<PRECODE_FIXUP> [stub]"),
        ("native int [Python.Runtime] P.T+<>c::<Get>b__1_0(class [a]B.C,string)[Tier0]",
         "P.T+<>c.<Get>b__1_0", "", 0, "[baseline]"),
        # Other tags, of libc++
        ("_ZNSt3__14sortB7v160006Ev", "std::__1::sort[abi:v160006]", "", 0, "()"),
        # The rest
        ("_ZN3foo3barEi", "foo::bar", "", 0, "foo::bar(int)"),
        ("void ns::f<int>(int, char)", "void ns::f<int>(int, char)", "", 0, ""),
        ("evalexpr_0_1", "evalexpr_0_1", "", 0, ""),
        ("$lists:map/2", "$lists:map/2", "", 0, ""),
        ("a\x1b[31m\tb", "a?[31m?b", "", 0, ""),
    ],
)  # fmt: skip
def test_name_of_a_runtime(text: str, name: str, file: str, line: int, full_name: str) -> None:
    (frame,) = frames_of(text)
    function = frame.function
    assert (function.name, function.file, frame.line) == (name, file, line)
    assert full_name in function.full_name
    assert bool(full_name) == bool(function.full_name)
    assert (function.module, function.kind) == (JIT_MODULE, FrameKind.NATIVE)


PSUM = (
    "_ZN8__main__4psumB2v2B90c8tJTC_2fWQAliW1xhDEoY6EEMEUOEMISPGsAQMVj4QniQ4IXKQEMXwoMGLoQDDVsQR1NHA"
    "S2hQ9XgStYwm4ogLE0AE5ArrayIdLi1E1C7mutable7alignedE"
)
COLLATZ = "__main__7collatzB2v1B38c8tJTIeFIjxB2IKSgI4CrvQClQZ6FczSBAA_3dEx"


@pytest.mark.parametrize(
    ("text", "name", "full_name"),
    [
        (PSUM, "__main__.psum", "__main__.psum(Array<double, 1, C, mutable, aligned>)"),
        (
            "_ZN5numba7parfors12_3clocals_3e13reduction_addB2v7B7c8tJTC_Ed",
            "numba.parfors.<locals>.reduction_add",
            "numba.parfors.<locals>.reduction_add(double)",
        ),
        (
            "_ZN13_3cdynamic_3e36__numba_parfor_gufunc_0x7f4c9870d050B2v6B7c8tJTC_Ed",
            "<dynamic>.__numba_parfor_gufunc",
            "<dynamic>.__numba_parfor_gufunc(double)",
        ),
    ],
)
def test_function_of_numba_is_one_of_python(text: str, name: str, full_name: str) -> None:
    (frame,) = frames_of(text)
    function, line = frame.function, frame.line
    assert (function.name, function.full_name, line) == (name, full_name, 0)
    assert (function.module, function.kind) == (NUMBA_MODULE, FrameKind.PYTHON)


@pytest.mark.parametrize("text", [f"_ZN7cpython8{COLLATZ}", f"cfunc._ZN8{COLLATZ}"])
def test_wrapper_of_numba_is_a_native_function(text: str) -> None:
    (frame,) = frames_of(text)
    assert frame.function.name == "__main__.collatz [wrapper]"
    assert (frame.function.module, frame.function.kind) == (JIT_MODULE, FrameKind.NATIVE)


def test_inlined_java_methods_are_a_chain() -> None:
    frames = frames_of("La/B;::outer->La/C;::inner->La/D;::innermost")
    assert [(f.function.name, f.function.kind) for f in frames] == [
        ("a.B.outer", FrameKind.NATIVE),
        ("a.C.inner", FrameKind.INLINED),
        ("a.D.innermost", FrameKind.INLINED),
    ]


@pytest.mark.parametrize("unit", ["JS:* ", "a", "[x] ", "La/B;->", "py::", "::", "a.b ", "(:1"])
def test_long_names_are_cut(unit: str) -> None:
    (frame, *_) = frames_of(unit * 100_000)
    assert 0 < len(frame.function.name) <= MAX_NAME_CHARACTERS
