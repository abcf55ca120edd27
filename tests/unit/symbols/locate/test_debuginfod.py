"""Debug files from servers: good ones, and every kind of bad one."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from debuginfodserver import Request, Server, serving
from flametap.cli.main import run as run_command
from flametap.model import Frame, RawFrame
from flametap.recording.names.table import SymbolTable
from flametap.symbols.locate.debuginfod import (
    FEDERATION,
    Debuginfod,
    client,
    is_server,
    known_servers,
)
from flametap.symbols.locate.debuginfod_cache import (
    DebuginfodCache,
    NotOnServersError,
    default_folder,
)
from flametap.symbols.locate.download import Limits
from flametap.symbols.locate.module_files import FilesError, TargetFiles
from flametap.symbols.object.elf import from_bytes
from flametap.symbols.symbolizer import Symbolizer
from objects import compile_object, module_of, open_elf, run, split_debug, symbols
from running import wait_until

pytestmark = pytest.mark.needs("gcc")

SOURCE = """
static int inner(int n) { return n * 3 + 1; }
int outer(int n) { return inner(n) ^ 5; }
int main(int count, char **arguments) { (void)arguments; return outer(count); }
"""
PATIENT = Limits(size_bytes=1 << 20)
QUICK = Limits(stall_s=0.3, size_bytes=1 << 20)
# For servers that are to send something in time: a busy machine may be late by some 0.1 s.
QUITE_QUICK = Limits(stall_s=2, size_bytes=1 << 20)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a stripped program and its debug file."""
    folder = tmp_path_factory.mktemp("debuginfod")
    split_debug(compile_object(folder, SOURCE, "-g", "-O2"), folder / "debug")
    return folder


@pytest.fixture
def stripped(built: Path, tmp_path: Path) -> tuple[Path, str, bytes]:
    """A stripped program, its build-id, and its debug file, which only a server has."""
    program = Path(shutil.copy(built / "program", tmp_path))
    return program, open_elf(program).build_id, (built / "debug").read_bytes()


def ask(
    servers: list[str], cache: Path, build_id: str, limits: Limits = PATIENT
) -> tuple[bool, list[str]]:
    """Whether the debug file was had, and what was said."""
    problems: list[str] = []
    image = Debuginfod(servers, DebuginfodCache(cache), limits).fetch(
        build_id, "debuginfo", problems
    )
    if image is not None:
        assert image.elf.build_id == build_id
        assert image.origin == "debuginfod"
        image.close()
    return image is not None, problems


