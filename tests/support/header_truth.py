"""What the C compiler makes of a header of the agent's, for comparison with the host's copy."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

AGENT = Path(__file__).resolve().parents[2] / "agent"


class HeaderTruth:
    """Headers of the agent.

    Args:
        headers: their files.
    """

    def __init__(self, *headers: Path) -> None:
        self._headers = headers
        whole = "".join(path.read_text("utf-8") for path in headers)
        self._text = re.sub(r"/\*.*?\*/", "", whole, flags=re.DOTALL)

    def struct_fields(self, name: str) -> list[str]:
        """Return the names of a structure's fields, in order."""
        return re.findall(r"(\w+)(?:\[\w+\])?;", self._body("struct", name))

    def enum_members(self, name: str) -> list[str]:
        """Return the names of an enum's members, in order."""
        return re.findall(r"^\s*(\w+) =", self._body("enum", name), re.MULTILINE)

    def values(self, expressions: Iterable[str], folder: Path) -> dict[str, int]:
        """Have a program print the values of expressions.

        Args:
            expressions: C, each a whole number.
            folder: for the program.
        """
        prints = "\n".join(
            f'printf("%s=%llu\\n", "{each}", (unsigned long long)({each}));' for each in expressions
        )
        source, program = folder / "truth.c", folder / "truth"
        source.write_text(
            "#include <stddef.h>\n#include <stdio.h>\n"
            + "".join(f'#include "{path}"\n' for path in self._headers)
            + f"int main(void) {{\n{prints}\nreturn 0; }}\n"
        )
        command = ["gcc", "-std=gnu11", "-Wall", "-o", str(program), str(source)]
        subprocess.run(command, check=True, timeout=60)
        output = subprocess.run([program], check=True, timeout=60, capture_output=True, text=True)
        pairs = (line.rsplit("=", 1) for line in output.stdout.splitlines())
        return {expression: int(value) for expression, value in pairs}

    def _body(self, kind: str, name: str) -> str:
        body = re.search(rf"^{kind} {name} \{{(.*?)^\}};", self._text, re.DOTALL | re.MULTILINE)
        assert body is not None, f"the headers have no {kind} {name}"
        return body[1]
