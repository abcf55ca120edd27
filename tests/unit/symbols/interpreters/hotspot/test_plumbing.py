"""Whose code a function of a Java program is."""

from __future__ import annotations

import pytest

from flametap.model import FrameKind, Function
from flametap.symbols.interpreters.function_origin import origin_of
from flametap.symbols.interpreters.hotspot.plumbing import is_plumbing
from flametap.symbols.interpreters.origin import Origin


@pytest.mark.parametrize(
    ("name", "module", "kind", "plumbing"),
    [
        ("[call stub]", "[jvm]", FrameKind.NATIVE, True),
        ("[StubRoutines (1)]", "[jvm]", FrameKind.NATIVE, False),
        ("JavaCalls::call_helper", "libjvm.so", FrameKind.NATIVE, True),
        ("jni_invoke_static", "libjvm.so", FrameKind.INLINED, True),
        ("G1CollectedHeap::do_collection_pause", "libjvm.so", FrameKind.NATIVE, False),
        ("thread_native_entry", "", FrameKind.JAVA, False),
    ],
)
def test_plumbing(name: str, module: str, kind: FrameKind, plumbing: bool) -> None:
    assert is_plumbing(Function(name, module, kind=kind)) is plumbing


@pytest.mark.parametrize(
    ("package", "origin"),
    [
        ("java.util", Origin.STDLIB),
        ("jdk.internal.misc", Origin.STDLIB),
        ("com.sun.tools.javac.comp", Origin.STDLIB),
        ("javax", Origin.STDLIB),
        ("javassist.bytecode", Origin.LIBRARY),
        ("org.apache.catalina", Origin.LIBRARY),
        ("org.h2", Origin.LIBRARY),
        ("com.github.benmanes.caffeine.cache", Origin.LIBRARY),
        ("com.google.common.collect", Origin.LIBRARY),
        ("scala", Origin.LIBRARY),
        ("org.apachex", Origin.PROJECT),
        ("com.github", Origin.PROJECT),
        ("com.google.javascript.jscomp", Origin.PROJECT),
        ("scalable.shop", Origin.PROJECT),
        ("com.acme.shop", Origin.PROJECT),
        ("", Origin.PROJECT),
    ],
)
def test_origin_goes_by_the_package(package: str, origin: Origin) -> None:
    assert origin_of(Function("X.go", package, "X.java", FrameKind.JAVA)) is origin
