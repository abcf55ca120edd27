"""Make the recordings of this folder, which is done once for a version of the format.

PYTHONPATH=tests/support python tests/data/recordings/make.py [NAME …]

It needs the right to attach, gcc, and Debian's python3. ``EXPECTED`` gets what the files read as.
Compare it with what the programs do before you commit it: the test reads both, and makes neither.
"""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

from flametap.recording.chunks import ChunkReader
from flametap.recording.kept_code import CODE
from flametap.recording.opened import open_recording
from recording_files import what_it_says

HERE = Path(__file__).resolve().parent
EXPECTED = HERE / "expected.json"
FOLDER = Path("/tmp/flametap-sample")  # files keep its name
RECORD = [sys.executable, "-m", "flametap", "record", "--rate", "50"]
MAX_BYTES = 30_000
C, PYTHON = ["./sample"], ["/usr/bin/python3", "sample.py"]
# Name → the program, and how it is recorded.
RECORDINGS = {
    "c": (C, ["--duration", "2"]),
    "python": (PYTHON, ["--duration", "1"]),
    "part": (C, ["--duration", "3", "--keep", "500ms"]),
}


def main() -> int:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name in ("sample.c", "sample.py"):
        shutil.copy(HERE / name, FOLDER)
    subprocess.run(
        ["gcc", "-g", "-O1", "-o", "sample", "sample.c", "-pthread"], cwd=FOLDER, check=True
    )
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    for name in sys.argv[1:] or RECORDINGS:
        path = HERE / f"{name}.flametap"
        program, how = RECORDINGS[name]
        subprocess.run([*RECORD, *how, "-o", str(path), "--", *program], cwd=FOLDER, check=True)
        path.chmod(0o644)
        path.write_bytes(_fitting(path.read_bytes()))
        expected[path.name] = what_it_says(open_recording(str(path)))
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    return 0


def _fitting(data: bytes) -> bytes:
    """Return a file without the code of its lightest functions, so that it has ``MAX_BYTES``.

    Machine code is most of a recording of Python. Other bytes stay as they were written.
    """
    chunks = list(ChunkReader(io.BytesIO(data), "x"))
    ends = [*(each.offset for each in chunks[1:]), len(data)]
    left_out = len(data) - MAX_BYTES
    for chunk, end in zip(chunks[::-1], ends[::-1], strict=True):
        if chunk.kind == CODE and left_out > 0:
            left_out -= end - chunk.offset
            data = data[: chunk.offset] + data[end:]
    return data


if __name__ == "__main__":
    sys.exit(main())
