"""The group of all commands. Turns errors into messages and exit codes."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from collections.abc import Sequence

import click

from ..errors import FlametapError, UsageError
from . import far
from .foreign_options import COMMANDS, instead_of
from .streams import give_up, print_line, print_message
from .targets import find_processes, is_name

DEBUG_VARIABLE = "FLAMETAP_DEBUG"
NAMES = (
    "live",
    "record",
    "open",
    "export",
    "diff",
    "merge",
    "info",
    "top",
    "save",
    "dump",
    "ps",
    "doctor",
    "symbols",
    "serve",
)  # each a module of ``commands``
BEHIND_DASHES = "; put a program to start after --, with its options"


class DefaultLive(click.Group):
    """A group whose command may be left out: ``flametap 1234`` is ``flametap live 1234``.

    A command is imported when it is used.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(NAMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; None if there is none of that name."""
        return command_of(cmd_name) if cmd_name in NAMES else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Insert ``live`` before arguments that can only belong to it."""
        own = {"--help", "--version", "-h", *NAMES}
        if args and args[0] not in own and self._is_for_live(args[0]):
            args = ["live", *args]
        return super().parse_args(ctx, args)

    def _is_for_live(self, word: str) -> bool:
        """Return True for an option, a process id, and the name of a process. A process whose name
        only contains the word counts only if no command has a similar spelling.
        """
        if word.startswith("-") or word.isdigit():
            return True
        if not is_name(word):
            return False
        found = find_processes(word)
        return found.is_exact or (bool(found) and not self._near(word))

    def _near(self, word: str) -> list[str]:
        """Return the command with the most similar spelling, in a list; [] for none."""
        return difflib.get_close_matches(word, NAMES, n=1)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command.

        Raises:
            UsageError: there is none; the hint names a command of similar spelling.
        """
        name = args[0]
        if name not in NAMES:
            near = self._near(name)
            raise UsageError(
                f"'{name}' is neither a command nor a process id",
                COMMANDS.get(name)
                or (
                    f"did you mean `flametap {near[0]}`?"
                    if near
                    else "`flametap --help` lists both"
                ),
            )
        return super().resolve_command(ctx, args)


def command_of(name: str) -> click.Command:
    """Import the command of a name in ``NAMES``."""
    module = importlib.import_module(f".commands.{name}", __package__)
    found: click.Command = getattr(module, name)
    return found


def print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Print the version and exit (callback of ``--version``)."""
    if value and not ctx.resilient_parsing:
        from ..version import version

        print_line(f"flametap {version()}")
        ctx.exit()


@click.group(
    cls=DefaultLive,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="`flametap PID` is short for `flametap live PID`. A program's name stands for its "
    "process: `flametap nginx`. "
    "`flametap COMMAND --help` lists the options of a command.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_version,
    help="Print the version and exit.",
)
@click.pass_context
def flametap(ctx: click.Context) -> None:
    """Attach to a running process and see where its time goes.

    No restart, no recompile: flametap samples every thread from inside the process. It shows a live
    flame graph in the browser, or writes files that other tools open.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(UsageError.exit_code)


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return the exit code.

    Exit codes: 0 done or saved; 1 internal or I/O error; 2 usage; 3 no such process; 4 no
    permission; 5 the process cannot be attached to; 6 no samples; 7 something of ours is left in
    the process, or a fault killed it while flametap was attached; 130 interrupted. With
    ``record -- CMD``: the exit code of CMD.
    """
    try:
        elsewhere = far.split(arguments)
        if elsewhere is not None:
            return far.run(*elsewhere)
        code = flametap.main(list(arguments), prog_name="flametap", standalone_mode=False)
    except FlametapError as error:
        if isinstance(error.__cause__, BrokenPipeError):
            return leave_closed_stdout()
        return fail(error.message, error.hint, error.exit_code)
    except click.NoSuchOption as error:
        return fail(*explain_option(error), UsageError.exit_code)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "flametap"
        message = error.format_message().replace("\n", " ").rstrip(".")
        return fail(message, f"see `{path} --help`", UsageError.exit_code)
    except click.ClickException as error:
        return fail(error.format_message(), "", 1)
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:
        return leave_closed_stdout()
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        what = " ".join(f"{type(error).__name__}: {error}".split())
        hint = f"{DEBUG_VARIABLE}=1 shows where; please report it"
        return fail(f"internal error: {what}", hint, 1)
    return code if isinstance(code, int) else 0


def explain_option(error: click.NoSuchOption) -> tuple[str, str]:
    """Return message and hint for an option that a command does not have. The hint says what to use
    instead, or which commands have the option.
    """
    option, command = error.option_name, error.ctx.info_name if error.ctx else None
    path = f"flametap {command}" if command in NAMES else "flametap"
    if entry := instead_of(option, command or ""):
        # `record python -c …`: the option may belong to a program.
        is_short = command == "record" and not option.startswith("--")
        message = f"{path} has no option {option}: {entry.says}"
        return message, entry.hint + (BEHIND_DASHES if is_short else "")
    having = [
        name
        for name in NAMES
        if any(option in (*param.opts, *param.secondary_opts) for param in command_of(name).params)
    ]
    if having:
        return f"{path} has no option {option}", f"these commands have it: {', '.join(having)}"
    hint = f"see `{path} --help`"
    if command == "record":
        hint += BEHIND_DASHES
    return error.format_message().replace("\n", " ").rstrip("."), hint


def leave_closed_stdout() -> int:
    """Return the exit code for a closed stdout (`flametap ps | head`), without a message."""
    give_up(sys.stdout)
    return 1


def fail(message: str, hint: str, exit_code: int) -> int:
    """Print an error on one line and its hint on the next. Return ``exit_code``."""
    try:
        print_message(f"flametap: {message}")
        if hint:
            print_message(f"hint: {hint}")
    except OSError:
        give_up(sys.stderr)  # the exit code still reports the error
    return exit_code
