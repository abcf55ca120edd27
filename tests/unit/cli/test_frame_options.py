"""The options that choose which frames are shown."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from flametap.cli.frame_options import FrameOptions, frame_options
from flametap.errors import UsageError
from flametap.tree.frame_filter import FrameFilter, Language


def parsed(*arguments: str) -> FrameOptions:
    found: list[FrameOptions] = []

    @click.command()
    @frame_options(lines=True)
    def command(shown: FrameOptions) -> int:
        found.append(shown)
        return 0

    result = CliRunner().invoke(command, arguments)
    if isinstance(result.exception, UsageError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return found[0]


@pytest.mark.parametrize(
    ("arguments", "options", "frames"),
    [
        ((), FrameOptions(), FrameFilter()),
        (("--python-only",), FrameOptions("python"), FrameFilter(Language.PYTHON)),
        (("--native-only",), FrameOptions("native"), FrameFilter(Language.NATIVE)),
        (("--no-python",), FrameOptions("native"), FrameFilter(Language.NATIVE)),
        (("--plumbing",), FrameOptions(plumbing=True), FrameFilter(plumbing=True)),
        (("--functions",), FrameOptions(), FrameFilter()),
        (("--gil",), FrameOptions(only_gil=True), FrameFilter(only_gil=True)),
        (("--lines", "--full-filenames"), FrameOptions("all", False, True, True), FrameFilter()),
    ],
)
def test_options(arguments: tuple[str, ...], options: FrameOptions, frames: FrameFilter) -> None:
    assert parsed(*arguments) == options
    assert options.frames == frames


@pytest.mark.parametrize("other", ["--native-only", "--plumbing"])
def test_contradictions(other: str) -> None:
    with pytest.raises(UsageError, match=f"--python-only and {other} contradict"):
        parsed("--python-only", other)
