"""Parse the values of options: each error is one line that says what would be right."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

import click

from ..capture.limits import check_budget_ppm, check_rate_hz
from ..errors import UsageError

_Value = TypeVar("_Value")
_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_SECONDS = {"ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_pid(text: str) -> int:
    """Parse a process id. Does not check that the process exists.

    Raises:
        UsageError: not a positive decimal number.
    """
    # More digits than any process id has (the kernel's limit is 2^22).
    if not re.fullmatch(r"[0-9]{1,10}", text) or int(text) == 0:
        raise UsageError(f"'{text}' is not a process id", "`flametap ps` lists the processes")
    return int(text)


def parse_duration_s(text: str) -> float:
    """Parse a duration: seconds, or a number with the unit ms, s, m or h. Return seconds.

    Raises:
        UsageError: not a duration, or zero.
    """
    if text == "unlimited":  # py-spy's default
        raise UsageError(f"'{text}' is not a duration", "leave -d out: it then lasts until Ctrl-C")
    match = re.fullmatch(_NUMBER + r"\s*(ms|s|m|h|)", text.strip())
    duration_s = float(match[1]) * _SECONDS[match[2]] if match else 0.0
    if duration_s <= 0:
        raise UsageError(f"'{text}' is not a duration", "give seconds, or 500ms, 30s, 2m, 1h")
    return duration_s


def parse_rate_hz(text: str) -> float:
    """Parse a rate (``100``, ``1k``, ``250hz``). Return Hz.

    Raises:
        UsageError: not a rate, or outside of RATE_MIN_HZ to RATE_MAX_HZ.
    """
    match = re.fullmatch(_NUMBER + r"\s*(k?)(?:hz)?", text.strip(), re.IGNORECASE)
    rate_hz = float(match[1]) * (1000 if match[2] else 1) if match else 0.0
    return check_rate_hz(rate_hz, text)


def parse_server(text: str) -> str:
    """Check that a text is the URL of a web server, and return it unchanged.

    Raises:
        UsageError: it is not.
    """
    if not re.match(r"https?://[^/\s]+", text):
        raise UsageError(f"'{text}' is not a server's address", "give a URL, as in https://HOST/")
    return text


def parse_budget_ppm(text: str) -> int:
    """Parse a budget in per cent (``2``, ``0.5%``). Return millionths of one core; 0 for no limit.

    Raises:
        UsageError: not a number, or outside of BUDGET_MIN_PPM to BUDGET_MAX_PPM.
    """
    match = re.fullmatch(_NUMBER + r"\s*%?", text.strip())
    percent = float(match[1]) if match else -1.0
    return check_budget_ppm(percent, text)


def parse_percent(text: str) -> float:
    """Parse a number of per cent: ``5``, ``0.5%``. Return per cent.

    Raises:
        UsageError: not a number from 0 to 100.
    """
    match = re.fullmatch(_NUMBER + r"\s*%?", text.strip())
    percent = float(match[1]) if match else -1.0
    if not 0 <= percent <= 100:
        raise UsageError(f"'{text}' is no number of per cent", "give one from 0 to 100: 5%")
    return percent


def parse_range(text: str) -> tuple[float, float | None]:
    """Parse a part of a recording: ``2-5``, ``10-`` or ``-5``. Return seconds; None for its end.

    Raises:
        UsageError: not a range, or one that ends before its start.
    """
    match = re.fullmatch(rf"{_NUMBER}?-{_NUMBER}?", text.strip())
    start_s = float(match[1] or 0) if match else 0.0
    end_s = float(match[2]) if match and match[2] else None
    is_whole = match is not None and not match[1] and not match[2]
    if match is None or is_whole or (end_s is not None and end_s <= start_s):
        raise UsageError(f"'{text}' is not a range", "give START-END in seconds: 2-5, 10- or -5")
    return start_s, end_s


def parse_regex(text: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises:
        UsageError: it is malformed.
    """
    try:
        return re.compile(text)
    except re.error as error:
        raise UsageError(
            f"'{text}' is not a regular expression: {error}", "put a \\ before . ( [ * + ? ^ $ |"
        ) from None


def by(parse: Callable[[str], _Value]) -> Callable[..., _Value | None]:
    """Return a click callback that parses an option's text, if the option was given."""

    def callback(_: click.Context, __: click.Parameter, text: str | None) -> _Value | None:
        return None if text is None else parse(text)

    return callback
