"""A forked child has nothing of its parent but memory, and the parent can wait for it and end it.

The fork is in an interpreter of its own: that of the tests has threads.
"""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import atexit, json, os, signal, socket, subprocess, sys, threading, time
from flametap.linux import forked

def child():
    print("not to be seen", flush=True)
    own = os.listdir("/proc/self/fd")
    said = {
        "open": sorted({os.readlink(f"/proc/self/fd/{each}") for each in own if int(each) > 2
                        and os.path.lexists(f"/proc/self/fd/{each}")}),
        "standard": sorted({os.readlink(f"/proc/self/fd/{each}") for each in range(3)}),
        "leads": os.getsid(0) == os.getpid(),
        "folder": os.getcwd(),
        "handled": [n for n in signal.valid_signals() if callable(signal.getsignal(n))],
        "blocked": len(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
    }
    theirs.send(json.dumps(said).encode())
    time.sleep(60)

atexit.register(print, "once", flush=True)
signal.signal(signal.SIGTERM, lambda *_: print("handled", flush=True))
file, (ours, theirs) = open(sys.executable), socket.socketpair()
assert forked.can_fork()
process = forked.fork(child, theirs.fileno())
link = os.readlink(f"/proc/self/fd/{theirs.fileno()}")
said = json.loads(ours.recv(1 << 16))
said["open"] = said["open"] == [link]
assert process.poll() is None
try:
    process.wait(0.01)
except subprocess.TimeoutExpired:
    said["late"] = True
process.send_signal(signal.SIGTERM)
said["ended"] = [process.wait(30), process.poll()]
process.kill()  # nothing: it has been waited for
short = forked.fork(lambda: None, theirs.fileno()).wait()
failed = forked.fork(lambda: 1 / 0, theirs.fileno()).wait()
said["codes"] = [short, failed]
stop = threading.Event()
threading.Thread(target=stop.wait).start()
said["with_threads"] = forked.can_fork()
stop.set()
print(json.dumps(said))
"""


def test_child_has_nothing_of_its_parent_but_memory() -> None:
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    said, once = done.stdout.splitlines()
    assert once == "once"
    assert json.loads(said) == {
        "open": True,
        "standard": ["/dev/null"],
        "leads": True,
        "folder": "/",
        "handled": [],
        "blocked": 0,
        "late": True,
        "ended": [-15, -15],
        "codes": [0, 1],
        "with_threads": False,
    }
