"""The options that choose which stacks and frames are shown: ``--python-only`` and its like."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ..errors import UsageError
from .options import WithSynonyms

if TYPE_CHECKING:
    from ..tree.frame_filter import FrameFilter


@dataclass(frozen=True)
class FrameOptions:
    """Which stacks and frames are shown, and how."""

    language: str = "all"  # or "python", "native"
    plumbing: bool = False  # the interpreter's own functions, too
    by_line: bool = False
    full_filenames: bool = False
    only_gil: bool = False  # only while the thread holds the GIL

    @property
    def frames(self) -> FrameFilter:
        """The filter."""
        # Imported here: it loads numpy.
        from ..tree.frame_filter import FrameFilter, Language

        return FrameFilter(Language(self.language), self.plumbing, self.only_gil)


ALL_FRAMES = FrameOptions()


def frame_options(*, lines: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Add the options; the command receives them as one ``shown``.

    Args:
        lines: add ``--functions`` and ``--lines``, and ``--gil``, too.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(_OPTIONS if not lines else (*_OPTIONS, _LINES, gil_option)):
            command = option(command)
        return command

    return lambda command: decorate(_with_shown(command))


def _with_shown(command: Callable[..., int]) -> Callable[..., int]:
    """Pass the options to the command as one ``shown``.

    Raises:
        UsageError: they contradict each other.
    """

    @functools.wraps(command)
    def with_shown(
        *,
        python_only: bool,
        native_only: bool,
        plumbing: bool,
        full_filenames: bool,
        by_function: bool = True,
        only_gil: bool = False,
        **others: object,
    ) -> int:
        if python_only and (native_only or plumbing):
            other = "--native-only" if native_only else "--plumbing"
            raise UsageError(f"--python-only and {other} contradict each other", "leave one out")
        language = "python" if python_only else "native" if native_only else "all"
        shown = FrameOptions(language, plumbing, not by_function, full_filenames, only_gil)
        return command(shown=shown, **others)

    return with_shown


gil_option = click.option(
    "--gil",
    "only_gil",
    is_flag=True,
    help="Count only the time in which a thread holds Python's global interpreter lock (GIL).",
)
_OPTIONS = (
    click.option(
        "--python-only",
        "--java-only",
        "--js-only",
        "--ruby-only",
        "python_only",
        is_flag=True,
        help="Show only functions of Python, Java, JavaScript or Ruby; a native one's time "
        "belongs to its caller.",
    ),
    click.option(
        "--native-only",
        cls=WithSynonyms,
        synonyms=("--no-python",),
        is_flag=True,
        help="Show only native functions, those of the interpreter among them.",
    ),
    click.option(
        "--plumbing",
        is_flag=True,
        help="Also show the functions by which the interpreter runs and calls functions.",
    ),
    click.option(
        "--full-filenames",
        is_flag=True,
        help="Print the whole paths of Python files.",
    ),
)
_LINES = click.option(
    "--functions/--lines",
    "by_function",
    default=True,
    help="Give a Python function one frame (the default), or one for each of its lines.",
)
