"""The sockets that the server listens on, bound before anything else is opened: a taken port is found at once."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from errno import EADDRINUSE

from gateway.core.errors import ConfigError


@contextlib.contextmanager
def bound(host: str, port: int) -> Iterator[list[socket.socket]]:
    """A bound socket for each address of `host`; they do not listen yet, and are closed at the end.

    Raises ConfigError where one cannot be bound, and where another listens there by the time the server does.
    """
    with contextlib.ExitStack() as stack:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            sockets = []
            for family, kind, protocol, _, address in dict.fromkeys(found):
                one = stack.enter_context(socket.socket(family, kind, protocol))
                if os.name == "posix":
                    # A restart need not wait for the last connections of its predecessor to be forgotten.
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # or it would take IPv4's place too
                one.bind(address)
                sockets.append(one)
        except (OSError, UnicodeError) as fault:  # the second: what no host can be called
            raise _refused(host, port, fault) from None
        try:
            yield sockets
        except OSError as fault:
            if fault.errno != EADDRINUSE:
                raise
            # Two that bind at one moment both may; only one may listen.
            raise _refused(host, port, fault) from None


def _refused(host: str, port: int, fault: OSError | UnicodeError) -> ConfigError:
    where = f"port {port} of {host}"
    if isinstance(fault, UnicodeError):
        return ConfigError([f"{where} cannot be listened on: that is no name of a host"])
    if fault.errno == EADDRINUSE:
        return ConfigError([f"{where} is taken; stop what listens there, or choose another with --port (0: any free)"])
    return ConfigError([f"{where} cannot be listened on: {fault.strerror or type(fault).__name__}"])
