"""Names for people."""

from __future__ import annotations

import pytest

from flametap.symbols.names.demangle import demangle, demangle_many, strip_clone


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
        ("_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>", ""),
        ("_RNCNvC7mycrate4main0", "mycrate::main::{closure#0}", ""),
        (
            "_RNvXs2_NtNtCs8Wz1jZwFcHZ_5arrow5array7struct_NtB5_3BoxNtB7_5Array5split",
            "<arrow::array::struct_::Box as arrow::array::Array>::split",
            "",
        ),
        # Swift, with the underscore of Apple's systems and without.
        (
            "$s4Demo7CounterV5totalyS2iF",
            "Counter.total(_:)",
            "Demo.Counter.total(Swift.Int) -> Swift.Int",
        ),
        (
            "_$s4main5OuterV5InnerC1xSivg",
            "Outer.Inner.x.getter",
            "main.Outer.Inner.x.getter : Swift.Int",
        ),
        ("$s4main1fyyFyycfU_", "closure #1 in f()", "closure #1 () -> () in main.f() -> ()"),
        # Objective-C's names are not mangled.
        ("-[Counter addTo:times:]", "-[Counter addTo:times:]", ""),
        ("+[NSString(Demo) demo]", "+[NSString(Demo) demo]", ""),
        ("__34-[Foo bar:]_block_invoke", "__34-[Foo bar:]_block_invoke", ""),
        ("_D3std5stdio7writelnFZv", "std.stdio.writeln", "std.stdio.writeln()"),
        ("_D3foo3barFiZi", "foo.bar", "foo.bar(int)"),
        # C++'s corners.
        ("_ZN1AltERKS_", "A::operator<", "A::operator<(A const&)"),
        ("_ZN1AssERKS_", "A::operator<=>", "A::operator<=>(A const&)"),
        ("_ZN1AptEv", "A::operator->", "A::operator->()"),
        ("_ZN1AanERKS_", "A::operator&", "A::operator&(A const&)"),
        ("_ZN3foo3barB5cxx11Ev", "foo::bar[abi:cxx11]", "foo::bar[abi:cxx11]()"),
        (
            "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4sizeEv",
            "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >::size",
            None,
        ),
        # A constructor that is a template keeps its first parameter.
        (
            "_ZN2v810ClassScopeC2INS_7IsolateEEEPT_PNS_4ZoneE",
            "v8::ClassScope::ClassScope<v8::Isolate>",
            "v8::ClassScope::ClassScope<v8::Isolate>(v8::Isolate*, v8::Zone*)",
        ),
        ("_ZN1BCI11AEi", "B::A", "B::A(int)"),
        # A reference to a nested type is one to all of it.
        (
            "_ZNK3abi4info6upcastEPKNS_4infoERNS1_6resultE",
            "abi::info::upcast",
            "abi::info::upcast(abi::info const*, abi::info::result&) const",
        ),
        # A return type that is an expression.
        (
            "_ZSt4swapIiENSt9enable_ifIXsrSt6__and_IJSt6__not_ISt15__is_tuple_likeIT_EESt21"
            "is_move_constructibleIS3_EEE5valueEvE4typeERS3_S9_",
            "std::swap<int>",
            "",
        ),
        # A lambda's parameters stand there once.
        (
            "_ZZN1A1C1fEvENKUlNS_1KERNS_1SEE_clES1_S3_",
            "A::C::f()::{lambda(A::K, A::S&)#1}::operator()",
            "A::C::f()::{lambda(A::K, A::S&)#1}::operator() const",
        ),
        # Code of its own, beside the function.
        ("_Z4workPv._omp_fn.1", "work [clone ._omp_fn.1]", "work(void*) [clone ._omp_fn.1]"),
        ("_ZN3foo3barEv.avx2", "foo::bar [clone .avx2]", "foo::bar() [clone .avx2]"),
        ("_ZN1A1fIJEEEvDpRKT_", "A::f<>", "void A::f<>()"),
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
        ("_RNvC4mine4main.768", "_RNvC4mine4main"),  # LLVM numbers equal names
        ("_ZN4mine4mainE.12", "_ZN4mine4mainE"),
        (
            "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE.7",
            "_ZN4core3ptr42drop_in_place$LT$alloc..string..String$GT$17h0123456789abcdefE",
        ),
        ("_Z4workPv._omp_fn.1", "_Z4workPv._omp_fn.1"),
        ("inner.0", "inner.0"),  # a function nested in a C function
        ("_ZN4mine4mainE.llvm.9D1C9369", "_ZN4mine4mainE"),
    ],
)
def test_pieces_and_clones_are_their_function(symbol: str, function: str) -> None:
    assert strip_clone(symbol) == function


# Swift's own code ends its process for these two, which no compiler makes.
DEADLY = ("$s4mai~3fmoyxD", "$s4mahn3fonyxD")


def test_name_that_takes_all_memory_stays_as_it_is() -> None:
    # Its innermost template argument is none: the library tries all ways to read those around it.
    deadly = "_ZNKSt3map" + 24 * "IKSt3map" + "iE"
    deep = "_ZN1aC2E" + 12 * "1bI" + "i" + 12 * "E"
    names = demangle_many([deadly, deep])
    assert names[deadly] == (deadly, "")
    assert names[deep][1] == f"a::a({12 * 'b<'}int>{11 * ' >'})"


def test_name_with_many_templates_that_has_to_be_repaired() -> None:
    """Of every ``unordered_map::operator[]``; read in the process without rights."""
    symbol = (
        "_ZNSt10_HashtableINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEESt4pairIKS5_lE"
        "SaIS8_ENSt8__detail10_Select1stESt8equal_toIS5_ESt4hashIS5_ENSA_18_Mod_range_hashingE"
        "NSA_20_Default_ranged_hashENSA_20_Prime_rehash_policyENSA_17_Hashtable_traitsI"
        "Lb1ELb0ELb1EEEE12_Scoped_nodeC2IJRKSt21piecewise_construct_tSt5tupleIJOS5_EESR_IJEEEEE"
        "PNSA_16_Hashtable_allocISaINSA_10_Hash_nodeIS8_Lb1EEEEEEDpOT_"
    )
    short, _ = demangle(symbol)
    assert short.startswith("std::_Hashtable<")
    assert "::_Scoped_node::_Scoped_node<std::piecewise_construct_t const&, std::tuple<" in short


def test_name_that_ends_the_librarys_process_stays_as_it_is() -> None:
    symbol = "$s4Demo7CounterV5totalyS2iF"
    names = demangle_many([DEADLY[0], symbol, DEADLY[1]])
    assert [names[each] for each in DEADLY] == [(each, "") for each in DEADLY]
    assert names[symbol][0] == "Counter.total(_:)"
