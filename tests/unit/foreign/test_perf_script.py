"""``perf script``: heads in all variants, frames, events; real files against stackcollapse-perf."""

from __future__ import annotations

from pathlib import Path

import pytest

from flametap.foreign.opening import open_file
from flametap.foreign.perf_lines import Head, head_of, module_of
from flametap.foreign.perf_script import matches
from flametap.model import Clock, FrameKind
from foreign_files import error_of, exported, random_recording, stacks
from foreign_text import clock_of, frames, kept, read, thread_stacks

SAMPLE = """c prog  7/8 [001] 100.000030:         10 cpu-clock:u:
\t           f8011 inner+0x1 (inlined)
\t           f8012 outer(int, char)+0x5 (/usr/lib/lib a.so (deleted))
\t    7f0000001000 [unknown] (/usr/lib/libc.so.6)
\t    7f0000002000 [unknown] ([unknown])

"""


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("dd 29776 666.771979:   10101010 cpu-clock: ", ("dd", 0, 29776, 666771979000, 10101010)),
        ("java 12 [002] 5.708352: 235 cpu-clock:", ("java", 0, 12, 5708352000, 235)),
        ("V8 Work 2 36/25607 [000] 4.5: 1 cycles:", ("V8 Work 2", 36, 25607, 4500000000, 1)),
        ("swapper     0 [000]  1333.768770: cycles:", ("swapper", 0, 0, 1333768770000, None)),
        ("c prog  5 K     15.905612:          1 cycles: ", ("c prog", 0, 5, 15905612000, 1)),
        (" 5562/5563  15.905612: cycles: ", ("", 5562, 5563, 15905612000, None)),
        ("15.905612: cycles: ", ("", 0, 0, 15905612000, None)),
        ("Thread 1 99 15.9: 7 cycles:", ("Thread 1", 0, 99, 15900000000, 7)),
        ("java  3244 cycles: ", ("java", 0, 3244, None, None)),
        ("c prog  6032   1010 cycles: ", ("c prog", 0, 6032, None, 1010)),
        ("         208 cycles: ", ("", 0, 0, None, 208)),
        (":-1    -1 [000] 5.000000: 3 cycles: ", (":-1", 0, 0, 5000000000, 3)),
    ],
)
def test_heads(line: str, wanted: tuple[object, ...]) -> None:
    found = head_of(line)
    assert found is not None
    assert found[:5] == wanted
    assert found.event.startswith(("c", "t"))


def test_what_is_behind_a_head() -> None:
    assert head_of("a 1 2.5: sched:sched_switch: prev=a ==> b") == Head(
        "a", 0, 1, 2_500_000_000, None, "sched:sched_switch", "prev=a ==> b"
    )
    assert head_of("c prog  5562 ") == Head("c prog", 0, 5562)
    assert head_of("\tffff do_it (x)") is None
    assert head_of("  file.c:12") is None


def test_a_clock_has_moments() -> None:
    later = SAMPLE.replace("100.000030", "100.000100")
    recording = read(f"# cmdline : perf record\n#\n{SAMPLE}{later}")
    status = recording.status()
    assert (status.source, status.clocks, status.weights) == ("perf script", ["cpu"], "")
    assert (status.samples, status.has_moments, status.duration_ns) == (2, True, 70_010)
    assert (status.pid, status.notes) == (7, [])
    (info,) = recording.profile.thread_infos()
    assert (info.name, info.tid, info.cpu_ns) == ("c prog", 8, 20)
    assert stacks(recording, Clock.CPU) == {("[unknown]", "[libc.so.6]", "outer", "inner"): 20}
    whole = [(f.function.name, f.function.module, f.function.kind) for f in frames(recording)]
    assert whole == [
        ("[unknown]", "", FrameKind.UNKNOWN),
        ("[libc.so.6]", "libc.so.6", FrameKind.UNKNOWN),
        ("outer", "lib a.so", FrameKind.NATIVE),
        ("inner", "lib a.so", FrameKind.INLINED),
    ]


