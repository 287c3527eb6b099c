"""Talking to a running gateway from a terminal: one request, its JSON, problems in words."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode, urlsplit
from urllib.request import ProxyHandler, Request, build_opener

from gateway.runtime import exact_json

DEFAULT_URL = "http://127.0.0.1:8080"
EVENTS_PAGE = 500
ANSWER_S = 30.0
SILENT_S = 45.0
AGAIN_S = 1.0
"""Between two tries to follow a stream."""
_PASSING = frozenset({429, 500, 502, 503, 504})
_MOST_BYTES = 64 * 1024 * 1024
_MOST_DIGITS = 4_000


class RemoteProblem(Exception):
    """The gateway said no, or could not be asked; the message is for people."""


class RemoteAway(RemoteProblem):
    """It could not be asked, or not now; later it may."""


class LogBegunAnew(RemoteProblem):
    """A log has fewer events than were seen of it: it lost some, or expired and began anew."""


_KINDS: dict[str, type[RemoteProblem]] = {"beyond_log": LogBegunAnew}


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--url`, `--key` and `--json`, which every command that asks a gateway has."""
    parser.add_argument(
        "--url",
        default=os.environ.get("ONCEGATE_URL", DEFAULT_URL),
        help=f"the gateway (default: $ONCEGATE_URL or {DEFAULT_URL})",
    )
    parser.add_argument(
        "--key",
        default=os.environ.get("ONCEGATE_KEY"),
        help="an API key (default: $ONCEGATE_KEY; `dev` for serve --dev)",
    )
    parser.add_argument("--json", action="store_true", help="the gateway's JSON as it came")


