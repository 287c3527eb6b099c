"""The merchant to be checked, as the options say; read strictly, since real orders come of it."""

from __future__ import annotations

import ipaddress
import json
from dataclasses import dataclass, field
from typing import Final, NoReturn
from urllib.parse import SplitResult, urlsplit

from gateway.adapters.signing import SigningSecretInvalid, sign_headers

FRESH: Final = "{fresh}"
"""Stands in arguments for a word that no other purchase of the run has."""


class CannotRun(Exception):
    """What keeps the check from beginning or going on; the message is for people and says what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """`arguments`, `other` and `declined` are JSON objects as text: their digits go out as they were given.
    All times in seconds."""

    url: str
    tool: str
    arguments: str
    secrets: tuple[str, ...] = field(repr=False)
    other: str | None = None
    declined: str | None = None
    status_url: str | None = None
    count_tool: str | None = None
    count_arguments: str = "{}"
    count_url: str | None = None
    company: str = "merchant-check"
    timeout_s: float = 10.0
    settle_s: float = 0.3
    deadline_s: float = 180.0

    def __post_init__(self) -> None:
        """Raises CannotRun for anything that cannot be played."""
        home = _split("URL", self.url)
        for option, url in (("--status-url", self.status_url), ("--count-url", self.count_url)):
            if url is not None:
                other = _split(option, url)
                if other.hostname != home.hostname and not _loopback(other.hostname):
                    raise CannotRun(f"{option} is on another host than URL: only {home.hostname} is spoken to")
        for option, text in (
            ("--arguments", self.arguments),
            ("--other-arguments", self.other),
            ("--declined-arguments", self.declined),
            ("--count-arguments", self.count_arguments),
        ):
            if text is not None:
                _check_object(option, text)
        if self.other is not None and json.loads(self.other) == json.loads(self.arguments):
            raise CannotRun("--other-arguments is the same cart as --arguments: name another one")
        if not self.secrets:
            raise CannotRun("there is no signing secret: --secret-env NAME or --secret-file FILE")
        try:
            sign_headers(self.secrets, "check", 0, b"")
        except SigningSecretInvalid as wrong:
            raise CannotRun(f"{wrong}: a secret is whsec_ and base64, as oncegate secrets add shows it") from None
        for option, value in (
            ("--timeout", self.timeout_s),
            ("--deadline", self.deadline_s),
        ):
            if not 0 < value <= 3600:
                raise CannotRun(f"{option} is a number of seconds, above 0 and at most 3600")
        if not 0 <= self.settle_s <= 60:
            raise CannotRun("--settle is a number of seconds, 0 to 60")

    @property
    def counts(self) -> bool:
        """Whether the merchant says what it did."""
        return self.count_tool is not None or self.count_url is not None


def _split(option: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 - raises ValueError for a port that is none
    except ValueError:
        raise CannotRun(f"{option} is not a URL: {url!r}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CannotRun(f"{option} starts with http:// or https:// and names a host, not {url!r}")
    if parts.username is not None or parts.password is not None:
        raise CannotRun(f"{option} may not hold a name or password: calls are signed")
    return parts


def _loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _check_object(option: str, text: str) -> None:
    try:
        read = json.loads(text, parse_constant=_no_constant)
        text.encode()
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise CannotRun(
            f"""{option} is a JSON object, such as '{{"item": "dosa", "quantity": 1}}', not {text[:80]!r}"""
        )