def test_other_events_count_what_they_say() -> None:
    text = SAMPLE.replace("cpu-clock:u", "cycles:u")
    status = read(text * 3).status()
    assert (status.weights, status.samples, status.has_moments) == ("cycles", 3, False)
    assert sum(stacks(read(text * 3)).values()) == 30
    without = read(text.replace("        10 ", ""))
    assert (without.status().weights, sum(stacks(without).values())) == ("samples", 1)


def test_the_first_event_is_taken() -> None:
    other = SAMPLE.replace("cpu-clock:u", "page-faults")
    recording = read(SAMPLE + other + other + SAMPLE)
    assert sum(stacks(recording, Clock.CPU).values()) == 20
    assert recording.status().notes == ["only cpu-clock:u; 2 samples of page-faults left out"]


def test_samples_without_stacks_or_without_heads() -> None:
    assert thread_stacks(read("a 1 2.5: cycles: \n\na 1 2.6: cycles: \nb 2 2.7: cycles:")) == {
        ("a",): 2,
        ("b",): 1,
    }
    one_line = "   a 1 2.5: 3 cycles:  ffffffff8225 do_it+0x46 ([kernel.kallsyms])\n"
    assert thread_stacks(read(one_line * 2)) == {("a", "do_it"): 6}
    only_stacks = "\n\tffffffff8177 inner\n\tffffffff8178 outer\n\n" * 2
    assert thread_stacks(read(only_stacks)) == {("", "outer", "inner"): 2}
    no_indent = "java 9 cycles:\nffffffff8103 write ([kernel.kallsyms])\n"
    no_indent += "7f12 Lfoo;::bar (/tmp/perf-9.map)\n\n"
    assert thread_stacks(read(no_indent)) == {("java", "foo.bar", "write"): 1}
    assert stacks(read("15.9: cycles: \n\tffffffff8177\n\t    7f00001\n\n")) == {
        ("0x7f00001", "0xffffffff8177"): 1
    }


def test_lines_of_source_files() -> None:
    text = "a 1 2.5: cycles: \n\t10 f+0x1\n  f.h:41 (inlined)\n\t10 g+0x2 (/bin/a)\n  a.c:5\n"
    text += "\t11 h (/bin/a)\n  ??:0\n\n"
    recording = read(text)
    assert thread_stacks(recording) == {("a", "h", "g", "f"): 1}
    assert {(f.function.name, f.file, f.line) for f in frames(recording)} == {
        ("h", "", 0),
        ("g", "a.c", 5),
        ("f", "f.h", 41),
    }


def test_names_of_interpreted_functions() -> None:
    text = (
        "java 9 cycles:\n\t7f0001 Ljava/io/A;.<init>(Ljava/lang/String (/tmp/perf-9.map)\n"
        "\t2 La/B;::c->La/D;::e (/tmp/perf-9.map)\n"
        "\t3 LazyCompile:*go /x/y.js:7:3 (/tmp/perf-9.map)\n"
        "\t4 py::run:/x/z.py (/tmp/perf-9.map)\n\t5 a->b (/bin/a)\n\n"
    )
    found = [(f.function.name, f.function.kind, f.file, f.line) for f in frames(read(text))]
    assert found == [
        ("a->b", FrameKind.NATIVE, "", 0),
        ("run", FrameKind.PYTHON, "/x/z.py", 0),
        ("go", FrameKind.JAVASCRIPT, "/x/y.js", 7),
        ("a.B.c", FrameKind.JAVA, "", 0),
        ("a.D.e", FrameKind.JAVA, "", 0),
        ("java.io.A.<init>", FrameKind.JAVA, "", 0),
    ]


@pytest.mark.parametrize(
    ("place", "module"),
    [
        ("[kernel.kallsyms]", "[kernel]"),
        ("[nf_conntrack]", "[kernel]"),
        ("/lib/modules/4.1/build/vmlinux", "[kernel]"),
        ("/lib/modules/6.1/kernel/net/x.ko.xz", "[kernel]"),
        ("[vdso]", "[vdso]"),
        ("/tmp/perf-12.map", "[jit]"),
        ("/root/.debug/jit/x/jitted-12-3.so", "[jit]"),
        ("//anon", "[jit]"),
        ("[unknown]", ""),
        ("/usr/lib/libc.so.6", "libc.so.6"),
    ],
)
def test_modules(place: str, module: str) -> None:
    assert module_of(place) == module


