"""Programs that turn input into output: what comes out has to be what goes in, bit for bit."""

from __future__ import annotations

import contextlib
import hashlib
import math
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path

import kernel
from harness import Run, scenario
from load import READY_S
from running import wait_until

FED_S = 300.0
ATTACH_S = 6
PIPE_BYTES = 1 << 17
# Words in an order that compresses, but not too well: a compressor has work to do.
WORDS = hashlib.shake_256(b"flametap").digest(1 << 16)
BLOCK = b"".join(b"%02x word\n" % byte if byte & 1 else b"%d\n" % (byte * 77) for byte in WORDS)


class Fed:
    """A program that reads blocks from its standard input until ``finish``; its output goes to a
    file, so that it never waits for a reader.

    Args:
        run: whose end ends it.
        argv: the command.
        block: what it is fed, again and again.
        blocks: how often; until ``finish`` when None.
    """

    def __init__(
        self,
        run: Run,
        argv: Sequence[str | Path],
        block: bytes = BLOCK,
        blocks: int | None = None,
    ) -> None:
        self.output = run.folder / f"output-{len(list(run.folder.iterdir()))}"
        self.errors = self.output.with_suffix(".err")
        with self.output.open("wb") as output, self.errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [str(word) for word in argv], stdin=subprocess.PIPE, stdout=output, stderr=errors
            )
        self.pid = self._process.pid
        self.blocks = 0
        self._block = block
        self._wanted = blocks
        self._over = threading.Event()
        self._feeder = threading.Thread(target=self._feed)
        self._feeder.start()
        run.at_end(self._kill)

    def finish(self) -> int:
        """End its input with a whole block and wait for its end. Returns the exit code."""
        if self._wanted is None:
            self._over.set()
        self._feeder.join(FED_S)
        assert not self._feeder.is_alive(), "it does not read its input"
        return self._process.wait(FED_S)

    def _feed(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError), self._process.stdin as pipe:
            while not self._over.is_set() and self.blocks != self._wanted:
                pipe.write(self._block)
                self.blocks += 1

    def _kill(self) -> None:
        self._over.set()
        self._process.kill()
        self._process.wait()
        self._feeder.join()


def record_fed(run: Run, argv: Sequence[str | Path], block: bytes = BLOCK) -> Fed:
    """Start a program, record it while it is fed, and end it: with 0, or it is a finding."""
    job = Fed(run, argv, block)
    # More than a pipe holds has been read: all libraries are loaded.
    wait_until(lambda: job.blocks * len(block) > PIPE_BYTES, "it to read its input", READY_S)
    run.record(job.pid, own_threads=Path(argv[0]).name)
    code = job.finish()
    run.expect(code == 0, f"exit code {code}: {job.errors.read_text(errors='replace')[-500:]}")
    return job


def _check_unpacked(run: Run, unpack: Sequence[str], job: Fed) -> None:
    """Unpacks what a compressor wrote and compares it with what it was fed."""
    got, expected = hashlib.blake2b(), hashlib.blake2b()
    with job.output.open("rb") as packed:
        reader = subprocess.Popen(unpack, stdin=packed, stdout=subprocess.PIPE)
        assert reader.stdout is not None
        with reader.stdout as stream:
            while block := stream.read(1 << 20):
                got.update(block)
        code = reader.wait()
    for _ in range(job.blocks):
        expected.update(BLOCK)
    run.expect(code == 0, f"{unpack[0]} exits with {code}")
    run.expect(got.digest() == expected.digest(), "what was packed is not what was fed")


@scenario()
def gzip(run: Run) -> None:
    """gzip between two pipes; unpacked again, every byte is there."""
    _check_unpacked(run, ["gzip", "-dc"], record_fed(run, ["gzip", "-6", "-c"]))


@scenario("xz")
def xz(run: Run) -> None:
    """xz with two threads; unpacked again, every byte is there."""
    job = record_fed(run, ["xz", "-2", "-T2", "--block-size=1MiB", "-c"])
    _check_unpacked(run, ["xz", "-dc"], job)


