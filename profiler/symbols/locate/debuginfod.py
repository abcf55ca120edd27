"""Get debug files from debuginfod servers by build-id. Servers are asked only on request.

A downloaded file is accepted only if it is complete and has the requested build-id. A server that
does not answer is not asked again.

Source: debuginfod(8), "WEBAPI"; debuginfod-client-config(7).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from ...linux.elf_headers import SHT_NOBITS
from ..object.object_file import ObjectFile
from .debug_links import supplement_id
from .debuginfod_cache import (
    DEBUGINFO,
    DebuginfodCache,
    NotOnServersError,
    default_folder,
    is_usable,
)
from .download import (
    Downloader,
    DownloadError,
    Limits,
    NotFoundError,
    StalledError,
)
from .open_file import Image, open_image

# Forwards requests to the servers of all large distributions. Used if no server is configured.
FEDERATION = "https://debuginfod.elfutils.org/"


class Debuginfod:
    """A client of debuginfod servers. All methods but ``cached`` wait for servers.

    Args:
        servers: URLs, asked in this order.
        cache: the folder for downloads.
        limits: limits for each download.
    """

    def __init__(
        self, servers: Sequence[str], cache: DebuginfodCache, limits: Limits | None = None
    ) -> None:
        self._servers = [server.rstrip("/") for server in servers]
        self._cache = cache
        self._downloader = Downloader(limits or Limits())
        self._silent: set[str] = set()
        self._is_clean = False

    def close(self) -> None:
        """Cancel the current downloads."""
        self._downloader.close()

    def cached(self, build_id: str, kind: str = DEBUGINFO) -> Image | None:
        """Open a file that was downloaded before, by us or by another program."""
        try:
            path = self._cache.find(build_id, kind)
            return _checked(path, build_id) if path else None
        except (NotOnServersError, OSError):
            return None
        except ValueError:  # damaged, or not the requested file
            self._cache.forget(build_id, kind)
            return None

    def fetch(self, build_id: str, kind: str, problems: list[str]) -> Image | None:
        """Open a file from the cache, or from the first server that has it.

        Args:
            build_id: of the file.
            kind: DEBUGINFO or EXECUTABLE.
            problems: receives a line for each server that does not have it, or cannot be used.
        """
        if not is_usable(build_id):
            problems.append(
                f"debuginfod: was not asked for a build-id of {len(build_id) // 2} bytes"
            )
            return None
        if not self._is_clean:
            self._is_clean = True
            self._cache.clean()
        image = self.cached(build_id, kind)
        if image is not None:
            return image
        try:
            self._cache.find(build_id, kind)
        except NotOnServersError:
            problems.append("debuginfod: no server had it recently")
            return None
        return self._ask_servers(build_id, kind, problems)

    def _ask_servers(self, build_id: str, kind: str, problems: list[str]) -> Image | None:
        missing = 0
        for server in self._servers:
            name = urlsplit(server).netloc
            if server in self._silent:
                problems.append(f"debuginfod: {name} was not asked again: it did not answer before")
                continue
            try:
                return self._download(server, build_id, kind)
            except NotFoundError:
                missing += 1
                problems.append(f"debuginfod: {name} does not have it")
            except StalledError as error:
                self._silent.add(server)
                problems.append(f"debuginfod: {name} {error}")
            except DownloadError as error:
                problems.append(f"debuginfod: {name} {error}")
            except ValueError as error:  # ObjectError, from the check
                problems.append(f"debuginfod: {name} sent a file that is not used: {error}")
            except OSError as error:
                where = self._cache.folder
                problems.append(f"debuginfod: {where} cannot be written: {error.strerror}")
                return None
        if missing == len(self._servers):
            self._cache.store_missing(build_id, kind)
        return None

    def _download(self, server: str, build_id: str, kind: str) -> Image:
        url = f"{server}/buildid/{build_id}/{kind}"

        def fill(file: BinaryIO) -> None:
            self._downloader.download(url, file)
            file.flush()
            _checked(file.name, build_id, f"/proc/self/fd/{file.fileno()}").close()

        path = self._cache.store(build_id, kind, fill)
        return open_image(path, origin="debuginfod")


def client(urls: Sequence[str], environment: Mapping[str, str] = os.environ) -> Debuginfod:
    """Make a client for these servers, configured by the same environment as elfutils' client."""

    def number(name: str, default: float) -> float:
        value = environment.get(name, "")
        return float(value) if value.isdigit() and int(value) else default

    limits = Limits(
        stall_s=number("DEBUGINFOD_TIMEOUT", Limits.stall_s),
        total_s=number("DEBUGINFOD_MAXTIME", Limits.total_s),
        size_bytes=int(number("DEBUGINFOD_MAXSIZE", Limits.size_bytes)),
    )
    return Debuginfod(urls, DebuginfodCache(default_folder(environment)), limits)


def known_servers(
    environment: Mapping[str, str] = os.environ, etc: str = "/etc/debuginfod"
) -> list[str]:
    """Return the servers configured on this machine, by variable or by file.

    sudo removes the variable, so the files are needed, too.
    """
    text = environment.get("DEBUGINFOD_URLS", "")
    if not text.strip():
        try:
            files = sorted(Path(etc).glob("*.urls"))
            text = " ".join(file.read_text(errors="replace") for file in files)
        except OSError:
            text = ""
    servers, is_usable = [], True
    for word in text.split():
        if word.startswith("ima:"):  # we cannot check signatures: skip servers that require them
            is_usable = word != "ima:enforcing"
        elif is_usable and is_server(word):
            servers.append(word)
    return list(dict.fromkeys(servers)) or [FEDERATION]


def is_server(word: str) -> bool:
    """Return True for a URL of a server (http or https)."""
    return urlsplit(word).scheme in ("http", "https") and bool(urlsplit(word).netloc)


def _checked(path: str, build_id: str, via: str = "") -> Image:
    """Open a file, and check that it is the requested one.

    Raises:
        OSError: it cannot be read.
        ObjectError: it is another file, or truncated.
    """
    image = open_image(path, via=via, origin="debuginfod")
    try:
        found = supplement_id(image.elf)
        if found != build_id:
            raise ValueError(f"its build-id is {found or 'missing'}")
        _require_whole(image.elf, image.file.size if image.file else 0)
    except BaseException:
        image.close()
        raise
    return image


def _require_whole(elf: ObjectFile, size: int) -> None:
    for section in elf.sections:
        if section.kind != SHT_NOBITS and section.offset + section.size > size:
            raise ValueError(f"truncated in {section.name or 'a section'}")
