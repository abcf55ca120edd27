"""Threads that change their variables all the time, in a way that a reader can check.

    python3.N python_moves.py

Each assigns the same number to ``first``, ``second`` and ``third``, one after the other, in these
forms: n, [n, n], {"n": n}. So at any moment the numbers from the left are equal, and from some
place on one less. Ends with its standard input. Runs on Python 3.8 to 3.15.
"""

import sys
import threading


def moves():
    number = first = 0
    second, third = [0, 0], {"n": 0}
    while True:
        number += 1
        first = number
        second = [number, number]
        third = {"n": number}
        assert first == second[0] == third["n"]


for _ in range(2):
    threading.Thread(target=moves, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
