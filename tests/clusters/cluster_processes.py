"""Real servers for the cluster tests, on loopback, in folders of their own: a cluster, and a primary with sentinels.

Ended by who starts them. Everything here blocks, for a moment at a time.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import redis

from benchmarks.processes import free_port

START_S = 60.0
"""A bound for what should be there in seconds; nothing is measured against it."""
NODE_TIMEOUT_MS = 1_000
"""After so long without a word, a server is taken for dead: soon, where a test waits for that."""
NEVER_MS = 60_000
"""Where none dies, one that stands still on a busy machine is not to be given up."""
SLOTS = 16_384


def until(condition: Callable[[], Any], what: str) -> Any:
    """Wait for it, and give what it gave."""
    deadline = time.monotonic() + START_S
    while True:
        try:
            if held := condition():
                return held
        except (redis.RedisError, OSError, LookupError):
            pass
        assert time.monotonic() < deadline, f"it never came true: {what}"
        time.sleep(0.01)


class Server:
    """One process; killed, and started again on the same port and folder."""

    def __init__(self, program: str, folder: Path, port: int, *options: str) -> None:
        self.port = port
        self.name = f"127.0.0.1:{port}"
        self._folder = folder
        # A file, since a server that changes its own settings (sentinels, a failover) writes them back there.
        self.config = folder / "server.conf"
        lines = [f"port {port}", "bind 127.0.0.1", f"dir {folder}", f"logfile {folder}/log", 'save ""', *options]
        self.config.write_text("\n".join([*lines, ""]))
        self._command = [program, str(self.config)]
        self._child: subprocess.Popen[bytes] | None = None
        self._client: redis.Redis | None = None

    def start(self, *more: str) -> None:
        self._child = subprocess.Popen([*self._command, *more], stdin=subprocess.DEVNULL)
        until(lambda: self._alive() and self.tell("PING"), f"{self.name} answers")

    def tell(self, *command: Any) -> Any:
        if self._client is None:
            self._client = redis.Redis(port=self.port, socket_timeout=5, socket_connect_timeout=5, protocol=2)
        return self._client.execute_command(*command)

    def signal(self, number: int) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL; it is there no more when this returns."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None

    def info(self, section: str) -> dict[str, Any]:
        found: dict[str, Any] = self.tell("INFO", section)
        return found

    @property
    def log(self) -> str:
        return (self._folder / "log").read_text(errors="replace")

    def _alive(self) -> bool:
        assert self._child is not None
        assert self._child.poll() is None, self.log
        return True


class Cluster:
    """Primaries with their slots in equal parts, and replicas of them."""

    def __init__(self, program: str, folder: Path, *, primaries: int = 3, replicas: int = 0) -> None:
        count = primaries * (1 + replicas)
        ports = [free_port() for _ in range(2 * count)]
        self.primaries = primaries
        self.servers: list[Server] = []
        for number in range(count):
            home = folder / str(number)
            home.mkdir()
            options = [
                "cluster-enabled yes",
                f"cluster-port {ports[count + number]}",
                f"cluster-node-timeout {NODE_TIMEOUT_MS if replicas else NEVER_MS}",
                # The others go on serving while one is away.
                "cluster-require-full-coverage no",
                "cluster-replica-validity-factor 0",
                "appendonly no",
                "repl-diskless-sync-delay 0",
            ]
            self.servers.append(Server(program, home, ports[number], *options))
            self.servers[-1].bus = ports[count + number]  # type: ignore[attr-defined]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(each.name for each in self.servers[: self.primaries])

    def start(self) -> None:
        for each in self.servers:
            each.start()
        first, *others = self.servers
        heads = self.servers[: self.primaries]
        for number, each in enumerate(heads):
            each.tell("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            share = SLOTS // self.primaries + 1
            last = min(SLOTS, (number + 1) * share) - 1
            each.tell("CLUSTER", "ADDSLOTSRANGE", number * share, last)
        for each in others:
            each.tell("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)  # type: ignore[attr-defined]
        self.all_agree()
        for number, each in enumerate(self.servers[self.primaries :]):
            head = heads[number % self.primaries]
            until(lambda each=each, head=head: self.id_of(head) in self.seen_by(each), "the primary is known")
            each.tell("CLUSTER", "REPLICATE", self.id_of(head))
            until(lambda each=each: each.info("replication")["master_link_status"] == "up", "a replica is in step")
        until(lambda: all(self._says(each, "cluster_state", "ok") for each in self.servers), "the cluster is up")
        until(lambda: all(self._slots_of(each) for each in self.servers), "everybody knows all slots")

    def all_agree(self) -> None:
        """Every server knows every other."""
        count = str(len(self.servers))
        until(lambda: all(self._says(each, "cluster_known_nodes", count) for each in self.servers), "they have met")

    def end(self) -> None:
        for each in self.servers:
            each.kill()

    def id_of(self, server: Server) -> str:
        return str(_text(server.tell("CLUSTER", "MYID")))

    def seen_by(self, server: Server) -> str:
        return str(server.tell("CLUSTER", "NODES"))

    def server_at(self, port: int) -> Server:
        return next(each for each in self.servers if each.port == port)

    def owner(self, slot: int, by: Server | None = None) -> Server:
        """Who has it, as `by` sees it."""
        for span in _raw(by or self.servers[0], "CLUSTER", "SLOTS"):
            if span[0] <= slot <= span[1]:
                return self.server_at(int(span[2][1]))
        raise LookupError(slot)

    def replicas_of(self, server: Server) -> list[Server]:
        found = []
        for each in self.servers:
            if each is not server:
                facts = each.info("replication")
                if facts["role"] == "slave" and facts["master_port"] == server.port:
                    found.append(each)
        return found

    def begin_move(self, slot: int, source: Server, target: Server) -> None:
        target.tell("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.tell("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))

    def keys_in(self, slot: int, server: Server) -> list[bytes]:
        found: list[bytes] = _raw(server, "CLUSTER", "GETKEYSINSLOT", slot, 100_000)
        return found

    def move_keys(self, source: Server, target: Server, *keys: bytes) -> None:
        if keys:
            source.tell("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)

    def end_move(self, slot: int, source: Server, target: Server) -> None:
        for each in (target, source, *self.servers[: self.primaries]):
            each.tell("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def _says(self, server: Server, name: str, value: str) -> bool:
        return f"{name}:{value}\r\n" in _text(_raw(server, "CLUSTER", "INFO")) + "\r\n"

    def _slots_of(self, server: Server) -> bool:
        return sum(span[1] - span[0] + 1 for span in _raw(server, "CLUSTER", "SLOTS")) == SLOTS


class Watched:
    """A primary with two replicas, and three sentinels that watch them."""

    SERVICE = "ledger"

    def __init__(self, program: str, folder: Path) -> None:
        ports = [free_port() for _ in range(6)]
        self._program = program
        self._folder = folder
        self.servers = [self._server(number, port, ports[0]) for number, port in enumerate(ports[:3])]
        self.sentinels = [self._sentinel(number, port, ports[0]) for number, port in enumerate(ports[3:])]

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(each.name for each in self.sentinels)}/{self.SERVICE}"

    def start(self) -> None:
        for each in self.servers:
            each.start()
        head, *replicas = self.servers
        until(lambda: int(head.info("replication")["connected_slaves"]) == len(replicas), "the replicas are there")
        for each in self.sentinels:
            each.start("--sentinel")
        until(lambda: all(self._ready(each) for each in self.sentinels), "the sentinels know all")

    def end(self) -> None:
        for each in (*self.sentinels, *self.servers):
            each.kill()

    def primary(self) -> Server:
        """As most of the sentinels that answer name it."""
        named = [int(_raw(each, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.SERVICE)[1]) for each in self.sentinels]
        port = max(named, key=named.count)
        if named.count(port) < len(named):
            raise LookupError("they do not agree yet")
        return next(each for each in self.servers if each.port == port)

    def _ready(self, sentinel: Server) -> bool:
        fields = _raw(sentinel, "SENTINEL", "MASTER", self.SERVICE)
        facts = dict(zip(fields[::2], fields[1::2], strict=True))
        return facts[b"num-slaves"] == b"2" and facts[b"num-other-sentinels"] == b"2" and facts[b"flags"] == b"master"

    def _server(self, number: int, port: int, primary: int) -> Server:
        home = self._folder / f"server-{number}"
        home.mkdir()
        following = [f"replicaof 127.0.0.1 {primary}"] if port != primary else []
        options = ["appendonly no", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1", *following]
        return Server(self._program, home, port, *options)

    def _sentinel(self, number: int, port: int, primary: int) -> Server:
        home = self._folder / f"sentinel-{number}"
        home.mkdir()
        return Server(
            *(self._program, home, port, f"sentinel monitor {self.SERVICE} 127.0.0.1 {primary} 2"),
            f"sentinel down-after-milliseconds {self.SERVICE} {NODE_TIMEOUT_MS}",
            f"sentinel failover-timeout {self.SERVICE} 10000",
        )


def _raw(server: Server, *command: Any) -> Any:
    """The reply as it came: redis-py makes something else of some of them."""
    with redis.Redis(port=server.port, socket_timeout=5, protocol=2) as client:
        client.response_callbacks.clear()
        return client.execute_command(*command)


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def folders(made: Callable[[str], Path], names: Sequence[str]) -> list[Path]:
    return [made(name) for name in names]
