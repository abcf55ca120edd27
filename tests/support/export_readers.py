"""Read the files of exports strictly, by what their formats say, and sum each thread's stacks."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from flametap.export.request import ExportRequest
from flametap.model import Split

# Name of the thread with its tid → stack, root first → nanoseconds.
Sums = dict[str, Counter[tuple[str, ...]]]

_RECORD = re.compile(
    r"(?P<name>\S.+?)\s+(?P<pid>[0-9]+/)?(?P<tid>[0-9]+)\s+"
    r"(?P<time>[0-9]+\.[0-9]{9}): +(?P<period>[0-9]+) (?P<event>\S+):"
)
_FRAME = re.compile(r"\t *[0-9a-f]+ (?P<symbol>.+) \((?P<module>[^\s()]+)\)")


def tree_sums(request: ExportRequest) -> Sums:
    """The same of the call tree."""
    tree = replace(request, selection=replace(request.selection, split=Split.THREAD)).tree()
    paths: list[tuple[str, ...]] = []
    found: Sums = defaultdict(Counter)
    columns = (each.tolist() for each in (tree.parent, tree.function, tree.self_ns))
    for parent, function, own in zip(*columns, strict=True):
        name = (tree.functions[function].name,) if function >= 0 else ()
        paths.append((*paths[parent], *name) if parent >= 0 else ())
        if own:
            found[paths[-1][0]][paths[-1][1:] or ("all",)] += own
    return dict(found)


def chrome_sums(data: bytes) -> Sums:
    """Of trace events: time counts for what is open."""
    document = json.loads(data, parse_float=Decimal)
    names: dict[tuple[int, int], str] = {}
    open_slices: dict[tuple[int, int], list[str]] = defaultdict(list)
    last_ns: dict[tuple[int, int], int] = {}
    found: Sums = defaultdict(Counter)
    for event in document["traceEvents"]:
        track = event["pid"], event["tid"]
        if event["ph"] == "M":
            if event["name"] == "thread_name":
                assert track not in names
                names[track] = event["args"]["name"]
            continue
        ns = 1000 * event["ts"]
        assert ns == int(ns) >= last_ns.get(track, 0), event
        stack = open_slices[track]
        if stack and ns > last_ns[track]:
            found[f"{names[track]} ({track[1]})"][tuple(stack)] += int(ns) - last_ns[track]
        last_ns[track] = int(ns)
        # speedscope must not take an end for that of a function that begins at this moment.
        assert ("args" in event) is (event["ph"] == "E")
        if event["ph"] == "B":
            stack.append(event["name"])
        else:
            assert event["ph"] == "E"
            assert stack.pop() == event["name"]
    assert not any(open_slices.values())
    return dict(found)


def perf_records(text: str) -> Iterable[tuple[re.Match[str], tuple[str, ...]]]:
    """The records of perf script, with their stacks, root first."""
    assert text.startswith("# ========\n")
    lines = [line for line in text.split("\n") if not line.startswith("#")]
    assert lines.pop() == ""
    for record in "\n".join(lines).split("\n\n"):
        if not record:
            continue
        head, *frames = record.removesuffix("\n").split("\n")
        matched = _RECORD.fullmatch(head)
        assert matched, head
        stack = []
        for line in frames:
            frame = _FRAME.fullmatch(line)
            assert frame, line
            assert not frame["symbol"].startswith("("), line
            assert "->" not in frame["symbol"], line
            stack.append(re.sub(r"\+0x[0-9a-f]+$", "", frame["symbol"]))
        assert stack
        yield matched, tuple(stack[::-1])


def perf_sums(data: bytes) -> Sums:
    """Of perf script."""
    found: Sums = defaultdict(Counter)
    for record, stack in perf_records(data.decode()):
        found[f"{record['name']} ({record['tid']})"][stack] += int(record["period"])
    return dict(found)


def perf_name(thread: str) -> str:
    """The name of a thread as perf script has it."""
    return re.sub(r" (?=[0-9]+ )", "_", thread)


def json_lines(data: bytes) -> dict[str, list[dict[str, Any]]]:
    """The objects of JSON Lines by type; each comes after those that it refers to."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in data.decode().removesuffix("\n").split("\n"):
        each = json.loads(line)
        assert found["header"] or each["type"] == "header"
        if each["type"] in ("function", "stack"):
            assert each["id"] == len(found[each["type"]])
        if each["type"] == "stack":
            assert all(0 <= number < len(found["function"]) for number in each["functions"])
        if each["type"] == "time":
            assert each["thread"] in [thread["id"] for thread in found["thread"]]
            assert 0 <= each["stack"] < len(found["stack"])
        found[each["type"]].append(each)
    return found


def json_lines_sums(data: bytes, value: str) -> Sums:
    """Of JSON Lines, by one of the values of its rows."""
    lines = json_lines(data)
    functions = [each["name"] for each in lines["function"]]
    threads = {each["id"]: f"{each['name']} ({each['tid']})" for each in lines["thread"]}
    found: Sums = defaultdict(Counter)
    for each in lines["time"]:
        if each[value]:
            numbers = lines["stack"][each["stack"]]["functions"]
            found[threads[each["thread"]]][tuple(functions[i] for i in numbers)] += each[value]
    return dict(found)


def cpuprofile_sums(document: dict[str, Any]) -> Counter[tuple[str, ...]]:
    """The microseconds of each stack of a CPU profile: a sample lasts until the next one."""
    paths: dict[int, tuple[str, ...]] = {}
    callers: dict[int, int] = {}
    nodes = {each["id"]: each for each in document["nodes"]}
    assert len(nodes) == len(document["nodes"])
    for number, node in nodes.items():
        above = paths.get(callers.get(number, 0), ())
        name = node["callFrame"]["functionName"]
        paths[number] = () if number == document["nodes"][0]["id"] else (*above, name)
        for child in node.get("children", ()):
            assert child > number
            assert callers.setdefault(child, number) == number
    found: Counter[tuple[str, ...]] = Counter()
    for sample, us in zip(document["samples"], document["timeDeltas"][1:], strict=False):
        found[paths[sample]] += us
    found.pop(("(idle)",), None)
    return +found
