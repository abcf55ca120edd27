"""Tell by its name what a function in text is: of Java, V8, or Python, or one of C++.

Sources: perf-map-agent's and async-profiler's names of methods; V8's ``perf-basic-prof``;
CPython's "Python support for the perf profiler".
"""

from __future__ import annotations

import re

from ..model import Frame, FrameKind
from .builder import Builder
from .columns import line_of

KERNEL = "[kernel]"  # module

_NAME = re.compile(
    # java/lang/Thread.run; of perf-map-agent: Ljava/lang/Thread;::run, with ";" or ":" or ".",
    # and a signature that may be cut
    r"(?:L(?P<plain>[\w$]+)(?:[;:]::|;\.)|L?(?P<type>[\w$+-]+(?:/[\w$+.-]+)+)(?P<parted>[;:]?::?\.?|;?\.))"
    r"(?P<method>[\w$]+|<(?:cl)?init>)(?:\(.*)?"
    r"|(?:JS|LazyCompile|Function|Script|Eval):(?P<tier>[~^+*]?)'?(?P<js>[^ ]*)"
    r"(?: (?P<js_file>\S+?):(?P<js_line>\d+)(?::\d+)?)?"
    r"|py::(?P<python>.+?):(?P<python_file>[^:]+)"
)
# A class in capitals: packages of Go are named "net/http" as well.
_CLASS_OF_JAVA = re.compile(
    r"(?:java|javax|jdk|sun|com|org|io|net|scala|kotlin|akka|groovy|clojure|jakarta)"
    r"/(?:[\w$+-]+/)*[A-Z][\w$+.-]*"
)
_TIERS = {"~": "interpreted", "^": "baseline", "+": "optimised by Maglev", "*": "optimised"}
# A class that the virtual machine makes for a lambda: its number and its address differ each time.
_HIDDEN = re.compile(r"(?<=\$\$Lambda)[$\d]*[/+.]0x[0-9a-f]{8,}")


def known_frame(
    builder: Builder, text: str, tier: str = "", *, has_java: bool = True
) -> Frame | None:
    """Return the frame of a function of Java, V8 or Python by its name; None if it is of neither.

    Args:
        builder: of the functions.
        text: the name.
        tier: how a method of Java runs.
        has_java: any name with slashes is of Java.
    """
    found = _NAME.fullmatch(text)
    if found is None:
        return None
    if found["method"]:
        is_sure = has_java or found["parted"] != "."
        if not is_sure and not _CLASS_OF_JAVA.fullmatch(found["type"]):
            return None
        name = f"{(found['type'] or found['plain']).replace('/', '.')}.{found['method']}"
        return java_frame(builder, name, tier)
    if found["python"]:
        return Frame(builder.function(found["python"], "", found["python_file"], FrameKind.PYTHON))
    name, file = found["js"] or "(anonymous)", found["js_file"] or ""
    line = line_of(found["js_line"])
    function = builder.function(name, "", file, FrameKind.JAVASCRIPT)
    return Frame(function, line, "", _TIERS.get(found["tier"], ""))


def java_frame(builder: Builder, name: str, tier: str = "") -> Frame:
    """Return the frame of a method by its dotted name."""
    name = _HIDDEN.sub("", name)
    return Frame(builder.function(name, "", "", FrameKind.JAVA), tier=tier)


def short_name(symbol: str) -> str:
    """Return a demangled name without its parameters.

    What is in braces or angle brackets stays, as do operators and the methods of Go.
    """
    if "(" not in symbol or ".(" in symbol or "operator" in symbol:
        return symbol
    kept: list[str] = []
    angles = braces = parens = start = 0
    is_kept = True
    for at, character in enumerate(symbol):
        if character in "<>":
            angles += 1 if character == "<" else -1
        elif character in "{}":
            braces += 1 if character == "{" else -1
        elif character == "(":
            if not parens:
                is_kept = bool(angles or braces) or symbol.startswith("(anonymous", at)
                if not is_kept:
                    kept.append(symbol[start:at])
            parens += 1
        elif character == ")":
            parens -= 1
            if not parens and not is_kept:
                start = at + 1
    if parens or angles or braces:
        return symbol
    kept.append(symbol[start:])
    return "".join(kept).removesuffix(" const").strip() or symbol
