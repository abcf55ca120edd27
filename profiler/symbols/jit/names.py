"""Parse the names of generated code in perf maps and jitdumps into functions.

The result has name, file and line. The full name also shows the level of optimization.

::

    V8          JS:*fib /srv/app.js:6:13     older: LazyCompile:*fib …, Function:~fib …
                ~ interpreted, ^ baseline, + Maglev, * TurboFan
    CPython     py::Class.method:/srv/app.py
    HotSpot     int java.lang.String.hashCode()
    its agents  Ljava/lang/String;::hashCode   Ljava/lang/String;hashCode()I
                java.lang.String::hashCode     inlined ones behind "->"
    .NET        instance bool [System.Private.CoreLib] System.String::Equals(string)[Optimized]
                stub<12> GenerateDispatchStub<GenerateDispatchStub>
    numba       _ZN8__main__1fB2v1B38c8tJTIeFI…Ex, cfunc._ZN…: C++, with its own use of ABI tags
    others      a mangled C++ or Rust name, or anything

Source: node 20, OpenJDK 17, CPython 3.12 and 3.13 and .NET Core 3.1 as they write;
v8/src/objects/code-kind.cc; perf-map-agent; tools/perf/jvmti; dotnet/runtime, vm/perfmap.cpp.
"""

from __future__ import annotations

import re

from ...model import Frame, FrameKind, Function
from ...recording.names.table import JIT_MODULE
from ..names.demangle import demangle

MAX_NAME_CHARACTERS = 400
NUMBA_MODULE = "numba"
MAX_MANGLED_CHARACTERS = 2048  # numba's have some hundred

_V8 = re.compile(
    r"(?P<kind>JS|LazyCompile|Function|Script|Eval):(?P<tier>(?:[~^+*]'?|\?)?)(?P<name>.*?)"
    # A path or URL begins after a space; a name may hold spaces as well ("get size").
    r"(?: (?P<file>(?:/|[a-z][-+.a-z0-9]*:|\[|<).*?|[^ ]*?):(?P<line>\d+)(?::(?P<column>\d+))?)?",
    re.DOTALL,
)
_V8_TIERS = {"~": "interpreted", "^": "baseline", "+": "optimised by Maglev", "*": "optimised"}
_V8_TOP = {"Script", "Eval"}
_WASM = re.compile(r"(?P<name>.*)-(?P<tier>liftoff|turbofan)")
_WASM_TIERS = {"liftoff": "baseline", "turbofan": "optimised"}

_PYTHON = re.compile(r"py::(?P<name>.+?):(?P<file>/.*|<[^<>]*>|[^:]*)", re.DOTALL)

_JAVA_PATH = re.compile(r"(?:class )?L(?P<type>[\w$/.+]+);(?:::)?(?P<name>[\w$<>]+)(?P<rest>.*)")
_JAVA_DOTTED = re.compile(r"(?P<type>[\w$]+(?:\.[\w$/+]+)+)::(?P<name>[\w$<>]+)(?P<rest>.*)")
_JAVA_EXTERNAL = re.compile(
    r"[\w$.]+(?:\[\])* (?P<type>[\w$]+(?:[./+][\w$]+)*)\.(?P<name>[\w$]+|<init>|<clinit>)\(.*\)"
)
# The names of hidden classes (lambdas) have the address of the class, which differs in each run.
_JAVA_HIDDEN = re.compile(r"[/+.]0x[0-9a-f]{8,}")

_DOTNET = re.compile(
    r".*?\[(?P<assembly>[^\[\]]+)\] (?P<type>\S+?)::(?P<name>\S+?)\(.*\)(?:\[(?P<tier>\w+)\])?"
)
# Numba tags a function with a number and, compressed, with the options that it was compiled with.
_NUMBA = re.compile(r"(?P<wrapper>cfunc\.|__gufunc__\.)?(?=_ZN)")
_NUMBA_TAGS = re.compile(r"B\d{1,2}v\d{1,9}B\d{1,4}c8tJT")
_NUMBA_TAG = re.compile(r"\[abi:[^]]*\]")
_NUMBA_BRACKETS = re.compile(r"_3c([a-z]+)_3e")  # <locals>
_NUMBA_ADDRESS = re.compile(r"_0x[0-9a-f]{6,}")
_NUMBA_FROM_PYTHON = "cpython."
# The runtime makes many equal stubs, one for each use.
_DOTNET_STUB = re.compile(r"stub<\d+> (?P<name>\w+)<(?P<kind>\w+)>")
_DOTNET_TIERS = {
    "PreJIT": "precompiled",
    "ReadyToRun": "precompiled",
    "QuickJitted": "baseline",
    "Tier0": "baseline",
    "Instrumented": "baseline",
    "InstrumentedTier0": "baseline",
    "MinOptJitted": "not optimised",
    "Optimized": "optimised",
    "OptimizedTier1": "optimised",
    "OptimizedTier1OSR": "optimised",
    "InstrumentedTier1": "optimised",
}


