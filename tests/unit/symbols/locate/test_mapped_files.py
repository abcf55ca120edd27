"""Loaded files among the mappings of a process."""

from __future__ import annotations

from flametap.linux.maps import parse_line
from flametap.symbols.locate.mapped_files import mapped_files

MAPS = """\
400000-401000 r--p 00000000 08:01 10 /usr/bin/python3
401000-402000 r-xp 00001000 08:01 10 /usr/bin/python3
402000-403000 rw-p 00002000 08:01 10 /usr/bin/python3
7000000-7001000 r--p 00000000 08:01 11 /lib/a.so
7001000-7002000 r-xp 00001000 08:01 11 /lib/a.so
7002000-7003000 r-xp 00002000 08:01 11 /lib/a.so
7010000-7011000 r--p 00000000 08:01 11 /lib/a.so
7011000-7012000 r-xp 00001000 08:01 11 /lib/a.so
7020000-7021000 r--p 00000000 08:01 12 /data/file
7030000-7031000 r-xp 00005000 08:01 13 /lib/headless.so
7040000-7041000 r-xp 00000000 00:00 0
7050000-7051000 r-xp 00000000 08:01 14 /lib/whole.so (deleted)
"""


def test_each_loading_of_a_file_is_one() -> None:
    files = mapped_files(map(parse_line, MAPS.splitlines()))
    assert [(file.start, file.path) for file in files] == [
        (0x400000, "/usr/bin/python3"),
        (0x7000000, "/lib/a.so"),
        (0x7010000, "/lib/a.so"),
        (0x7050000, "/lib/whole.so"),
    ]
    assert files[0].key == ("08:01", 10, 0x400000)
    assert files[0].code.start == 0x401000