@scenario("rg")
def ripgrep(run: Run) -> None:
    """rg on a pipe; it has to find each line that matches."""
    pattern = r"\d[a-f]\sw[aeiou]rd$"
    job = record_fed(run, ["rg", "-c", "--no-mmap", pattern, "-"])
    matches = len(re.findall(pattern.encode(), BLOCK, re.MULTILINE)) * job.blocks
    found = job.output.read_text().strip()
    run.expect(found == str(matches), f"found {found} of {matches}")


WIDTH, HEIGHT = 320, 240
# A frame of three planes: a gradient that moves with the frame would be nicer, noise is harder.
FRAMES = hashlib.shake_256(b"frames").digest(4 * WIDTH * HEIGHT * 3 // 2)


@scenario("ffmpeg")
def ffmpeg(run: Run) -> None:
    """ffmpeg encoding H.264 from a pipe; the file equals one that was made without us."""
    output = run.folder / "film.mkv"
    raw = ["-f", "rawvideo", "-pix_fmt", "yuv420p", "-s", f"{WIDTH}x{HEIGHT}", "-i", "-"]
    exact = ["-fflags", "+bitexact", "-flags", "+bitexact"]
    encode = ["-c:v", "libx264", "-preset", "medium", "-threads", "2", *exact, "-f", "matroska"]
    command = ["ffmpeg", "-nostdin", "-v", "error", *raw, *encode, "-y"]
    job = record_fed(run, [*command, output], FRAMES)
    again = Fed(run, [*command, run.folder / "again.mkv"], FRAMES, blocks=job.blocks)
    run.expect(again.finish() == 0, "the second encoding fails")
    same = output.read_bytes() == (run.folder / "again.mkv").read_bytes()
    run.expect(same, f"{job.blocks} blocks of frames give another file")


@scenario("openssl")
def openssl(run: Run) -> None:
    """openssl speed, hand-written assembly with an alarm of its own, to its end."""
    algorithm = run.random.choice(["aes-256-gcm", "sha256", "chacha20-poly1305"])
    seconds = math.ceil(run.seconds) + ATTACH_S  # it ends by the clock, however busy the machine is
    command = ["openssl", "speed", "-seconds", str(seconds), "-bytes", "8192", "-evp", algorithm]
    target = run.start(command)
    wait_until(lambda: kernel.process_cpu_ns(target.pid) > 50e6, "openssl at work", READY_S)
    run.collect(run.begin(target.pid))
    wait_until(lambda: not target.alive, "openssl to end", seconds + READY_S)
    run.expect(target.exit_code == 0, f"exit code {target.exit_code}: {target.errors}")

    def has_reported() -> bool:
        text = "".join(target.errors + target.lines)
        return "ops in" in text or "'s in" in text

    wait_until(has_reported, "openssl's report to be read", READY_S)


@scenario("gcc")
def make(run: Run) -> None:
    """make -j2 with a compiler for each of many files: vfork, exec and SIGCHLD all the time."""
    sources = run.folder / "sources"
    sources.mkdir()
    count = round(40 * (run.seconds + ATTACH_S))  # many of them before it is attached to
    for number in range(count):
        (sources / f"f{number}.c").write_text(f"int f{number}(int x) {{ return x * {number}; }}\n")
    (sources / "main.c").write_text("int main(void) { return 0; }\n")
    objects = " ".join(f"f{number}.o" for number in range(count))
    rules = f"all: main.o {objects}\n\t$(CC) -o all $^\n%.o: %.c\n\t$(CC) -c $< -o $@\n"
    (sources / "Makefile").write_text(rules)
    target = run.start(["make", "-j2", "-C", sources])
    wait_until(lambda: (sources / "f1.o").exists() or not target.alive, "the first file", READY_S)
    run.collect(run.begin(target.pid))
    wait_until(lambda: not target.alive, "make to end", 20 * (run.seconds + ATTACH_S) + READY_S)
    run.expect(target.exit_code == 0, f"exit code {target.exit_code}: {target.errors[-5:]}")
    run.expect((sources / "all").exists(), "nothing was built")
