"""Build the agent's machine code with the package; all else stands in pyproject.toml."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
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
            sys.exit(f"flametap cannot be built, as its agent cannot be compiled: {refused}")
        super().run()


class WheelWithMachineCode(bdist_wheel):
    """Name what the wheel runs on: any Python 3 and glibc on x86-64, as the code has none in it."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", "manylinux_2_17_x86_64"


setup(cmdclass={"build_py": BuildWithMachineCode, "bdist_wheel": WheelWithMachineCode})
