"""The options that several commands share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..capture.capture_options import AUTO, WAYS
from ..errors import UsageError
from ..model import Clock
from .attach_options import AttachOptions
from .option_values import (
    by,
    parse_budget_ppm,
    parse_duration_s,
    parse_pid,
    parse_range,
    parse_rate_hz,
    parse_regex,
    parse_server,
)

_Command = TypeVar("_Command", bound=Callable[..., Any])


class WithSynonyms(click.Option):
    """An option that also accepts its names in other profilers. The help does not list them."""

    def __init__(self, *args: Any, synonyms: tuple[str, ...] = (), **more: Any) -> None:
        super().__init__([*args[0], *synonyms], *args[1:], **more)
        self._synonyms = synonyms

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the option's line in the help, without the synonyms."""
        every = self.opts
        self.opts = [name for name in every if name not in self._synonyms]
        try:
            return super().get_help_record(ctx)
        finally:
            self.opts = every


def pick_pid(positional: int | None, option: int | None) -> int:
    """Return the process id that was given as an argument or with ``-p``.

    Raises:
        UsageError: there is none, or two different ones.
    """
    if positional is not None and option is not None and positional != option:
        raise UsageError(
            f"two different processes are named: {positional} and {option}", "name one of them"
        )
    pid = option if option is not None else positional
    if pid is None:
        raise UsageError("no process is named", "give a process id; `flametap ps` lists them")
    return pid


pid_option = click.option(
    "-p",
    "--pid",
    "pid_option",
    metavar="PID",
    callback=by(parse_pid),
    help="The process id, as an option.",
)


def pid_arguments(command: _Command) -> _Command:
    """Add ``PID|NAME`` and ``-p PID``; ``targets.find_target`` turns them into a process id."""
    return click.argument("pid", metavar="PID|NAME", required=False)(pid_option(command))


def targets_arguments(command: _Command) -> _Command:
    """Add ``PID|NAME…``, ``-p PID`` and ``--name``; ``targets.find_targets`` reads them."""
    command = pid_option(name_option(command))
    return click.argument("words", metavar="[PID|NAME]...", nargs=-1)(command)


name_option = click.option(
    "--name",
    "pattern",
    metavar="REGEX",
    callback=by(parse_regex),
    help="Record all processes whose name or command line matches this regular expression.",
)


def duration_option(help_text: str) -> Callable[[_Command], _Command]:
    """``-d TIME``, a ``duration`` in seconds, None without it."""
    return click.option(
        "-d", "--duration", metavar="TIME", callback=by(parse_duration_s), help=help_text
    )


def output_options(output_help: str, format_help: str) -> Callable[[_Command], _Command]:
    """``-o FILE`` and ``-f FORMAT``, each any number of times: ``outputs`` and ``formats``."""
    output = click.option(
        "-o", "--output", "outputs", multiple=True, metavar="FILE", help=output_help
    )
    form = click.option(
        "-f", "--format", "formats", multiple=True, metavar="FORMAT", help=format_help
    )
    return lambda command: output(form(command))


def _all(*options: Callable[[_Command], _Command]) -> Callable[[_Command], _Command]:
    """Return what adds several options to a command; the help lists them in this order."""
    return lambda command: functools.reduce(lambda made, add: add(made), reversed(options), command)


page_options = _all(
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="Address of this machine on which to serve the page.",
    ),
    click.option(
        "--port",
        type=click.IntRange(0, 65535),
        default=0,
        help="Port of the page.  [default: any free one]",
    ),
    click.option("--no-open", is_flag=True, help="Do not open the browser."),
)

clock_option = click.option(
    "--clock",
    type=click.Choice([clock.value for clock in Clock]),
    default=Clock.CPU.value,
    show_default=True,
    help="The time that the files show: on a CPU, all time, or only time off the CPU.",
)

by_options = _all(
    click.option(
        "--by",
        type=click.Choice(["program", "process", "thread"]),
        help="Give each program, process or thread a root frame of its own.",
    ),
    click.option("-t", "--threads", "by_thread", is_flag=True, help="The same as --by thread."),
)

# Which threads and which time the files show.
part_options = _all(
    click.option(
        "--tid",
        "tids",
        type=int,
        metavar="TID",
        multiple=True,
        help="Show only the thread with this id, as in `ps -L`; may be given several times.",
    ),
    click.option(
        "--thread",
        "thread_name",
        metavar="REGEX",
        callback=by(parse_regex),
        help="Show only threads whose name matches this regular expression.",
    ),
    click.option(
        "--range",
        "span",
        metavar="START-END",
        callback=by(parse_range),
        help="Write only this part of the recording: seconds since its start, as in 2-5 or 10-.",
    ),
)


symbol_dir_option = click.option(
    "--symbol-dir",
    "symbol_dirs",
    multiple=True,
    type=click.Path(exists=True, file_okay=False),
    metavar="DIR",
    help="Search this folder for debug files, too; may be given several times.",
)


debuginfod_options = (
    click.option(
        "--debuginfod",
        is_flag=True,
        help="Download missing debug files from debuginfod servers: those in DEBUGINFOD_URLS, else "
        "those in /etc/debuginfod, else elfutils'.",
    ),
    click.option(
        "--debuginfod-url",
        "debuginfod_urls",
        multiple=True,
        metavar="URL",
        callback=lambda _, __, urls: tuple(parse_server(url) for url in urls),
        help="Download missing debug files from this server; may be given several times.",
    ),
)


