"""End when standard input does, and spend a second of CPU time in a finalizer that the interpreter
calls while it ends. Prints "ready". Runs on Python 3.8 to 3.15.
"""

import builtins
import sys
import time


class Last:
    def __del__(self, clock=time.process_time):
        end = clock() + 1.0
        while clock() < end:
            pass


builtins.__dict__["last"] = Last()  # ends later than the module does
print("ready", flush=True)
sys.stdin.read()
