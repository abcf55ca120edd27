"""Methods of Java by what the agent sends of them."""

from __future__ import annotations

import pytest

from flametap.model import Frame, FrameKind, Function
from flametap.symbols.interpreters.hotspot.names import GONE, JavaNames, class_text
from flametap.symbols.interpreters.hotspot.routines import Routine
from flametap.symbols.interpreters.hotspot.signature import parameters_of
from flametap.symbols.names.limits import LEFT_OUT, Budgets
from flametap.wire.abi import (
    JAVA_INLINED,
    JAVA_NEAREST,
    JAVA_NO_INDEX,
    JAVA_STUB_SHIFT,
    JAVA_TIER_SHIFT,
    JAVA_TIER_STUB,
)
from flametap.wire.events import Code, CodePart

ROUTINES = (
    Routine(0x5100, 0x5200, "call_stub"),
    Routine(0x25000, 0x25100, "jbyte_arraycopy"),
    Routine(0x25100, 0x25108, "new_one"),
)
LINES = bytes([0xFF, 1, 15, 3 << 3 | 1])  # 0: 7, 3: 8


def code(
    class_name: str = "java/util/HashMap",
    name: str = "get",
    signature: str = "(Ljava/lang/Object;)Ljava/lang/Object;",
    file: str = "HashMap.java",
    lines: bytes = LINES,
    code_id: int = 1,
) -> Code:
    raw = (class_name.encode(), (name + signature).encode(), file.encode(), lines)
    parts = tuple(CodePart(part, 1, False) for part in raw)
    return Code(code_id, 1, False, parts, (len(name.encode()), 20))


@pytest.fixture
def names() -> JavaNames:
    budgets = Budgets()
    return JavaNames(lambda _: 1, lambda _: ROUTINES, budgets.names, budgets.table_bytes)


def test_a_method_has_its_class_file_line_and_parameters(names: JavaNames) -> None:
    function = Function(
        "java.util.HashMap.get",
        "java.util",
        "HashMap.java",
        FrameKind.JAVA,
        "java.util.HashMap.get(java.lang.Object)",
    )
    method = names.code(code())
    assert method.frames_at(4) == (Frame(function, 8, tier="interpreted"),)
    assert method.frames_at(0) == (Frame(function, 7, tier="interpreted"),)


def test_how_it_runs_makes_no_other_box(names: JavaNames) -> None:
    method = names.code(code())
    tiers = [tier << JAVA_TIER_SHIFT | flag | 4 for tier in range(5) for flag in (0, JAVA_INLINED)]
    frames = {method.frames_at(position)[0] for position in tiers}
    assert len({(frame.function, frame.line) for frame in frames}) == 1
    assert {frame.tier for frame in frames} >= {"interpreted", "compiled by C1", "inlined by C2"}
    assert method.frames_at(JAVA_NO_INDEX)[0].line == 0


def test_equal_methods_are_one(names: JavaNames) -> None:
    assert names.code(code(code_id=1)) is names.code(code(code_id=2))
    assert names.code(code(signature="()V")) is not names.code(code())


def test_classes_without_a_package(names: JavaNames) -> None:
    (frame,) = names.code(code("Main", "main", "([Ljava/lang/String;)V", "Main.java")).frames_at(0)
    assert (frame.function.name, frame.function.module) == ("Main.main", "")
    assert frame.function.full_name == "Main.main(java.lang.String[])"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (b"StubRoutines (1)", "[StubRoutines (1)]"),
        (b"StubRoutines (continuation stubs)", "[unmounted frames]"),
        (b"StubRoutines (continuationstubs)", "[unmounted frames]"),
    ],
)
def test_stubs_are_the_machines_own(names: JavaNames, name: bytes, shown: str) -> None:
    parts = tuple(CodePart(part, 1, False) for part in (b"", name, b"", b""))
    stub = names.code(Code(3, 1, False, parts, (0, 0)))
    (frame,) = stub.frames_at(JAVA_TIER_STUB << JAVA_TIER_SHIFT | JAVA_NO_INDEX)
    assert frame.function == Function(shown, "[jvm]")


