"""Read from each profiler's output how CPU time is divided between some functions."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from flametap.linux.syscalls import KERNEL, syscall_name

SCRIPT_TIMEOUT_S = 120.0
_CALLS = frozenset(map(syscall_name, (*range(1024), KERNEL)))
UNATTRIBUTED = "[unattributed]"
KERNEL_FROM = 1 << 63


def of_output(
    peer: str, output: Path, patterns: Mapping[str, str], perf_map: Path | None = None
) -> dict[str, float]:
    """Return each function's share of the weight of all of them, 0 to 1.

    Args:
        peer: name of the profiler that wrote ``output``.
        patterns: function → regular expression for its frames.
        perf_map: names of code without a file, if the target writes them (/tmp/perf-PID.map).

    Raises:
        RuntimeError: none of the functions was seen.
    """
    stacks: Iterable[tuple[str, float]]
    stacks = _perf_stacks(output) if peer.startswith("perf") else _folded_stacks(output)
    if perf_map is not None and perf_map.exists():
        stacks = _named(stacks, perf_map)
    weights = dict.fromkeys(patterns, 0.0)
    compiled = {name: re.compile(pattern) for name, pattern in patterns.items()}
    for stack, weight in stacks:
        for name, pattern in compiled.items():
            if pattern.search(stack):
                weights[name] += weight
                break
    total = sum(weights.values())
    if not total:
        raise RuntimeError("none of the functions was seen")
    return {name: weight / total for name, weight in weights.items()}


def of_leaves(peer: str, output: Path) -> tuple[dict[str, float], float]:
    """Return the share of the total weight of each leaf function, 0 to 1, and the total weight, in
    microseconds, or in samples for perf (recorded without stacks).

    Raises:
        RuntimeError: the output is empty.
    """
    weights: Counter[str] = Counter()
    if peer.startswith("perf"):
        for line in _perf_lines(output):
            weights[line.strip().partition(" ")[2]] += 1
    else:
        for stack, weight in _folded_stacks(output):
            weights[stack.rpartition(";")[2]] += round(weight)
    total = weights.total()
    if not total:
        raise RuntimeError("nothing was seen")
    return {name: weight / total for name, weight in weights.items()}, total


def in_system(by_leaf: Mapping[str, float]) -> float:
    """Return the share of flametap's stacks that end in a system call, 0 to 1.

    Args:
        by_leaf: result of ``of_leaves`` for its output.
    """
    with_stack = sum(by_leaf.values()) - by_leaf.get(UNATTRIBUTED, 0.0)
    in_calls = sum(share for leaf, share in by_leaf.items() if _is_call(leaf))
    return in_calls / with_stack if with_stack else 0.0


def _is_call(leaf: str) -> bool:
    match = re.fullmatch(r"\[(\w+)\]", leaf)
    return match is not None and match[1] in _CALLS


def in_kernel_by_perf(output: Path, pid: int) -> tuple[float, int]:
    """Return the share of perf's samples of a process in the kernel, 0 to 1, and the number of
    samples; recorded without stacks.

    Raises:
        RuntimeError: there are none.
    """
    samples = [line.split() for line in _perf_lines(output, "pid,ip")]
    own = [int(words[1], 16) for words in samples if len(words) > 1 and words[0] == str(pid)]
    if not own:
        raise RuntimeError("perf has seen nothing")
    return sum(address >= KERNEL_FROM for address in own) / len(own), len(own)


def _folded_stacks(output: Path) -> Iterator[tuple[str, float]]:
    """Parse ``frame;frame;frame WEIGHT`` lines: flametap, py-spy raw, austin."""
    with output.open(errors="replace") as file:
        for line in file:
            stack, _, weight = line.rstrip().rpartition(" ")
            if stack and weight.isdigit():
                yield stack, float(weight)


def _perf_stacks(output: Path) -> Iterator[tuple[str, float]]:
    """Read the samples of perf.data, each with weight 1."""
    for sample in _blocks(_perf_lines(output)):
        yield ";".join(sample), 1.0


def _perf_lines(output: Path, fields: str = "ip,sym") -> list[str]:
    """Return lines ``ADDRESS FUNCTION``; a stack has one per frame and an empty line at its end."""
    command = ["perf", "script", "--no-inline", "-F", fields, "-i", str(output)]
    ran = subprocess.run(
        command, capture_output=True, timeout=SCRIPT_TIMEOUT_S, check=False, errors="replace"
    )
    return ran.stdout.splitlines()


def _named(stacks: Iterable[tuple[str, float]], perf_map: Path) -> Iterator[tuple[str, float]]:
    """Replace ``[jit] 0xADDRESS`` by names. Source: lines ``START SIZE NAME``, hexadecimal, of
    perf's jit-interface.txt."""
    parts = [line.split(maxsplit=2) for line in perf_map.read_text(errors="replace").splitlines()]
    code = sorted((int(p[0], 16), int(p[1], 16), p[2]) for p in parts if len(p) == 3)
    starts = [start for start, _, _ in code]

    def name(match: re.Match[str]) -> str:
        address = int(match.group(1), 16)
        start, size, found = code[max(0, bisect_right(starts, address) - 1)]
        return found if start <= address < start + size else match.group()

    for stack, weight in stacks:
        yield re.sub(r"\[jit\] 0x([0-9a-f]+)", name, stack), weight


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Split lines at empty lines."""
    block: list[str] = []
    for line in lines:
        if line.strip():
            block.append(line.strip())
        elif block:
            yield block
            block = []
    if block:
        yield block
