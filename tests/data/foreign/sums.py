"""Add up what is in the files beside this one, without flametap: standard library only.

``python3 sums.py`` writes ``expected.json``: for each file and thread, the nanoseconds of each
stack, its functions joined by ";". Each format is read in the most literal way, sample by sample.
"""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Thread, stack, nanoseconds by the wall clock and, if they are known, by the CPU clock.
Rows = Iterator[tuple[str, list[str], float, Any]]


def firefox(profile: Any) -> Rows:
    shared = profile.get("shared", {})
    cpu_ns = {"µs": 1e3, "ns": 1}[
        profile["meta"].get("sampleUnits", {}).get("threadCPUDelta", "ns")
    ]
    for thread in profile["threads"]:
        samples = thread["samples"]
        times = samples.get("time")
        if times is None:
            times, now = [], 0
            for delta in samples["timeDeltas"]:
                now += delta
                times.append(now)
        times = [*times, times[-1] + profile["meta"]["interval"]]
        deltas = samples.get("threadCPUDelta")
        for i, stack in enumerate(samples["stack"]):
            wall = (times[i + 1] - times[i]) * 1e6
            is_last = i + 1 == len(samples["stack"])
            used = wall if deltas is None else 0 if is_last else min(deltas[i + 1] * cpu_ns, wall)
            yield thread["name"], _firefox_path(thread, shared, stack), wall, used


def _firefox_path(thread: Any, shared: Any, stack: int | None) -> list[str]:
    strings = thread.get("stringArray") or shared["stringArray"]
    stacks, frames, funcs = thread["stackTable"], thread["frameTable"], thread["funcTable"]
    found = []
    while stack is not None:
        func = frames["func"][stacks["frame"][stack]]
        name, resource = strings[funcs["name"][func]], funcs["resource"][func]
        if re.fullmatch("0x[0-9a-f]+", name) and resource >= 0:
            name = strings[thread["resourceTable"]["name"][resource]] + "+" + name
        found.append(name)
        stack = stacks["prefix"][stack]
    return found[::-1]


def cpuprofile(profile: Any, thread: str = "") -> Rows:
    nodes = {node["id"]: node for node in profile["nodes"]}
    parents = {child: node["id"] for node in nodes.values() for child in node.get("children", ())}
    parents |= {node["id"]: node["parent"] for node in nodes.values() if "parent" in node}

    def path(node: Any) -> list[str]:
        found = []
        while node is not None:
            call = nodes[node]["callFrame"]
            name, line = call["functionName"], call.get("lineNumber", -1) + 1
            if not name:
                file = call.get("url", "").split("/")[-1]
                name = f"(anonymous) {file}:{line}" if file and line else "(anonymous)"
            found.append(name)
            node = parents.get(node)
        return found[-2::-1]  # without the root

    deltas = profile["timeDeltas"]
    now, lasting = profile["startTime"], sum(deltas[1:]) / (len(deltas) - 1)
    times = []
    for delta in deltas:
        now += delta
        times.append(now)
    sampled = sorted(zip(times, profile["samples"], strict=True), key=lambda each: each[0])
    ends = [time for time, _ in sampled[1:]] + [sampled[-1][0] + lasting]
    for (time, node), end in zip(sampled, ends, strict=True):
        yield thread, path(node), (end - time) * 1e3, None


def in_pieces(trace: Any) -> Rows:
    profiles: Any = {}
    names = {}
    for event in trace["traceEvents"]:
        data = event.get("args", {}).get("data", {})
        if event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
        elif event["name"] == "Profile":
            new = {"startTime": data["startTime"], "nodes": [], "samples": [], "timeDeltas": []}
            profiles[event["pid"], event["id"]] = (event["pid"], event["tid"]), new
        elif event["name"] == "ProfileChunk":
            profile = profiles[event["pid"], event["id"]][1]
            profile["nodes"] += data.get("cpuProfile", {}).get("nodes", [])
            profile["samples"] += data.get("cpuProfile", {}).get("samples", [])
            profile["timeDeltas"] += data.get("timeDeltas", [])
    for thread, profile in profiles.values():
        yield from cpuprofile(profile, names[thread])


def slices(trace: Any) -> Rows:
    """Own time of each slice: what it lasts, less those right within it."""
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    threads: Any = defaultdict(list)
    stacks: Any = defaultdict(list)
    last: Any = defaultdict(float)
    for event in events:
        tid = event["tid"]
        if event["ph"] in "XBE":
            last[tid] = max(last[tid], event["ts"] + event.get("dur", 0))
    for event in events:
        tid = event["tid"]
        if event["ph"] == "X":
            threads[tid].append([event["ts"], event["ts"] + event["dur"], event["name"]])
        elif event["ph"] == "B":
            slice_ = [event["ts"], last[tid], event["name"]]
            threads[tid].append(slice_)
            stacks[tid].append(slice_)
        elif event["ph"] == "E":
            stacks[tid].pop()[1] = event["ts"]
    for tid, its in threads.items():
        its.sort(key=lambda each: (each[0], -each[1]))
        for i, (begin, end, name) in enumerate(its):
            around = [s for s in its[:i] if s[1] > begin]
            inside, at = 0, begin
            for b, e, _ in its[i + 1 :]:
                if at <= b < end:
                    inside, at = inside + e - b, e
            path = [re.sub(r" \(.*:\d+\)$", "", s) for _, _, s in [*around, (0, 0, name)]]
            yield names.get(tid, f"thread {tid}"), path, (end - begin - inside) * 1e3, None


def speedscope(file: Any) -> Rows:
    frames = [frame["name"] for frame in file["shared"]["frames"]]
    for profile in file["profiles"]:
        factor = {"seconds": 1e9}[profile["unit"]]
        for stack, weight in zip(profile["samples"], profile["weights"], strict=True):
            yield profile["name"], [frames[frame] for frame in stack], weight * factor, None


READERS = {
    "samply.json.gz": firefox,
    "tachyon.json.gz": firefox,
    "node.cpuprofile.gz": cpuprofile,
    "chromium-cpu.json.gz": in_pieces,
    "chromium-slices.json.gz": slices,
    "pyspy.trace.json.gz": slices,
    "pyspy.speedscope.json.gz": speedscope,
    "viztracer.json.gz": slices,
}


def main() -> None:
    found = {}
    for name, read in READERS.items():
        wall: Any = defaultdict(lambda: defaultdict(float))
        cpu: Any = defaultdict(lambda: defaultdict(float))
        data = json.loads(gzip.decompress((HERE / name).read_bytes()))
        for thread, path, weight, used in read(data):
            wall[thread][";".join(path)] += weight
            if used is not None:
                cpu[thread][";".join(path)] += used
        found[name] = {
            clock: {
                thread: {path: round(weight) for path, weight in sorted(stacks.items()) if weight}
                for thread, stacks in threads.items()
            }
            for clock, threads in (("wall", wall), ("cpu", cpu))
            if threads
        }
    text = json.dumps(found, indent=0, ensure_ascii=False).replace("\n", "")
    (HERE / "expected.json.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    main()
