"""`oncegate events export`: events as JSON Lines, from a company's feed or one conversation's log (7.6)."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, TextIO

from gateway.commands import remote

EXAMPLES: Final = """\
examples:
  oncegate events export acme --since 24h > day.jsonl
  oncegate events export acme --output events.jsonl
  oncegate events export acme --cursor 1780000000000-0      (goes on where another export ended)
  oncegate events export acme --conversation c-42 --until 2026-05-04T12:00:00Z

One event a line, with its company and conversation (null: the company's own). A company's export has what is sealed,
so it ends some seconds before now; a conversation's has all. How to go on is said on standard error, also where the
export breaks off: from behind the last line, or, of a company with --until, from before the first event that was later
(what comes again is the same). With --output the file is there whole or not at all.
Exit status 0: done; 1: broken off, or refused.
"""
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhdw])")
_BEGINNING: Final = datetime.fromtimestamp(0, UTC)
"""Nothing happened before it, and the gateway knows no such times."""
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def prepare(parser: argparse.ArgumentParser) -> None:
    remote.add_options(parser)
    parser.add_argument("company")
    parser.add_argument("--conversation", metavar="NAME", help="of this one only")
    parser.add_argument(
        "--since", metavar="TIME|DURATION", type=_time, help="from then on: a time, or 90s, 30m, 24h, 7d"
    )
    parser.add_argument("--until", metavar="TIME|DURATION", type=_time, help="up to then")
    parser.add_argument("--cursor", help="go on behind an export that said so")
    parser.add_argument("--output", metavar="FILE", type=Path, help="write there (default: standard output)")
    parser.set_defaults(run=remote.run, act=_export)


def _time(text: str) -> datetime:
    """A time with its zone (without: the machine's own), or how long ago."""
    ago = _DURATION.fullmatch(text)
    try:
        if ago is not None:
            return max(_BEGINNING, datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])}))
        return max(_BEGINNING, datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError("a time such as 2026-05-04T12:00:00Z, or 90s, 30m, 24h, 7d") from None


def _export(arguments: argparse.Namespace) -> int:
    cursor = reached = arguments.cursor
    written, later = 0, False
    try:
        with _target(arguments.output) as target:
            for events, behind in _pages(arguments):
                for event in events:
                    later = later or _later(arguments, event)
                    if _wanted(arguments, event):
                        written += 1
                        print(json.dumps({"company": arguments.company, **event}, ensure_ascii=False), file=target)
                target.flush()
                reached = reached if later else behind
                if arguments.output is None:
                    cursor = reached
            cursor = reached
    except OSError as unwritable:
        if isinstance(unwritable, BrokenPipeError):
            raise
        raise remote.RemoteProblem(f"{arguments.output}: {unwritable.strerror}; nothing was written") from None
    except remote.LogBegunAnew:
        raise  # there is no place to go on from
    except remote.RemoteProblem:
        _say(f"broken off{'' if cursor is None else f'; go on with --cursor {cursor}'}")
        raise
    if cursor is not None:
        _say(f"{written} events; go on with --cursor {cursor}")
    else:
        _say(f"{written} events; go on as this began, with a later --until: what was written comes again")
    return 0


def _say(words: str) -> None:
    print(f"oncegate: {words}", file=sys.stderr)


def _wanted(arguments: argparse.Namespace, event: dict[str, Any]) -> bool:
    at = datetime.fromisoformat(event["at"])
    return (arguments.since is None or at >= arguments.since) and not _later(arguments, event)


def _later(arguments: argparse.Namespace, event: dict[str, Any]) -> bool:
    return arguments.until is not None and datetime.fromisoformat(event["at"]) > arguments.until


def _pages(arguments: argparse.Namespace) -> Iterator[tuple[list[Any], str]]:
    """Events with their conversation, and the cursor behind them; at least one page."""
    if arguments.conversation is not None:
        yield from _of_conversation(arguments)
        return
    since = None if arguments.since is None else arguments.since.isoformat()
    last: dict[str | None, tuple[int, str]] = {}
    for events, cursor in remote.feed(arguments, arguments.company, since, arguments.cursor):
        new = []
        for event in events:
            # A feed may say an event twice. A log that went with its last effect and came again has later times.
            seq, at = last.get(event["conversation"], (0, ""))
            if event["seq"] > seq or event["at"] > at:
                last[event["conversation"]] = (event["seq"], event["at"])
                new.append(event)
        yield new, cursor


def _of_conversation(arguments: argparse.Namespace) -> Iterator[tuple[list[Any], str]]:
    if arguments.cursor is not None and not re.fullmatch(r"[0-9]{1,15}", arguments.cursor):
        raise remote.RemoteProblem("the cursor of a conversation is the number of its last event")
    after = int(arguments.cursor or 0)
    page: list[Any] = []
    for event in remote.events(arguments, arguments.company, arguments.conversation, after):
        if _later(arguments, event):
            break
        after = event["seq"]
        page.append({**event, "conversation": arguments.conversation})
        if len(page) == remote.EVENTS_PAGE:
            yield page, str(after)
            page = []
    yield page, str(after)


@contextmanager
def _target(output: Path | None) -> Iterator[TextIO]:
    """Standard output, a pipe or a device, or a file that takes its name once it is whole and on disk."""
    if output is None:
        yield sys.stdout
        return
    if output.exists() and not output.is_file():
        # A device or a pipe: a file that took its name would take it from everybody (/dev/null, as root).
        with output.open("w", encoding="utf-8") as stream:
            yield stream
        return
    output = Path(os.path.realpath(output))  # a link, /dev/stdout for one, stays a link
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", dir=output.parent, prefix=output.name, delete=False
    ) as file:
        part = Path(file.name)
        try:
            yield file.file  # type: ignore[misc]
            file.flush()
            os.fsync(file.fileno())
            part.replace(output)
        except BaseException:
            part.unlink()
            raise
