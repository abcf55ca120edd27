"""Threads that live for some 20 ms of CPU time, one after another, and release the GIL meanwhile.

Prints "ready"; ends with its standard input.
"""

import hashlib
import sys
import threading
import time

CPU_S = 0.02


def hashing():
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 500)  # without the GIL


def brief():
    begun = time.thread_time()
    while time.thread_time() - begun < CPU_S:
        hashing()


def main():
    reader = threading.Thread(target=sys.stdin.read, daemon=True)
    reader.start()
    print("ready", flush=True)
    while reader.is_alive():
        thread = threading.Thread(target=brief)
        thread.start()
        thread.join()


main()
