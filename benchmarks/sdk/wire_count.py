"""What a client really sends to PostgreSQL: a proxy on a Unix socket that reads the frontend's messages."""

from __future__ import annotations

import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

# What is quoted may hold a semicolon; what is left is split at them.
_QUOTED = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"")


@dataclass(slots=True)
class WireCount:
    """`statements` that the server ran, and `round_trips`: how often the client waited for an answer."""

    statements: list[str] = field(default_factory=list)
    round_trips: int = 0

    def clear(self) -> None:
        """Begin anew."""
        self.statements.clear()
        self.round_trips = 0


@contextmanager
def counted(conninfo: str) -> Iterator[tuple[str, WireCount]]:
    """A connection string that leads to the same database by way of the proxy, and its count."""
    parts = dict(part.split("=") for part in conninfo.split())
    count = WireCount()
    with tempfile.TemporaryDirectory(prefix="oncegate-wire-") as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{folder}/.s.PGSQL.5432")
        listener.listen()
        target = str(Path(parts["host"]) / ".s.PGSQL.5432")
        threading.Thread(target=_accept, args=(listener, target, count), daemon=True).start()
        yield " ".join(f"{name}={value}" for name, value in (parts | {"host": folder}).items()), count
        # Wakes the thread that waits in accept.
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, target: str, count: WireCount) -> None:
    with suppress(OSError):
        while True:
            client, _ = listener.accept()
            server = socket.socket(socket.AF_UNIX)
            server.connect(target)
            threading.Thread(target=_copy, args=(server, client), daemon=True).start()
            threading.Thread(target=_read, args=(client, server, count), daemon=True).start()


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError), source, sink:
        while data := source.recv(65536):
            sink.sendall(data)


def _read(client: socket.socket, server: socket.socket, count: WireCount) -> None:
    """Frontend messages: a type byte and a length, after one startup message (or more) without a type."""
    buffer, started = b"", False
    parsed: dict[bytes, str] = {}
    portals: dict[bytes, str] = {}
    with suppress(OSError), client, server:
        while data := client.recv(65536):
            buffer += data
            while len(buffer) >= 5:
                length = int.from_bytes(buffer[1:5] if started else buffer[:4]) + started
                if len(buffer) < length:
                    break
                message, buffer = buffer[:length], buffer[length:]
                if started:
                    _note(message[:1], message[5:], parsed, portals, count)
                elif message[4:8] == b"\x00\x03\x00\x00" or message[4:8] == b"\x00\x03\x00\x02":
                    started = True
            server.sendall(data)


def _note(kind: bytes, body: bytes, parsed: dict[bytes, str], portals: dict[bytes, str], count: WireCount) -> None:
    names = body.split(b"\0", 2)
    if kind == b"Q":
        text = _QUOTED.sub("''", body[:-1].decode())
        count.statements += [statement.strip() for statement in text.split(";") if statement.strip()]
    elif kind == b"P":
        parsed[names[0]] = names[1].decode()
    elif kind == b"B":
        portals[names[0]] = parsed.get(names[1], "?")
    elif kind == b"E":
        count.statements.append(portals.get(names[0], "?"))
    if kind in (b"Q", b"S"):
        count.round_trips += 1
