"""Write a short summary in Markdown, for a pull request, an issue or a chat.

It has the title, what is counted, the heaviest functions by their own time and with what they call,
the heaviest stack, and what was recorded, with losses and doubts. Weights are time of the chosen
clock, or numbers of stacks. Threads are not separated.

No name becomes Markdown or HTML, a mention, or a link. A name is a code span; one with a character
that ends a code span or a cell of a table is in a ``code`` element, its punctuation in numbers. The
words of notes are plain if nothing can be made of them, else code. Characters that do not show are
spaces.

Source: the specification of GitHub Flavored Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO

from ..model import Function
from ..recording.figures import counted, short_time
from ..tree.calltree import CallTree
from ..tree.function_sums import top_functions
from ..tree.labels import label
from ..tree.tree_view import TreeIndex
from ..version import version
from .folded import ALL
from .request import ExportRequest

ROWS = 15
_MOST_CHARACTERS = 100  # of a name
_MOST_FRAMES = 40  # of the heaviest stack; more are left out in its middle
# Words that mean nothing in Markdown: letters, digits and some punctuation. Something would be made
# of "www.example.com", of "1." and "-" at the begin of a line, and on GitHub of hashes of commits.
_PLAIN = re.compile(
    r"(?!.*www\.)(?!\d+[.)]$)(?![-+]+$)(?!GH-)(?![0-9a-f]{7,40}$)"
    r"(?:[^\W_]|[-.,;%()'’“”…–+/]|(?<=\d):(?=\d))*:?"
)
_ENDS_CODE = re.compile(r"[`|\\]")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")


def write(request: ExportRequest, file: BinaryIO) -> None:
    """Write a summary of a profile."""
    for line in _lines(request.without_roots()):
        file.write(f"{line}\n".encode("utf-8", "replace"))


def _lines(request: ExportRequest) -> Iterator[str]:
    tree = request.tree()
    total = int(tree.total_ns[0])
    yield f"# {code(request.title)}"
    yield ""
    amount = f"{total:,} {prose(request.counted)}" if request.counted else short_time(total)
    during = f" in {short_time(request.duration_ns)}" if request.status.has_moments else ""
    yield f"{prose(request.what)}: **{amount}**{during}."
    yield ""
    yield from (f"- {prose(note)}" for note in request.notes)
    if total:
        index = TreeIndex(tree)
        yield from _table(request, index, by_self=True)
        yield from _table(request, index, by_self=False)
        yield from _heaviest_stack(request, tree)
    yield ""
    yield f"Made by flametap {prose(version())}."


def _table(request: ExportRequest, index: TreeIndex, *, by_self: bool) -> Iterator[str]:
    """Yield the table of the heaviest functions."""
    tree = index.tree
    total = int(tree.total_ns[0])
    found = top_functions(index, 0, ROWS, by_self=by_self)
    first, second = ("own", "total") if by_self else ("total", "own")
    columns = (found.self_ns.tolist(), found.total_ns.tolist())
    more = found.function_count - len(found.function)
    yield from ("", f"## Heaviest functions by {first} {_unit(request)}", "")
    yield f"| {first} | | {second} | function | module |"
    yield "|--:|--:|--:|---|---|"
    for number, own, with_callees in zip(found.function.tolist(), *columns, strict=True):
        function = tree.functions[number]
        weights = (own, with_callees) if by_self else (with_callees, own)
        if not weights[0]:
            return
        share, amount, other = (
            f"{weights[0] / total:.1%}",
            _amount(request, weights[0]),
            f"{weights[1] / total:.1%}",
        )
        module = code(function.module) if function.module else ""
        yield f"| {share} | {amount} | {other} | {code(function.name)} | {module} |"
    if more:
        yield from ("", f"… and {counted(more, 'function')} more.")


def _heaviest_stack(request: ExportRequest, tree: CallTree) -> Iterator[str]:
    """Yield the stack with the most weight of its own, root first."""
    node = int(tree.self_ns.argmax())
    own = int(tree.self_ns[node])
    functions: list[Function] = []
    while node > 0:
        functions.append(tree.functions[int(tree.function[node])])
        node = int(tree.parent[node])
    names = [
        shown(label(each, full_filenames=request.full_filenames)) for each in reversed(functions)
    ] or [ALL]
    share = own / int(tree.total_ns[0])
    yield from ("", f"## Heaviest stack: {share:.1%}, {_amount(request, own)}", "")
    yield from _block(_shortened(names))


def _shortened(names: Sequence[str]) -> Sequence[str]:
    if len(names) <= _MOST_FRAMES:
        return names
    half = _MOST_FRAMES // 2
    return [*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:]]


def _block(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines as a block of code that none of them ends."""
    kept = list(lines)
    longest = max((len(each) for line in kept for each in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    yield from (f"{fence}text", *kept, fence)


def _unit(request: ExportRequest) -> str:
    return request.counted or "time"


def _amount(request: ExportRequest, weight: int) -> str:
    return f"{weight:,}" if request.counted else short_time(weight)


def shown(name: str) -> str:
    """Return a name of visible characters, of bounded length."""
    name = "".join(char if char.isprintable() else " " for char in name).strip() or "?"
    return name if len(name) <= _MOST_CHARACTERS else f"{name[: _MOST_CHARACTERS - 1]}…"


def code(name: str) -> str:
    """Return a name as code, for a line or a cell of a table."""
    name = shown(name)
    if _ENDS_CODE.search(name) is None:
        return f"`{name}`"
    return f"<code>{_PUNCTUATION.sub(lambda found: f'&#{ord(found[0])};', name)}</code>"


def prose(words: str) -> str:
    """Return a sentence in which no word means anything in Markdown."""
    return " ".join(
        word if _PLAIN.fullmatch(word) else code(word)
        for word in "".join(char if char.isprintable() else " " for char in words).split()
    )
