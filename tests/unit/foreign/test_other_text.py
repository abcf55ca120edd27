"""Text that is no profile, and profiles of few parts that look like it."""

from __future__ import annotations

import pytest

from flametap.foreign import folded, perf_script
from foreign_text import TEXTS, kept

NO_PROFILES = {
    "vmstat": "nr_free_pages 1843002\nnr_zone_inactive_anon 48\nnr_zone_active_anon 40196\n",
    "a remark": "Copyright 2024",
    "a remark below a name": "Copyright 2024\nfacade 12\n",
    "CSV": "name, 5\nother name, 6\n",
    "access log": '127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a HTTP/1.0" 200\n' * 3,
    "access log with browsers": '1.2.3.4 "GET /a" "Mozilla/5.0 (X11; Linux x86_64)" 200\n' * 3,
    "nm": "                 U abort\n0000000000004010 B __bss_start\n0000000000001139 T main\n",
    "nm of an archive": "\na.o:\n0000000000000000 T f\n                 U g\n",
    "kallsyms": "ffffffff81000000 T _stext\nffffffff81000040 T startup_64\n" * 9,
    "log": "nginx 1234 error: foo\nnginx 1234 error: abad1dea\n",
    "log with numbers below": "nginx 1234 error:\n\t12 requests\n\t100000 bytes\n",
    "kernel log": "Jan  5 kernel: foo\nJan  5 kernel: decade 7\n",
    "git log": "3feb9984 Fix bug 12\n3feb9985 Name a clock\n3feb9986 Fix 12 things: foo\n",
    "maps": "7f00-7f80 rw-p 00000000 00:00 0\n7f90-7fa0 rw-p 00000000 00:00 0\n",
    "du": "1234567\tsrc\n12\tsrc/a\n",
    "uniq -c": "      7 foo\n 123456 deadbeef\n",
    "od": "0000000 457f 464c 0102 0001\n0000020 0003 003e 0001 0000\n",
    "indented": "  made in 2.5: a: foo\n  and more\n  and more\n",
}
PERF_SCRIPTS = {
    "one line each": "a 12 2.500000: cycles: ffffffff81 do_it+0x1 ([kernel.kallsyms])\n",
    "one line each, with periods": "a 12/13 [001] 2.5: 10 cpu-clock: 7f01 f+0x1 (/bin/a)\n",
    "one line each, without times": "a 12 cycles:  ffffffff8225 do_it+0x46 ([kernel.kallsyms])\n",
    "heads only": "a 1 2.5: cycles: \n",
    "without times": "java  3244 cycles: \n\tffffffff8103 write ([kernel.kallsyms])\n\n",
    "without events": "a  3244 5.708352: \n\tffffffff8103 write (/bin/a)\n\n",
    "names and numbers only": "c prog  5562 \n\tffffffff8103 write (/bin/a)\n\n",
    "periods only": "        208 cycles: \n\t    7f0001234567 write (/bin/a)\n\n",
    "not indented": "java 9 cycles:\nffffffff8103 write ([kernel.kallsyms])\n7f12 f (a)\n\n",
    "without heads": "\n\tffffffff8177 inner\n\tffffffff8178 outer\n\n",
    "a tracepoint": "a 1 [000] 2.5: sched:sched_switch: prev=a ==> b\n",
}


@pytest.mark.parametrize("text", NO_PROFILES.values(), ids=NO_PROFILES)
def test_other_text_is_no_profile(text: str) -> None:
    assert not folded.matches(text.encode())
    assert not perf_script.matches(text.encode())


@pytest.mark.parametrize("text", PERF_SCRIPTS.values(), ids=PERF_SCRIPTS)
def test_few_parts_of_perf_script_are_enough(text: str) -> None:
    assert perf_script.matches(text.encode())
    assert perf_script.matches(text.encode() * 20)


@pytest.mark.parametrize("name", [*TEXTS, "perf.collapsed", "perf-events.collapsed"])
def test_files_of_others_are_recognised(name: str) -> None:
    head = kept(name)[: 1 << 16]
    assert perf_script.matches(head) is name.endswith(".script")
    assert folded.matches(head) is not name.endswith(".script")
