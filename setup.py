"""Build the agent's machine code with the package; all else stands in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithMachineCode(build_py):
    """Have the package's data complete before setuptools collects it."""

    def run(self) -> None:
        # Here, not above: pip reads this file with any Python, and says then which one it takes.
        sys.path.insert(0, str(Path(__file__).parent))
        from agent.build import BuildError, build

        try:
            build()
        except BuildError as refused:
            self.warn(f"the agent will be compiled in each target: {refused}")
        super().run()


setup(cmdclass={"build_py": BuildWithMachineCode})