def add_action(actions: Any, name: str, purpose: str, examples: str) -> argparse.ArgumentParser:
    """An action of a command, whose help says what it is for and ends with these examples."""
    action: argparse.ArgumentParser = actions.add_parser(
        name, help=purpose, description=purpose, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    return action


def path(*parts: str) -> str:
    """A path of the API, each part escaped."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def ask(
    arguments: argparse.Namespace,
    method: str,
    where: str,
    *,
    query: dict[str, str | int | None] | None = None,
    body: Any = None,
    exact: bool = False,
) -> Any:
    """Send one request and return its JSON (None for an empty answer). A body of bytes is JSON already; `exact`:
    numbers keep every digit.

    Raises RemoteProblem."""
    with _opened(arguments, method, where, query, body, ANSWER_S) as answer:
        raw = answer.read(_MOST_BYTES)
    if not raw:
        return None
    return exact_json.decode(raw.decode()) if exact else json.loads(raw, parse_int=_integer)


@contextmanager
def _opened(
    arguments: argparse.Namespace,
    method: str,
    where: str,
    query: dict[str, str | int | None] | None,
    body: Any,
    timeout_s: float,
) -> Iterator[Any]:
    """A gateway's answer, to be read. Raises RemoteProblem, also for what breaks while it is read."""
    if not arguments.key:
        raise RemoteProblem(
            "an API key is needed: --key KEY or $ONCEGATE_KEY (serve --dev: `dev`; else: oncegate keys create)"
        )
    wanted = {name: value for name, value in (query or {}).items() if value is not None}
    url = arguments.url.rstrip("/") + where + ("?" + urlencode(wanted) if wanted else "")
    if not url.startswith(("http://", "https://")):
        raise RemoteProblem(f"--url must start with http:// or https://, not {arguments.url!r}")
    try:
        parts = urlsplit(arguments.url)
        _ = parts.port, (parts.hostname or "").encode("idna")
    except ValueError:
        raise RemoteProblem(f"--url is no address that a gateway can have: {arguments.url}") from None
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Authorization": f"Bearer {arguments.key}", "Content-Type": "application/json"}
    request = Request(url, data=data, method=method, headers=headers)  # noqa: S310 - checked above
    try:
        # No proxy from the environment: the key goes to the gateway and nobody else.
        with build_opener(ProxyHandler({})).open(request, timeout=timeout_s) as answer:
            yield answer
    except HTTPError as problem:
        code, told = _told(problem)
        raise _KINDS.get(code, RemoteAway if problem.code in _PASSING else RemoteProblem)(told) from None
    except (URLError, OSError, HTTPException) as unreachable:
        reason = getattr(unreachable, "reason", unreachable)
        raise RemoteAway(f"no gateway answers at {arguments.url}: {reason}; is `oncegate serve` running?") from None


def events(arguments: argparse.Namespace, company: str, conversation: str | None, after: int = 0) -> Iterator[Any]:
    """All events numbered above `after`, a page at a time. Raises LogBegunAnew where there are fewer than `after`, and
    RemoteProblem."""
    while True:
        query = {"company": company, "conversation": conversation, "after": after, "limit": EVENTS_PAGE}
        answer = ask(arguments, "GET", path("events"), query=query)
        page, last = answer["events"], answer.get("last", after)  # an older gateway does not say
        if last < after:
            raise LogBegunAnew(
                f"the log ends with event {last}, before the {after} that is to be gone on from: it lost some, or "
                "expired and began anew; read it from its start"
            )
        yield from page
        if len(page) < EVENTS_PAGE:
            return
        after = page[-1]["seq"]


def feed(
    arguments: argparse.Namespace, company: str, since: str | None = None, cursor: str | None = None
) -> Iterator[tuple[list[Any], str]]:
    """A company's feed, a page at a time: events, and the cursor behind them. Raises RemoteProblem."""
    while True:
        query = {"company": company, "since": since, "cursor": cursor, "limit": EVENTS_PAGE}
        page = ask(arguments, "GET", path("events", "feed"), query=query)
        cursor = str(page["cursor"])
        yield page["events"], cursor
        if not page["more"]:
            return


def stream(arguments: argparse.Namespace, company: str, conversation: str | None, after: int) -> Iterator[Any]:
    """Events numbered above `after` as they come, until the gateway ends the stream. Raises RemoteAway where it may be
    asked again, LogBegunAnew where there are fewer than `after`, else RemoteProblem."""
    query: dict[str, str | int | None] = {"company": company, "conversation": conversation, "after": after}
    # A silent stream sends a comment every 15 s; one that sends nothing for so long is dead.
    with _opened(arguments, "GET", path("events") + "/stream", query, None, SILENT_S) as answer:
        for line in answer:
            if line.startswith(b"data: ") and line.endswith(b"\n"):  # one that was cut short comes again
                yield json.loads(line[6:])


def run(arguments: argparse.Namespace) -> int:
    """Run the chosen action; a problem is one line on standard error and exit status 1."""
    try:
        status: int = arguments.act(arguments)
    except RemoteProblem as problem:
        print(f"oncegate: {problem}", file=sys.stderr)
        return 1
    return status


def show(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def show_exact(value: Any) -> None:
    """What was read `exact`, on one line."""
    print(exact_json.encode(value))


def word(value: Any) -> str:
    """A value within a line: text as it is, unless it would break the line; anything else as JSON."""
    if isinstance(value, str) and value.isprintable():
        return value
    return json.dumps(value, ensure_ascii=False)


def typed(name: str, otherwise: str) -> str:
    """A name as it is typed in a shell; one that cannot be typed stays open."""
    return shlex.quote(name) if name.isprintable() else otherwise


def said_by(event: dict[str, Any]) -> str:
    """What an event says besides when, what and of which effect."""
    common = ("seq", "type", "at", "effect_id")
    return ", ".join(f"{name} {word(value)}" for name, value in event.items() if name not in common)


def _told(problem: HTTPError) -> tuple[str, str]:
    """A problem's code ("" for what is none), and what is said of it."""
    try:
        body = json.loads(problem.read(_MOST_BYTES))
        said = f"{problem.code} {body['code']}: {body['message']}"
        lines = map(_line, body.get("fields") or [])
        return str(body["code"]), "\n  ".join([said, *(line for line in lines if line not in said)])
    except (ValueError, KeyError, TypeError):
        return "", f"the gateway answered {problem.code} {problem.reason}"


def _integer(digits: str) -> int | str:
    """A merchant's result may hold an integer of any length; Python makes none of over 4,300 digits."""
    return int(digits) if len(digits) <= _MOST_DIGITS else digits


def _line(field: Any) -> str:
    if isinstance(field, dict):
        return f"{field.get('field', '')}: {field.get('problem', '')}"
    return str(field)