def servers(debuginfod: bool, debuginfod_urls: tuple[str, ...]) -> tuple[str, ...]:
    """Return the URLs of the debuginfod servers to use; () for none."""
    if not debuginfod:
        return debuginfod_urls
    # Imported here: it takes 50 ms.
    from ..symbols.locate.debuginfod import known_servers

    return (*debuginfod_urls, *known_servers())


def children_option(command: _Command) -> _Command:
    """Add ``--children``, which ``how`` has. Put this decorator above ``sampling_options``."""
    return click.option(
        "--children/--no-children",
        default=None,
        help="Record the processes that it starts, too, and programs that replace it."
        "  [default: for a command that flametap starts, and on the live page if they do most of"
        " the work]",
    )(command)


def via_option(command: _Command) -> _Command:
    """Add ``--via``, which ``how`` has. Put this decorator above ``sampling_options``."""
    return _via(" Several are recorded together.", multiple=True)(command)


def via_option_of_printing(command: _Command) -> _Command:
    """Add ``--via`` to the help of a command that ``far.split`` reads it for."""
    return _via("", expose_value=False)(command)


def _via(several: str, **more: Any) -> Callable[[_Command], _Command]:
    return click.option(
        "--via",
        metavar="COMMAND",
        help="Do it where this command leads: 'ssh host', 'docker exec -i web',"
        " 'kubectl exec -i pod --'. flametap has to be installed there, too." + several,
        **more,
    )


def sampling_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options of every command that attaches; the command receives them as one ``how``. Put
    this decorator above ``verify_option`` and ``verbosity_options``, whose values ``how`` includes.
    """
    return sampling_options_with("100", "1")(command)


def sampling_options_with(
    rate: str, budget_percent: str
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Return ``sampling_options`` with other defaults."""

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        return _with_sampling_options(_with_how(command), rate, budget_percent)

    return decorate


def _with_how(command: Callable[..., int]) -> Callable[..., int]:
    """Pass the options of ``sampling_options`` to the command as one ``how``."""

    @functools.wraps(command)
    def with_how(
        *,
        rate: float,
        budget_ppm: int,
        no_inlines: bool,
        symbol_dirs: tuple[str, ...],
        debuginfod: bool,
        debuginfod_urls: tuple[str, ...],
        enable_perf_map: bool,
        inject: str,
        force: bool,
        verbose: bool,
        verify_detach: bool = False,
        children: bool | None = None,
        via: tuple[str, ...] = (),
        **others: object,
    ) -> int:
        how = AttachOptions(
            rate_hz=rate,
            budget_ppm=budget_ppm,
            inlines=not no_inlines,
            symbol_dirs=symbol_dirs,
            debuginfod_urls=servers(debuginfod, debuginfod_urls),
            enable_perf_map=enable_perf_map,
            inject=inject,
            force=force,
            verbose=verbose,
            verify_detach=verify_detach,
            children=children,
            via=via,
        )
        return command(how=how, **others)

    return with_how


def _with_sampling_options(command: _Command, rate: str, budget_percent: str) -> _Command:
    for option in reversed(
        [
            click.option(
                "-r",
                "--rate",
                cls=WithSynonyms,
                synonyms=("-F", "--freq", "--frequency"),  # perf
                metavar="RATE",
                callback=by(parse_rate_hz),
                default=rate,
                show_default=True,
                help="Samples of each thread per second of its CPU time; 1k is 1000.",
            ),
            click.option(
                "--budget",
                "budget_ppm",
                metavar="PERCENT",
                callback=by(parse_budget_ppm),
                default=budget_percent,
                show_default=True,
                help="The most CPU time that sampling may take from the process, in per cent "
                "of one core. flametap lowers the rate to stay below it; 0 is no limit.",
            ),
            click.option(
                "--no-inlines",
                is_flag=True,
                help="Show an inlined function as part of the function it was inlined into.",
            ),
            symbol_dir_option,
            *debuginfod_options,
            click.option(
                "--enable-perf-map",
                is_flag=True,
                help="Ask the runtime of a .NET program (8 or newer) to write the names of its "
                "methods to /tmp/perf-PID.map while it is recorded; the file is then removed.",
            ),
            click.option(
                "--inject",
                type=click.Choice(WAYS),
                default=AUTO,
                show_default=True,
                help="The way into the process: direct stops one thread for 0.1 ms and calls "
                "nothing of the program; frida is for kernels where that cannot be done.",
            ),
            click.option(
                "--force",
                is_flag=True,
                help="Attach although a check that may be a false alarm says no: a seccomp filter "
                "that cannot be read, remains of another Frida tool, little memory.",
            ),
        ]
    ):
        command = option(command)
    return command


no_sources_option = click.option(
    "--no-sources",
    "with_sources",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Keep neither source texts nor the program's arguments in the recording's file.",
)


def verify_option(command: _Command) -> _Command:
    """Add ``--verify-detach``."""
    return click.option(
        "--verify-detach",
        is_flag=True,
        help="Compare the process before the attach and after the detach, and print what differs.",
    )(command)


def verbosity_options(command: _Command) -> _Command:
    """Add ``-v`` and ``-q``."""
    command = click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Also print each check before the attach, and for each module the source of its "
        "function names.",
    )(command)
    return click.option("-q", "--quiet", is_flag=True, help="Print errors only.")(command)