def test_file_is_kept_where_the_standard_client_keeps_it(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    _, build_id, contents = stripped
    server.answers[build_id, "debuginfo"] = contents
    cache = tmp_path / "cache"
    assert ask([server.url + "/"], cache, build_id) == (True, [])
    kept = cache / build_id / "debuginfo"
    assert kept.read_bytes() == contents
    assert os.listdir(kept.parent) == ["debuginfo"]
    # The second time nobody is asked.
    assert ask([server.url], cache, build_id) == (True, [])
    assert server.asked == [f"/buildid/{build_id}/debuginfo"]


def test_missing_file_is_remembered_for_a_while(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    _, build_id, contents = stripped
    cache = tmp_path / "cache"
    found, problems = ask([server.url], cache, build_id)
    assert not found
    assert "does not have it" in problems[0]
    assert (cache / build_id / "debuginfo").stat().st_size == 0
    server.answers[build_id, "debuginfo"] = contents
    assert ask([server.url], cache, build_id) == (False, ["debuginfod: no server had it recently"])
    (cache / "cache_miss_s").write_text("0")
    assert ask([server.url], cache, build_id) == (True, [])


def test_next_server_is_asked_when_one_is_of_no_use(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    _, build_id, contents = stripped
    with serving() as other:
        other.answers[build_id, "debuginfo"] = contents
        server.answers[build_id, "debuginfo"] = Request.hang
        found, problems = ask([server.url, other.url], tmp_path / "cache", build_id, QUITE_QUICK)
        assert found
        assert "silent" in problems[0]


def other_build(folder: Path) -> bytes:
    program = compile_object(folder, SOURCE.replace("5", "6"), "-g", name="other")
    return program.read_bytes()


def redirect_to_file(request: Request) -> None:
    request.send_response(302)
    request.send_header("Location", "file:///etc/passwd")
    request.end_headers()


def redirect_forever(request: Request) -> None:
    request.send_response(302)
    request.send_header("Location", request.path)
    request.end_headers()


def head_in_drops(request: Request) -> None:
    request.drip(b"HTTP/1.0 200 OK\r\n" + b"X-Empty: 1\r\n" * 99)


def body_in_drops(request: Request) -> None:
    request.send_response(200)
    request.end_headers()
    request.drip(bytes(999))


def endless(request: Request) -> None:
    request.send_response(200)
    request.end_headers()
    try:
        while not request.server.ending.is_set():
            request.wfile.write(bytes(1 << 16))
    except OSError:
        pass


BAD: dict[str, tuple[Callable[[Request], None] | None, str]] = {
    "hangs": (Request.hang, "was silent for 0.3 s"),
    "drips its headers": (head_in_drops, "was silent for 0.3 s"),
    "drips its body": (body_in_drops, "is too slow"),
    "sends without end": (endless, "more than 1048576 bytes"),
    "promises too much": (lambda r: r.send_file(b"", 1 << 40), "over the limit"),
    "breaks off": (lambda r: r.send_file(b"\x7fELF" * 9, 99), "ended after 36 of 99 bytes"),
    "sends garbage": (lambda r: r.send_file(b"<html>" * 99), "not an ELF"),
    "sends nothing": (lambda r: r.send_file(b""), "not used"),
    "is out of order": (lambda r: r.send_error(503, "later"), "answered 503 later"),
    "leads to a file": (redirect_to_file, "answered 302"),
    "leads in circles": (redirect_forever, "answered 302"),
    "closes at once": (lambda r: r.connection.close(), "the connection failed"),
    "another build": (None, "its build-id is"),
    "cuts silently": (None, "truncated in .debug_info"),
}


@pytest.mark.parametrize("how", BAD)
def test_bad_server_leads_to_a_note_and_no_file(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path, how: str
) -> None:
    _, build_id, contents = stripped
    answer, message = BAD[how]
    if how == "another build":
        contents = other_build(tmp_path)
    server.answers[build_id, "debuginfo"] = answer or contents
    if how == "cuts silently":
        server.answers[build_id, "debuginfo"] = with_section_beyond_the_end(contents)
    cache = tmp_path / "cache"
    limits = QUITE_QUICK if how == "drips its body" else PATIENT
    limits = QUICK if "0.3 s" in message else limits
    found, problems = ask([server.url], cache, build_id, limits)
    assert not found
    assert len(problems) == 1
    assert message in problems[0]
    assert f"127.0.0.1:{server.server_port}" in problems[0]
    assert os.listdir(cache / build_id) == []  # and not remembered as missing


def with_section_beyond_the_end(contents: bytes) -> bytes:
    """An ELF file whose headers are all there, but not all that they tell of."""
    headers = int.from_bytes(contents[40:48], "little")
    position = [s.name for s in from_bytes(contents).sections].index(".debug_info")
    size = headers + 64 * position + 32
    return contents[:size] + len(contents).to_bytes(8, "little") + contents[size + 8 :]


def test_server_that_is_not_there(stripped: tuple[Path, str, bytes], tmp_path: Path) -> None:
    _, build_id, _ = stripped
    with serving() as gone:
        url = gone.url
    found, problems = ask([url], tmp_path / "cache", build_id)
    assert not found
    assert "cannot be reached" in problems[0]


def test_silent_server_is_asked_once(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    _, build_id, _ = stripped
    server.answers[build_id, "debuginfo"] = Request.hang
    debuginfod = Debuginfod([server.url], DebuginfodCache(tmp_path / "cache"), QUICK)
    problems: list[str] = []
    for _ in range(2):
        assert debuginfod.fetch(build_id, "debuginfo", problems) is None
    assert "not asked again" in problems[1]
    assert len(server.asked) == 1


@pytest.mark.parametrize("kind", ["file", "read-only"])
def test_cache_that_cannot_be_written(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path, kind: str
) -> None:
    _, build_id, contents = stripped
    server.answers[build_id, "debuginfo"] = contents
    cache = tmp_path / "cache"
    if kind == "file":
        cache.write_text("in the way")
    else:
        cache = Path("/proc/self/cache")
    found, problems = ask([server.url], cache, build_id)
    assert not found
    assert "cannot be written" in problems[0]


def test_damaged_file_in_the_cache_is_fetched_again(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    _, build_id, contents = stripped
    server.answers[build_id, "debuginfo"] = contents
    kept = tmp_path / "cache" / build_id / "debuginfo"
    kept.parent.mkdir(parents=True)
    kept.write_bytes(contents[:999])
    assert ask([server.url], tmp_path / "cache", build_id) == (True, [])
    assert kept.read_bytes() == contents


def test_unused_files_are_removed_once_a_day(tmp_path: Path) -> None:
    cache = DebuginfodCache(tmp_path)
    month_ago = time.time() - 30 * 86400
    old, young = tmp_path / ("a" * 40), tmp_path / ("b" * 40)
    for folder in (old, young):
        folder.mkdir()
        (folder / "debuginfo").write_bytes(b"x")
    os.utime(old / "debuginfo", (month_ago, month_ago))
    stranger = tmp_path / "not a build-id"
    stranger.mkdir()
    mark = tmp_path / "cache_clean_interval_s"
    mark.write_text("86400")
    cache.clean()
    assert old.exists()  # cleaned within the last day
    os.utime(mark, (month_ago, month_ago))
    cache.clean()
    assert not old.exists()
    assert young.exists()
    assert stranger.exists()


def test_old_absence_is_forgotten(tmp_path: Path) -> None:
    cache = DebuginfodCache(tmp_path)
    cache.store_missing("ab" * 20, "debuginfo")
    with pytest.raises(NotOnServersError):
        cache.find("ab" * 20, "debuginfo")
    (tmp_path / "cache_miss_s").write_text("0")
    assert cache.find("ab" * 20, "debuginfo") == ""


def test_environment_of_the_standard_client(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    assert default_folder(home) == tmp_path / ".cache/debuginfod_client"
    assert default_folder({**home, "XDG_CACHE_HOME": "/x"}) == Path("/x/debuginfod_client")
    assert default_folder({**home, "DEBUGINFOD_CACHE_PATH": "/y"}) == Path("/y")
    (tmp_path / ".debuginfod_client_cache").mkdir()
    assert default_folder(home) == tmp_path / ".debuginfod_client_cache"
    urls = "https://a/ ima:enforcing https://b/ ima:ignore http://c:8002/ nonsense https://a/"
    assert known_servers({"DEBUGINFOD_URLS": urls}) == ["https://a/", "http://c:8002/"]
    assert known_servers({}, etc=str(tmp_path)) == [FEDERATION]
    (tmp_path / "one.urls").write_text("https://d/\n")
    assert known_servers({"DEBUGINFOD_URLS": " "}, etc=str(tmp_path)) == ["https://d/"]
    assert not is_server("file:///etc")
    client(["http://c"], {**home, "DEBUGINFOD_TIMEOUT": "5", "DEBUGINFOD_MAXSIZE": "x"}).close()


# -- through the symbolizer ------------------------------------------------------------------


def names(frames: list[Frame]) -> list[str]:
    return [frame.function.name for frame in frames]


def test_names_come_before_the_download_and_lines_after_it(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    program, build_id, contents = stripped
    go_on = threading.Event()

    def slowly(request: Request) -> None:
        go_on.wait(20)
        request.send_file(contents)

    server.answers[build_id, "debuginfo"] = slowly
    unstripped = compile_object(tmp_path, SOURCE, "-g", "-O2", name="again")
    outer = symbols(unstripped)["outer"][0]
    table = SymbolTable(lambda address_id: (RawFrame(1, outer), "program"))
    limits = Limits(stall_s=20)
    debuginfod = Debuginfod([server.url], DebuginfodCache(tmp_path / "cache"), limits)
    symbolizer = Symbolizer(table, None, debuginfod=debuginfod, cache_dir=tmp_path / "symcache")
    try:
        symbolizer.add_module(module_of(program))
        symbolizer.submit_many([(0, RawFrame(1, outer))])
        wait_until(lambda: table.named(0), "a name before the download", 20)
        assert not symbolizer.wait_idle(0)
        (source,) = symbolizer.sources()
        assert source.note == "asking debuginfod"
        assert names(table.frames(0))[0].startswith("program+")
        go_on.set()
        assert symbolizer.wait_idle(20)
        assert names(table.frames(0)) == ["outer", "inner"]
        (source,) = symbolizer.sources()
        assert source.has_lines
    finally:
        go_on.set()
        symbolizer.close()


def test_what_servers_said_is_in_the_note_and_closing_does_not_wait(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    program, build_id, _ = stripped
    server.answers[build_id, "debuginfo"] = Request.hang
    table = SymbolTable(lambda address_id: (RawFrame(1, 0), "program"))
    for limits in (QUICK, Limits(stall_s=30)):
        debuginfod = Debuginfod([server.url], DebuginfodCache(tmp_path / "cache"), limits)
        symbolizer = Symbolizer(table, None, debuginfod=debuginfod, cache_dir=tmp_path / "symcache")
        symbolizer.add_module(module_of(program))
        symbolizer.submit_many([(0, RawFrame(1, 0x1000))])
        if limits is QUICK:
            assert symbolizer.wait_idle(20)
            (source,) = symbolizer.sources()
            assert "install" in source.note
            assert "was silent for 0.3 s" in source.note
        else:
            symbolizer.wait_idle(0.3)
        begin_s = time.monotonic()
        symbolizer.close()
        assert time.monotonic() - begin_s < 10
        assert not any(t.name == "flametap-errand" for t in threading.enumerate())


@pytest.mark.needs("dwz")
def test_common_file_of_dwz_is_fetched(server: Server, tmp_path: Path) -> None:
    programs = [
        compile_object(tmp_path, SOURCE.replace("outer", f"outer_{n}"), "-g", "-O2", name=n)
        for n in ("one", "two")
    ]
    common = tmp_path / "common"
    run(["dwz", "-m", str(common), "-M", "/nowhere/common", *map(str, programs)])
    common_id = open_elf(common).build_id
    server.answers[common_id, "debuginfo"] = common.read_bytes()
    common.unlink()
    debuginfod = Debuginfod([server.url], DebuginfodCache(tmp_path / "cache"), PATIENT)
    files = TargetFiles(None, debuginfod=debuginfod)
    module = module_of(programs[0])
    own = files.open_module(module)
    assert files.open_alt_file(own) is None
    assert files.can_fetch(module, own, None)
    files.fetch(module, own, None)
    found = files.open_alt_file(own)
    assert found is not None
    assert found.elf.build_id == common_id
    assert not files.can_fetch(module, own, None)
    assert server.asked == [f"/buildid/{common_id}/debuginfo"]
    for image in (own, found):
        image.close()


def test_program_that_is_gone_is_fetched(
    server: Server, stripped: tuple[Path, str, bytes], tmp_path: Path
) -> None:
    program, build_id, contents = stripped
    server.answers[build_id, "executable"] = program.read_bytes()
    server.answers[build_id, "debuginfo"] = contents
    module = module_of(program)
    program.unlink()
    debuginfod = Debuginfod([server.url], DebuginfodCache(tmp_path / "cache"), PATIENT)
    files = TargetFiles(None, debuginfod=debuginfod)
    with pytest.raises(FilesError):
        files.open_module(module)
    files.fetch(module, None, None)
    own = files.open_module(module)
    assert own.origin == "debuginfod"
    debug = files.open_debug_file(module, own.elf)
    assert debug is not None
    for image in (own, debug):
        image.close()


def test_command_symbols_asks_too(
    server: Server,
    stripped: tuple[Path, str, bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program, build_id, contents = stripped
    monkeypatch.setenv("DEBUGINFOD_CACHE_PATH", str(tmp_path / "cache"))
    command = ["symbols", str(program), "--debuginfod-url", server.url]
    assert run_command(command) == 0
    told = capsys.readouterr().out
    assert "does not have it" in told
    assert "use --debuginfod" not in told
    (tmp_path / "cache" / build_id / "debuginfo").unlink()
    server.answers[build_id, "debuginfo"] = contents
    assert run_command(command) == 0
    assert "(debuginfod)" in capsys.readouterr().out
    assert run_command(["symbols", str(program)]) == 0
    assert "use --debuginfod" in capsys.readouterr().out
