"""Threads that work and wait in known ways, for some seconds: "heavy" takes three times "light"."""

import threading
import time

END = time.monotonic() + 8


def spin(rounds):
    state = 1
    for _ in range(rounds):
        state = state * 1664525 & 0xFFFFFFFF
    return state


def heavy():
    return spin(30_000)


def light():
    return spin(10_000)


def work():
    while time.monotonic() < END:
        heavy()
        light()


def rest():
    while time.monotonic() < END:
        time.sleep(0.05)


for run in (work, rest):
    threading.Thread(target=run, name=f"to {run.__name__}").start()
