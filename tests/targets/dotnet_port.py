"""A program with the diagnostics port of a .NET runtime, for `DotnetPerfMap`.

Arguments: a folder for the socket, and how it answers. Prints each command that it was given.

  writes     as .NET 8 and newer: writes a perf map from "enable" on
  elsewhere  the same, into another folder
  old        as .NET 6: it does not know the command
  refuses    with another error
  hangs up   without an answer
  garbage    an answer of another protocol
"""

import os
import socket
import struct
import sys

MAGIC = b"DOTNET_IPC_V1\0"
HEADER = struct.Struct("<14sHBBH")
ENABLE, DISABLE = 5, 6
ERRORS = {"old": 0x80131385, "refuses": 0x80131388}

folder, way = sys.argv[1:]
path = f"{folder}/dotnet-diagnostic-{os.getpid()}-12345-socket"
port = socket.socket(socket.AF_UNIX)
port.bind(path)
port.listen()
print("ready", flush=True)
while True:
    connection, _ = port.accept()
    magic, size, group, command, _ = HEADER.unpack(connection.recv(HEADER.size))
    kind = connection.recv(size - HEADER.size) if size > HEADER.size else b""
    assert (magic, group) == (MAGIC, 4)
    print({(ENABLE, b"\3\0\0\0"): "enable", (DISABLE, b""): "disable"}[command, kind], flush=True)
    if way in ERRORS:
        answer = struct.pack("<I", ERRORS[way])
        connection.sendall(HEADER.pack(MAGIC, HEADER.size + 4, 0xFF, 0xFF, 0) + answer)
    elif way == "garbage":
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    elif way != "hangs up":
        if command == ENABLE and way == "writes":
            with open(f"/tmp/perf-{os.getpid()}.map", "w") as file:
                file.write("1000 10 void [app] Shop.Work::Primes(int32)[OptimizedTier1]\n")
        connection.sendall(HEADER.pack(MAGIC, HEADER.size + 4, 0xFF, 0, 0) + bytes(4))
    connection.close()
