"""Write the parameters of a Java method as programs do. Pure.

Source: The Java Virtual Machine Specification, 4.3.
"""

from __future__ import annotations

_BASIC = {
    "B": "byte",
    "C": "char",
    "D": "double",
    "F": "float",
    "I": "int",
    "J": "long",
    "S": "short",
    "Z": "boolean",
    "V": "void",
}


def parameters_of(signature: str) -> str:
    """Return "(java.lang.String, int[])" for "(Ljava/lang/String;[I)V".

    A damaged one is returned as it is.
    """
    if not signature.startswith("("):
        return signature
    found: list[str] = []
    at = 1
    while at < len(signature) and signature[at] != ")":
        dimensions = 0
        while at < len(signature) and signature[at] == "[":
            dimensions += 1
            at += 1
        if at >= len(signature):
            return signature
        if signature[at] == "L":
            end = signature.find(";", at)
            if end < 0:
                return signature
            name = signature[at + 1 : end].replace("/", ".")
            at = end + 1
        else:
            name = _BASIC.get(signature[at], "?")
            at += 1
        found.append(name + "[]" * dimensions)
    return f"({', '.join(found)})"
