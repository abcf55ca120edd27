"""Name the functions of a device's stacks: by files that are here, else by what the device knows.

A file here counts only if it has the same build-id (UUID) as the one that is loaded there.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from ..model import Frame, FrameKind, Function, Module, RawFrame, SymbolSource
from ..recording.names.table import SymbolTable
from ..recording.profile.store import BEGINNING, Profile
from ..symbols.module_names import ModuleNames
from ..symbols.names.demangle import demangle_many

AT_ONCE = 256
STEP_S = 0.2
MAX_NAME = 1 << 12

Ask = Callable[[Sequence[int]], list[Any]]
"""Returns for each runtime_addr its name, file and line, as the device knows them."""


class DeviceNames:
    """See the module. ``close`` it.

    Args:
        table: receives the names.
        profile: has the stacks.
        symbol_dirs: folders with symbol files, dSYM bundles and libraries.
        inlines: whether inlined functions become frames.
        ask: asks the device; it raises whatever it likes.
    """

    def __init__(
        self,
        table: SymbolTable,
        profile: Profile,
        symbol_dirs: Sequence[str],
        ask: Ask,
        *,
        inlines: bool = True,
    ) -> None:
        self._table, self._profile, self._ask = table, profile, ask
        self._files = ModuleNames(
            table, None, inlines=inlines, symbol_dirs=symbol_dirs, names_remedies=False
        )
        self._mark = BEGINNING
        self._waiting: dict[int, RawFrame] = {}  # of files, until these have been read
        self._unnamed: list[tuple[int, int]] = []  # to be asked for: ids and runtime_addrs
        self._by_device: set[int] = set()  # modules in which it has named something
        self._is_asking = True
        self._working = threading.Lock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flametap-device", daemon=True)
        self._thread.start()

    def add_module(self, module: Module) -> None:
        """Add a file that is loaded."""
        if module.build_id:
            self._files.add_module(module, lambda _: None)

    def sources(self) -> list[SymbolSource]:
        """Return where the names of each module come from."""
        modules = self._profile.modules
        known = {each.module_id: each for each in self._files.sources()}
        for module_id in self._by_device.copy():
            if module_id in modules:
                name = modules[module_id].name
                known[module_id] = SymbolSource(module_id, name, "the device")
        return list(known.values())

    @property
    def pending(self) -> int:
        """The number of addresses without their final names."""
        return len(self._waiting) + len(self._unnamed)

    def finish(self, timeout_s: float) -> bool:
        """Find all names; return False after a timeout."""
        self._step()
        if not self._files.wait_idle(timeout_s):
            return False
        self._step()
        return not self.pending

    def stop_asking(self) -> None:
        """The device is not there any more."""
        self._is_asking = False

    def close(self) -> None:
        """End. Idempotent."""
        self._closing.set()
        self._thread.join()
        self._files.close()

    def _run(self) -> None:
        while not self._closing.wait(STEP_S):
            self._step()

    def _step(self) -> None:
        with self._working:
            news = self._profile.news(self._mark)
            self._mark = news.mark
            by_module: dict[int, list[tuple[int, int]]] = {}
            for address_id, frame in news.addresses:
                work = self._files.work_on(frame.module_id)
                if work is not None:
                    by_module.setdefault(frame.module_id, []).append((address_id, frame.addr))
                    self._waiting[address_id] = frame
                else:
                    self._leave(address_id, frame)
            if by_module:
                self._files.submit(by_module)
            if self._waiting and self._files.is_idle:
                for address_id, frame in self._waiting.items():
                    if self._table.frames(address_id)[0].function.kind is FrameKind.UNKNOWN:
                        self._leave(address_id, frame)
                self._waiting = {}
            while self._unnamed and self._is_asking:
                some, self._unnamed = self._unnamed[:AT_ONCE], self._unnamed[AT_ONCE:]
                self._name_there(some)
            self._unnamed.clear()

    def _leave(self, address_id: int, frame: RawFrame) -> None:
        """Have the device asked for an address."""
        module = self._profile.modules.get(frame.module_id)
        self._unnamed.append((address_id, frame.addr + (module.load_bias if module else 0)))

    def _name_there(self, some: Sequence[tuple[int, int]]) -> None:
        try:
            answers = self._ask([addr for _, addr in some])
        except Exception:  # whatever it is: these have no names
            return
        found = [_checked(each) for each in answers[: len(some)]]
        readable = demangle_many({name for name, _, _ in found if name})
        for (address_id, _), (name, file, line) in zip(some, found, strict=False):
            if not name:
                continue
            raw, module_name = self._profile.locate(address_id)
            short, full = readable[name]
            function = Function(short, module_name or "[jit]", file, FrameKind.NATIVE, full)
            self._table.set(address_id, [Frame(function, line)])
            self._by_device.add(raw.module_id)


def _checked(answer: Any) -> tuple[str, str, int]:
    """Return name, file and line of an answer; "" and 0 for what it lacks."""
    name, file, line = answer if isinstance(answer, list) and len(answer) == 3 else ("", "", 0)
    name = name if isinstance(name, str) and not name.startswith("0x") else ""
    file = file if isinstance(file, str) else ""
    is_line = isinstance(line, int) and 0 < line < 1 << 24
    return name[:MAX_NAME], file[:MAX_NAME], line if is_line else 0