def test_records_and_lost_samples() -> None:
    other = (
        "a 1 [000] 2.5: PERF_RECORD_COMM exec: a:1/1\n"
        "a 1 [000] 2.5: PERF_RECORD_LOST lost 12\nno such line\n"
    )
    recording = read(other + SAMPLE * 2 + other)
    assert sum(stacks(recording, Clock.CPU).values()) == 20
    assert recording.status().notes == [
        "perf lost 24 samples",
        "2 lines of no known kind left out, the first is line 3",
    ]


@pytest.mark.parametrize("name", ["perf", "perf-dwarf", "perf-events"])
def test_stacks_are_those_of_stackcollapse(name: str) -> None:
    """``stackcollapse-perf.pl --all`` has made the other file. It puts the comm first."""
    ours, theirs = thread_stacks(read(kept(f"{name}.script"))), read(kept(f"{name}.collapsed"))
    assert {(thread.replace(" ", "_"), *path): n for (thread, *path), n in ours.items()} == {
        path: weight
        for (_, *path_), weight in thread_stacks(theirs).items()
        for path in [tuple(path_)]
    }


def test_lines_make_no_other_stacks() -> None:
    assert thread_stacks(read(kept("perf-lines.script"))) == thread_stacks(
        read(kept("perf-dwarf.script"))
    )
    assert ("vfprintf-internal.c", 0) not in {
        (f.file, f.line) for f in frames(read(kept("perf-lines.script"))) if f.file
    }


@pytest.mark.parametrize("seed", range(2))
def test_our_own_file_has_the_same_tree(tmp_path: Path, seed: int) -> None:
    recording = random_recording(seed)
    for clock in Clock:
        found = open_file(str(exported(recording, tmp_path, "x", "perf-script", clock)))
        assert (clock_of(found), found.status().has_moments) == (clock, True)
        assert stacks(found, Clock.CPU) == stacks(recording, clock), "the only clock is all clocks"


def test_moments_are_left_out_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flametap.foreign.perf_script._MAX_MOMENTS", 5)
    recording = read(SAMPLE * 9)
    assert sum(stacks(recording, Clock.CPU).values()) == 90
    assert not recording.status().has_moments
    assert recording.status().samples == 9
    assert recording.status().notes == ["more than 5 samples: their moments are left out"]


@pytest.mark.parametrize(
    ("text", "is_perf"),
    [
        (SAMPLE, True),
        ("# header\n" + SAMPLE, True),
        ("\n\tffffffff8177 inner\n\n", True),
        ("     12 foo\n      7 bar\n", False),
        ("main;work 12\n", False),
        ("thread (30194): MainThread;f (t.py:14) 5\n", False),
        ("Nov 30 08:00:01 host kernel: message 12\n", False),
        ("Chapter 1\nIt was a dark night.\n", False),
        ("", False),
    ],
)
def test_what_is_recognised(text: str, is_perf: bool) -> None:
    assert matches(text.encode()) is is_perf


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SAMPLE.replace(" 10 c", f" {10**18 - 1} c") * 3, "too large"),
        (SAMPLE + SAMPLE.replace("100.000030", "9999999999.0"), "line 7: its time makes no sense"),
        ("# only\n" + SAMPLE.replace(" 10 c", " 0 c").replace("cpu-clock", "x"), ""),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, text: str, why: str) -> None:
    if why:
        assert why in error_of(tmp_path, text)
    else:
        assert read(text).status().samples == 1


def test_a_deep_sample_keeps_its_outermost_frames() -> None:
    text = "a 1 2.5: cycles:\n" + "\tffff inner (x)\n" * 200_000 + "\tfffe outer (x)\n\n"
    recording = read(text)
    assert "deeper than 2,048" in recording.status().notes[0]
    (path,) = stacks(recording)
    assert path[0] == "outer"