@pytest.mark.parametrize(
    ("offset", "shown", "full_name"),
    [
        (0x100, "[call stub]", "call_stub"),
        (
            0x20010,
            "[jbyte_arraycopy]",
            "jbyte_arraycopy: copies arrays (System.arraycopy, Arrays.copyOf, clone, strings)",
        ),
        (0x20101, "[new_one]", "new_one"),
        (
            0x20108,
            "[array copies and other routines of the virtual machine]",
            "array copies and other routines of the virtual machine (StubRoutines (2))",
        ),
    ],
)
def test_routines_of_the_machine_have_names(
    names: JavaNames, offset: int, shown: str, full_name: str
) -> None:
    parts = tuple(CodePart(part, 1, False) for part in (b"", b"StubRoutines (2)", b"", b""))
    stubs = names.code(Code(3, 1, False, parts, (0, 0x5000)))
    position = offset >> 16 << JAVA_STUB_SHIFT | JAVA_TIER_STUB << JAVA_TIER_SHIFT | offset & 0xFFFF
    (frame,) = stubs.frames_at(position)
    assert frame.function == Function(shown, "[jvm]", full_name=full_name)
    assert stubs.frames_at(position) is stubs.frames_at(position)


def test_a_place_beyond_what_can_be_told_has_the_name_of_all(names: JavaNames) -> None:
    parts = tuple(CodePart(part, 1, False) for part in (b"", b"StubRoutines (1)", b"", b""))
    stubs = names.code(Code(3, 1, False, parts, (0, 0x5000)))
    (frame,) = stubs.frames_at(JAVA_TIER_STUB << JAVA_TIER_SHIFT | JAVA_NO_INDEX)
    assert frame.function.name == "[routines of the virtual machine]"


def test_what_is_gone_is_counted(names: JavaNames) -> None:
    gone = names.code(Code(4, 1, True, code().parts, (0, 0)))
    assert gone.frames_at(0)[0].function.name == GONE
    assert names.note == "1 methods had gone before their names could be read"


def test_what_is_not_exact_is_said(names: JavaNames) -> None:
    names.see(4 << JAVA_TIER_SHIFT | 17)
    assert names.note == ""
    names.see(4 << JAVA_TIER_SHIFT | JAVA_NEAREST | 17)
    assert "DebugNonSafepoints" in names.note


def test_names_have_a_budget() -> None:
    budgets = Budgets()
    while budgets.names.take(1 << 20):
        pass
    while budgets.names.take(64):
        pass
    full = JavaNames(lambda _: 1, lambda _: (), budgets.names, budgets.table_bytes)
    assert full.code(code()).frames_at(0)[0].function.name == LEFT_OUT
    assert "names take too much memory" in full.note


@pytest.mark.parametrize(
    ("internal", "shown"),
    [
        ("java/lang/String", "java.lang.String"),
        ("a/Outer$Inner", "a.Outer$Inner"),
        ("Main$$Lambda$14+0x0000000800c03000", "Main$$Lambda"),
        ("Main$$Lambda/0x00007f0000c03000", "Main$$Lambda"),
        ("Main$$Lambda$14/0x0000000840061440", "Main$$Lambda"),
        ("java/lang/invoke/LambdaForm$MH+0x0000000800c04400", "java.lang.invoke.LambdaForm$MH"),
        (
            "jdk/internal/reflect/GeneratedMethodAccessor12",
            "jdk.internal.reflect.GeneratedMethodAccessor",
        ),
        ("com/sun/proxy/$Proxy3", "com.sun.proxy.$Proxy3"),
    ],
)
def test_class_names(internal: str, shown: str) -> None:
    assert class_text(internal) == shown


def test_modified_utf_8_and_damage(names: JavaNames) -> None:
    pair = "𝒳".encode("utf-16-be")
    high, low = (int.from_bytes(pair[at : at + 2], "big") for at in (0, 2))
    surrogates = (chr(high) + chr(low)).encode("utf-8", "surrogatepass")
    parts = (b"a/" + "naïve".encode() + surrogates, b"go()V", b"\xff\xfe\x00.java", b"")
    found = names.code(Code(9, 1, False, tuple(CodePart(p, 1, False) for p in parts), (2, 0)))
    (frame,) = found.frames_at(0)
    assert frame.function.name == "a.naïve𝒳.go"
    assert frame.function.file.isprintable()


@pytest.mark.parametrize(
    ("signature", "shown"),
    [
        ("()V", "()"),
        ("(IJ[[DLjava/util/List;Z)V", "(int, long, double[][], java.util.List, boolean)"),
        ("(Q)V", "(?)"),
        ("", ""),
        ("(L", "(L"),
        ("([", "(["),
    ],
)
def test_parameters(signature: str, shown: str) -> None:
    assert parameters_of(signature) == shown
