"""Names for people."""

from __future__ import annotations

import pytest

from flametap.symbols.demangle import demangle, strip_clone


@pytest.mark.parametrize(
    ("symbol", "short", "full"),
    [
        ("main", "main", ""),
        ("foo__Fv", "foo__Fv", ""),  # a C name, not cfront's mangling
        ("_Z", "_Z", ""),
        ("_ZNK3foo3barIiEEvT_", "foo::bar<int>", "void foo::bar<int>(int) const"),
        ("_ZN3fooC1Ev", "foo::foo", "foo::foo()"),
        ("_ZN3foolsERSoi", "foo::operator<<", "foo::operator<<(std::ostream&, int)"),
        ("_ZN3FoocviEv", "Foo::operator int", "Foo::operator int()"),
        ("_ZNK3fooclEv", "foo::operator()", "foo::operator()() const"),
        ("_ZN12_GLOBAL__N_13fooEv.cold", "(anonymous namespace)::foo", None),
        ("_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", None),
        ("_ZThn16_N3foo3barEv", "foo::bar [thunk]", "foo::bar() [thunk]"),
        ("_ZN2v88internal6WasmOpIbJEEEvv", "v8::internal::WasmOp<bool>", None),
        ("_ZN1aIiLm64EE1bEv", "a<int, 64>::b", "a<int, 64>::b()"),
        (
            "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
            "core::ptr::drop_in_place<alloc::string::String>",
            "",
        ),
        ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function", ""),
    ],
)
def test_short_and_full_names(symbol: str, short: str, full: str | None) -> None:
    names = demangle(symbol)
    assert names[0] == short
    if full is not None:
        assert names[1] == full


@pytest.mark.parametrize(
    ("symbol", "function"),
    [
        ("main.cold", "main"),
        ("work.constprop.0", "work"),
        ("work.isra.0.part.12", "work"),
        ("work.part.0.cold", "work"),
        ("work.lto_priv.3", "work"),
        ("work.llvm.1234567890", "work"),
        ("_ZN3foo3barEv.isra.0", "_ZN3foo3barEv"),
        ("memcpy@@GLIBC_2.14", "memcpy"),
        ("memcpy@GLIBC_2.2.5", "memcpy"),
        ("__GI___libc_read", "__libc_read"),
        ("main.work", "main.work"),  # Go
        ("f.avx2", "f.avx2"),  # versions of one function are different code
        (".cold", ".cold"),
    ],
)
def test_pieces_and_clones_are_their_function(symbol: str, function: str) -> None:
    assert strip_clone(symbol) == function
