"""The sockets that are bound before anything is opened."""

from __future__ import annotations

import errno
import re
import socket

import pytest

from gateway.core.errors import ConfigError
from gateway.web.listening import bound


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_every_address_of_a_host_is_bound_and_does_not_listen_yet(host: str) -> None:
    """A balancer that connects must not be let in before the ledger is open."""
    with bound(host, 0) as sockets:
        found = {each[4][0] for each in socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)}
        assert {one.getsockname()[0] for one in sockets} == found
        for one in sockets:
            with socket.socket(one.family) as client:
                assert client.connect_ex(one.getsockname()) == errno.ECONNREFUSED
    assert all(one.fileno() == -1 for one in sockets)


def test_a_port_that_is_taken_is_named() -> None:
    """And what to do about it."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} of 127.0.0.1 is taken.*--port"), bound("127.0.0.1", port):
            pytest.fail("it was bound")


def test_a_port_that_is_taken_between_binding_and_listening_is_named_too() -> None:
    """Two that start at one moment may both bind; the later one to listen is told."""

    def both_start() -> None:
        with bound("127.0.0.1", 0) as first, bound("127.0.0.1", first[0].getsockname()[1]) as second:
            second[0].listen()
            first[0].listen()

    with pytest.raises(ConfigError, match="is taken"):
        both_start()


def test_other_faults_of_the_server_pass() -> None:
    """Only a taken port is a matter of configuration."""
    with pytest.raises(FileNotFoundError), bound("127.0.0.1", 0):
        raise FileNotFoundError(errno.ENOENT, "gone")


@pytest.mark.parametrize("host", ["a.invalid", "a..invalid", f"{'a' * 64}.invalid"])
def test_a_host_that_does_not_exist_is_named(host: str) -> None:
    """A name that cannot be resolved, or be one, is one line."""
    with pytest.raises(ConfigError, match=f"of {re.escape(host)} cannot be listened on"), bound(host, 80):
        pytest.fail("it was bound")
