"""Print the line tables of many code objects, and what Python itself says about them.

    python3.N python_lines.py COUNT

One JSON object a line: name, qualified name or null, first line, file, table in hex, and for each
code unit of 2 bytes its line, null for none. COUNT modules of the standard library, the same ones
each time. Runs on Python 3.8 to 3.15.
"""

import dis
import json
import os
import random
import sys
import types
import warnings

warnings.simplefilter("ignore")


def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)


def lines(code):
    units = len(code.co_code) // 2
    if hasattr(code, "co_lines"):
        found = [None] * units
        for start, end, line in code.co_lines():
            found[start // 2 : end // 2] = [line] * ((end - start) // 2)
        return found
    found = []
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for unit in range(units):
        line = starts.get(unit * 2, line)
        found.append(line)
    return found


def files():
    top = os.path.dirname(os.__file__)
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(set(folders) - {"site-packages", "dist-packages", "test", "lib2to3"})
        for name in sorted(names):
            if name.endswith(".py"):
                yield os.path.join(folder, name)


chosen = list(files())
random.Random(1).shuffle(chosen)
for path in chosen[: int(sys.argv[1])]:
    with open(path, "rb") as file:
        try:
            compiled = compile(file.read(), path, "exec")
        except SyntaxError:
            continue
    for code in codes(compiled):
        table = code.co_linetable if hasattr(code, "co_linetable") else code.co_lnotab
        row = {
            "name": code.co_name,
            "qualified": getattr(code, "co_qualname", None),
            "first_line": code.co_firstlineno,
            "file": path,
            "table": table.hex(),
            "lines": lines(code),
        }
        print(json.dumps(row))
