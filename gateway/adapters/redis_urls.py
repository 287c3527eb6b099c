"""Where the ledger is: one line of text, read strictly.

redis-py itself reads URLs leniently (a bad database number is ignored, any option is passed on), and a
ledger in the wrong database is an empty ledger. Nothing that was typed is repeated in an error: a
password with an unescaped ``/`` turns up in the oddest part of a URL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

ACCEPTED: Final = """\
accepted ledgers:
  redis://[user:password@]host[:6379][/0]    a Redis or Valkey server
  rediss://[user:password@]host[:6379][/0]   the same over TLS (?ssl_ca_certs=FILE and others)
  unix:///run/redis/redis.sock[?db=0]        the same over a Unix socket
  redis+sentinel://[user:password@]host[:26379],host,../service[/0]   the primary that sentinels name
  redis+cluster://[user:password@]host[:6379],host,..                 a Redis Cluster, by some of its servers
  local:./data                               a private redis-server that keeps its data in that folder
  memory                                     inside this process; forgotten when it ends
Over TLS: rediss+sentinel:// (to sentinels as well) and rediss+cluster://, with the same options.
Special characters in a user or password must be percent-encoded (@ is %40, / is %2F, # is %23)."""


class LedgerUrlError(ValueError):
    """The text does not name a ledger. The message says why and shows what is accepted."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the ledger URL {why}; {ACCEPTED}")


@dataclass(frozen=True)
class LedgerUrl:
    """A parsed ledger URL. Its repr, and ``safe``, carry no credentials and may be logged."""

    kind: Literal["tcp", "unix", "sentinel", "cluster", "local", "memory"]
    host: str = ""
    port: int = 6379
    path: Path = Path()  # kind unix: the socket; kind local: the folder
    db: int = 0
    tls: bool = False
    username: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_options: tuple[tuple[str, str | bool], ...] = field(default=(), repr=False)  # names as redis-py's
    nodes: tuple[tuple[str, int], ...] = ()  # kinds sentinel and cluster: where to ask
    service: str = ""  # kind sentinel: what the primary is called there
    sentinel_username: str | None = field(default=None, repr=False)
    sentinel_password: str | None = field(default=None, repr=False)

    @classmethod
    def for_socket(cls, path: Path) -> LedgerUrl:
        """The server behind a Unix socket, such as the one LocalRedis starts."""
        return cls(kind="unix", path=path)

    @property
    def safe(self) -> str:
        """The URL with user and password blotted out."""
        secret = "***@" if self.username or self.password else ""
        match self.kind:
            case "memory":
                return "memory"
            case "local":
                return f"local:{self.path}"
            case "unix":
                return f"unix://{secret}{self.path}?db={self.db}"
            case "tcp":
                return f"{'rediss' if self.tls else 'redis'}://{secret}{_shown(self.host, self.port)}/{self.db}"
        nodes = ",".join(_shown(*node) for node in self.nodes)
        path = f"/{self.service}/{self.db}" if self.kind == "sentinel" else ""
        return f"{'rediss' if self.tls else 'redis'}+{self.kind}://{secret}{nodes}{path}"


def parse_ledger_url(text: str) -> LedgerUrl:
    """Read a ledger URL; raises LedgerUrlError. Touches neither disk nor network."""
    text = text.strip()
    if text == "memory":
        return LedgerUrl(kind="memory")
    scheme, colon, rest = text.partition(":")
    if not text or not colon:
        raise LedgerUrlError("is empty" if not text else "has no scheme")
    reader = _READERS.get(scheme.lower())
    if reader is None:
        raise LedgerUrlError("has an unknown scheme")
    return reader(text, rest)


def _read_tcp(text: str, _rest: str) -> LedgerUrl:
    parts = _split(text)
    tls = parts.scheme == "rediss"
    try:
        host, port = unquote(parts.hostname or ""), parts.port
    except ValueError:
        raise LedgerUrlError("has a port that is not a number from 1 to 65535") from None
    if not host:
        raise LedgerUrlError("has no host")
    if port == 0:
        raise LedgerUrlError("has a port that is not a number from 1 to 65535")
    query = _read_query(parts, {"db": _number, **(_TLS_OPTIONS if tls else {})})
    path = parts.path.strip("/")
    if path and "db" in query:
        raise LedgerUrlError("names the database twice")
    db = query.pop("db", None)
    return LedgerUrl(
        kind="tcp",
        host=host,
        port=port or 6379,
        db=_number(path) if path else db or 0,
        tls=tls,
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
        tls_options=tuple(query.items()),
    )


def _read_unix(text: str, _rest: str) -> LedgerUrl:
    parts = _split(text)
    path = unquote(parts.path)
    if parts.hostname or len(path) < 2:
        raise LedgerUrlError("has no absolute path to a socket")
    return LedgerUrl(
        kind="unix",
        path=Path(path),
        db=_read_query(parts, {"db": _number}).get("db", 0),
        username=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


def _read_local(_text: str, rest: str) -> LedgerUrl:
    if rest.startswith("//"):
        rest = rest.removeprefix("//")
        if not rest.startswith("/"):
            raise LedgerUrlError("has a host where a folder should be")
    if not rest.strip():
        raise LedgerUrlError("has no folder")
    return LedgerUrl(kind="local", path=Path(rest).expanduser())


def _read_nodes(text: str, _rest: str) -> LedgerUrl:
    """Several hosts behind one scheme, each read as one server's URL would be."""
    scheme, slashes, behind = text.partition("://")
    security, _, kind = scheme.lower().partition("+")
    place, _, query = behind.partition("?")
    authority, _, path = place.partition("/")
    credentials, at, hosts = authority.rpartition("@")
    if not slashes:
        raise LedgerUrlError("has no // after its scheme")
    if "#" in text or "@" in credentials + path + query:
        raise LedgerUrlError("has a special character that is not percent-encoded")
    service, _, db = path.partition("/") if kind == "sentinel" else ("", "", path)
    if kind == "sentinel" and not _SERVICE.fullmatch(service):
        raise LedgerUrlError("does not name the service (letters, digits and . - _) behind the sentinels")
    own, rest = _own_options(query) if kind == "sentinel" else ({}, query)
    servers = [
        _read_tcp(f"{security}://{credentials}{at}{_with_port(host, kind)}/{db}{'?' if rest else ''}{rest}", "")
        for host in hosts.split(",")
    ]
    one = servers[0]
    if kind == "cluster" and one.db:
        raise LedgerUrlError("has a database, of which a cluster has none but 0")
    return LedgerUrl(
        kind="sentinel" if kind == "sentinel" else "cluster",
        db=one.db,
        tls=one.tls,
        username=one.username,
        password=one.password,
        tls_options=one.tls_options,
        nodes=tuple((each.host, each.port) for each in servers),
        service=service,
        sentinel_username=own.get("sentinel_username") or None,
        sentinel_password=own.get("sentinel_password") or None,
    )


def _own_options(query: str) -> tuple[dict[str, str], str]:
    """What is for the sentinels themselves, and the query without it."""
    parts = [part for part in query.split("&") if part]
    own = [part for part in parts if part.partition("=")[0] in ("sentinel_username", "sentinel_password")]
    found = {part.partition("=")[0]: unquote(part.partition("=")[2]) for part in own}
    if len(found) < len(own):
        raise LedgerUrlError("has one of its options twice")
    return found, "&".join(part for part in parts if part not in own)


def _with_port(host: str, kind: str) -> str:
    return host if kind == "cluster" or re.search(r":[^\]]*$", host) else f"{host}:26379"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


_SERVICE: Final = re.compile(r"[A-Za-z0-9._-]+")
"""What sentinels take for a name."""
_READERS: Final[Mapping[str, Callable[[str, str], LedgerUrl]]] = {
    "redis": _read_tcp,
    "rediss": _read_tcp,
    "redis+sentinel": _read_nodes,
    "rediss+sentinel": _read_nodes,
    "redis+cluster": _read_nodes,
    "rediss+cluster": _read_nodes,
    "unix": _read_unix,
    "local": _read_local,
}


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
    except ValueError:
        raise LedgerUrlError("cannot be read") from None
    if not text[len(parts.scheme) :].startswith("://"):
        raise LedgerUrlError("has no // after its scheme")
    if "#" in text or "@" in parts.path + parts.query:
        raise LedgerUrlError("has a special character that is not percent-encoded")
    return parts


def _read_query(parts: SplitResult, known: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise LedgerUrlError("has options that cannot be read") from None
    read: dict[str, Any] = {}
    for name, value in pairs:
        if name not in known or name in read:
            raise LedgerUrlError(f"has options other than {', '.join(sorted(known))}, or one of them twice")
        read[name] = known[name](value)
    return read


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise LedgerUrlError("has a database that is not a number")
    return int(text)


def _certificate_check(text: str) -> str:
    if text not in ("required", "none"):
        raise LedgerUrlError("has an ssl_cert_reqs that is neither required nor none")
    return text


def _yes_or_no(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise LedgerUrlError("has an ssl_check_hostname that is neither true nor false")
    return text.lower() == "true"


_TLS_OPTIONS: Final[Mapping[str, Callable[[str], Any]]] = {
    "ssl_ca_certs": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_cert_reqs": _certificate_check,
    "ssl_check_hostname": _yes_or_no,
}
