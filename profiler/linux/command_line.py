"""What a command line runs: the program, or the script of an interpreter. Pure."""

from __future__ import annotations

import re

_INTERPRETER = re.compile(
    r"(?P<name>python|pypy|node|nodejs|deno|bun|ruby|perl|php|java|dotnet|mono|bash|sh|dash|zsh)"
    r"[\d.]*[dt]?"
)
# Options that take the next word, by interpreter. After -c or -e, that is the program itself.
_WITH_VALUE = {
    "python": ("-X", "-W"),
    "node": ("-r", "--require", "--import", "--loader"),
    "ruby": ("-I", "-r", "-C"),
    "perl": ("-I",),
    "php": ("-d", "-c"),
    "java": ("-cp", "-classpath", "--class-path", "-p", "--module-path", "--add-modules"),
}
_INLINE = {
    "python": ("-c",),
    "node": ("-e", "-p"),
    "ruby": ("-e",),
    "perl": ("-e", "-E"),
    "php": ("-r",),
    **dict.fromkeys(("bash", "sh", "dash", "zsh"), ("-c",)),
}
_SAME = {"pypy": "python", "nodejs": "node", "bun": "node", "deno": "node"}


_OWN_FUNCTIONS = ("python", "pypy", "node", "nodejs", "ruby", "java", "dotnet")


def has_functions_of_its_own(name: str) -> bool:
    """Return whether a program of this name runs others, whose functions are not in its file."""
    interpreter = _INTERPRETER.fullmatch(name)
    return interpreter is not None and interpreter["name"] in _OWN_FUNCTIONS


def program_name(command: str) -> str:
    """Return the name of what runs, without folders: ``shop.py`` for ``python3 -u /srv/shop.py``.

    Args:
        command: the words of a command line, separated by spaces.
    """
    words = command.split()
    if not words:
        return ""
    first = _last_part(words[0]).rstrip(":")  # as in "nginx: worker process"
    interpreter = _INTERPRETER.fullmatch(first)
    if not interpreter:
        return first
    kind = _SAME.get(interpreter["name"], interpreter["name"])
    rest = iter(words[1:])
    for word in rest:
        if word in _INLINE.get(kind, ()):
            return first
        if word in ("-m", "--module", "-jar"):  # a module, a jar file
            return _last_part(next(rest, first)) or first
        if word in _WITH_VALUE.get(kind, ()):
            next(rest, "")
        elif not word.startswith("-"):
            name = _last_part(word)
            return (name.rpartition(".")[2] if kind == "java" else name) or first
    return first


def _last_part(path: str) -> str:
    return path.rpartition("/")[2]