def frames_of(text: str) -> tuple[Frame, ...]:
    """Return the frames of a name, outermost first: one, or a chain of inlined ones."""
    text = "".join(c if c.isprintable() else "?" for c in text[:MAX_MANGLED_CHARACTERS].strip())
    if (found := _NUMBA.match(text)) and _NUMBA_TAGS.search(text):
        return (_numba_frame(text[found.end() :], bool(found["wrapper"])),)
    text = text[:MAX_NAME_CHARACTERS].strip()
    chain = text.split("->") if "->" in text else []
    if len(chain) > 1 and all(_JAVA_PATH.match(part) for part in chain):
        frames = [_frame(part) for part in chain]
        return (
            frames[0],
            *(
                Frame(Function(f.name, f.module, f.file, FrameKind.INLINED, f.full_name))
                for f in (frame.function for frame in frames[1:])
            ),
        )
    return (_frame(text),)


def _frame(text: str) -> Frame:
    if found := _V8.fullmatch(text):
        return _v8_frame(found)
    if found := _PYTHON.fullmatch(text):
        return Frame(Function(found["name"], JIT_MODULE, found["file"]))
    if found := _DOTNET.fullmatch(text):
        return _dotnet_frame(found, text)
    if found := _DOTNET_STUB.fullmatch(text):
        return _function_frame(found["name"], full_name=f"{found['name']}<{found['kind']}> [stub]")
    for pattern in (_JAVA_PATH, _JAVA_DOTTED, _JAVA_EXTERNAL):
        if found := pattern.fullmatch(text):
            type_name = _JAVA_HIDDEN.sub("", found["type"]).replace("/", ".")
            return _function_frame(f"{type_name}.{found['name']}", full_name=text)
    name, full_name = demangle(text)
    return _function_frame(name, full_name=full_name)


def _numba_frame(mangled: str, is_wrapper: bool) -> Frame:
    """A function of Python by its name there; those that convert arguments for it are wrappers."""
    short, full = (
        _NUMBA_ADDRESS.sub("", _NUMBA_BRACKETS.sub(r"<\1>", _NUMBA_TAG.sub("", name)))
        for name in demangle(mangled)
    )
    name = short.replace("::", ".")
    full_name = (name + full[len(short) :])[:MAX_NAME_CHARACTERS]
    if is_wrapper or name.startswith(_NUMBA_FROM_PYTHON):
        name = f"{name.removeprefix(_NUMBA_FROM_PYTHON)[:MAX_NAME_CHARACTERS]} [wrapper]"
        return _function_frame(name, full_name=full_name)
    name = name[:MAX_NAME_CHARACTERS]
    return Frame(Function(name, NUMBA_MODULE, "", FrameKind.PYTHON, full_name))


def _v8_frame(found: re.Match[str]) -> Frame:
    name, file, tier = found["name"], found["file"] or "", _V8_TIERS.get(found["tier"][:1], "")
    line = int(found["line"] or 0)
    if not file and (wasm := _WASM.fullmatch(name)):
        return _function_frame(wasm["name"], tier=_WASM_TIERS[wasm["tier"]])
    if found["kind"] in _V8_TOP:
        name = name or "(top level)"
    short = name or "(anonymous)"
    place = f"{file.rpartition('/')[2] or '(eval)'}:{line}" if line else ""
    if not name and place:
        short += f" {place}"
        place = ""
    column = f":{found['column']}" if found["column"] else ""
    where = f" ({place}{column})" if place else ""
    # The position distinguishes functions with the same name in one file.
    return _function_frame(short, file, line, f"{short}{where}", tier)


def _dotnet_frame(found: re.Match[str], text: str) -> Frame:
    tier = found["tier"] or ""
    full_name = text.removesuffix(f"[{tier}]") if tier else text
    name = f"{found['type']}.{found['name']}"
    return _function_frame(name, full_name=full_name, tier=_DOTNET_TIERS.get(tier, tier))


def _function_frame(
    name: str, file: str = "", line: int = 0, full_name: str = "", tier: str = ""
) -> Frame:
    if tier:
        full_name = f"{full_name or name} [{tier}]"
    if full_name == name:
        full_name = ""
    return Frame(Function(name, JIT_MODULE, file, full_name=full_name), line)
