"""`oncegate events verify`: recompute the hash chain of event logs from what the API shows (7.6)."""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from gateway.commands import remote
from gateway.core.conversation import EventLog
from gateway.core.event_chain import Verdict, canonical, differing, verify

EXAMPLES: Final = """\
examples:
  oncegate events verify acme c-42
  oncegate events verify acme                           (its own log, and every conversation that its feed names)
  oncegate events verify acme c-42 --expect 5f0c…       (a head that was noted before)
  oncegate events verify acme --file export.jsonl       (what was exported before)

Without --expect or --file it is the ledger that vouches for itself: whoever can write there can write a whole log anew.
Exit status 0: no sealed event is missing or changed; 1: one is; 2: it could not be found out.
"""
Kept = dict[str | None, dict[int, Any]]


def prepare(parser: argparse.ArgumentParser) -> None:
    remote.add_options(parser)
    parser.add_argument("company")
    parser.add_argument("conversation", nargs="?")
    parser.add_argument("--expect", metavar="HASH", type=_hash, default=b"", help="a head of this log that was noted")
    parser.add_argument("--file", metavar="FILE", help="events that were exported: each has to be there unchanged")
    parser.set_defaults(run=_run)


def _hash(text: str) -> bytes:
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 32:
        raise argparse.ArgumentTypeError("a head has 64 hex digits")
    return found


def _run(arguments: argparse.Namespace) -> int:
    if arguments.expect and arguments.conversation is None:
        return _cannot("--expect needs the conversation whose head it is")
    try:
        kept = _kept(arguments.file, arguments.company) if arguments.file else {}
        if arguments.file and not kept:
            return _cannot(f"{arguments.file} has no event")
        if arguments.file and arguments.conversation is not None and arguments.conversation not in kept:
            return _cannot(f"{arguments.file} has no event of {remote.word(arguments.conversation)}")
        wrong = found = 0
        for conversation in _conversations(arguments, kept):
            verdict, bad = _one(arguments, conversation, kept.get(conversation, {}))
            wrong, found = wrong + bad, found + verdict.sealed + verdict.unsealed
    except remote.RemoteProblem as problem:
        return _cannot(str(problem))
    except (OSError, ValueError) as unreadable:
        return _cannot(f"{arguments.file}: {unreadable}")
    if not (wrong or found):  # what has no events is all there, and so is what is misspelt
        asked = " ".join(remote.word(each) for each in (arguments.company, arguments.conversation) if each is not None)
        return _cannot(f"{asked} has no events: is that its name?")
    return 1 if wrong else 0


def _cannot(why: str) -> int:
    print(f"oncegate: {why}", file=sys.stderr)
    return 2


def _kept(name: str, company: str) -> Kept:
    """Events of a file, by conversation and number. Raises ValueError naming the line that none can be held to: passed
    over, it would be said to be there unchanged."""
    kept: Kept = defaultdict(dict)
    with open(name, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                event = json.loads(line)
                conversation, seq, form = event.get("conversation"), event["seq"], canonical(event)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise ValueError(f"line {number} is not an exported event") from None
            if conversation is not None and (type(conversation) is not str or not conversation):
                raise ValueError(f"line {number} is not an exported event")
            if type(seq) is not int or seq < 1:
                raise ValueError(f"line {number} is not an exported event")
            if event.get("company", company) != company:
                raise ValueError(f"line {number} is of another company")
            if canonical(kept[conversation].setdefault(seq, event)) != form:
                raise ValueError(f"line {number} says otherwise than a line before it what event {seq} is")
    return kept


def _conversations(arguments: argparse.Namespace, kept: Kept) -> Iterator[str | None]:
    """None: the company's own log."""
    if arguments.conversation is not None:
        yield arguments.conversation
        return
    seen: set[str | None] = {None}
    yield None
    for events, _ in remote.feed(arguments, arguments.company):
        for event in events:
            if event["conversation"] not in seen:
                seen.add(event["conversation"])
                yield event["conversation"]
    yield from (each for each in kept if each not in seen)


def _one(arguments: argparse.Namespace, conversation: str | None, kept: dict[int, Any]) -> tuple[Verdict, bool]:
    """Verify one log and say what was found; whether something is wrong."""
    query = {"company": arguments.company, "conversation": conversation}
    # The seal before the events: both only grow.
    seal = remote.ask(arguments, "GET", remote.path("events", "seal"), query=query)
    head = None if seal["head"] is None else bytes.fromhex(seal["head"])
    events = list(remote.events(arguments, arguments.company, conversation))
    digest = EventLog(arguments.company, conversation or "").digest
    verdict = verify(digest, seal["sealed"], head, events, expect=arguments.expect)
    wrong = [*([verdict.wrong] if verdict.wrong else []), *differing(events, kept)]
    _say(arguments, conversation, verdict, wrong, len(kept))
    return verdict, bool(wrong)


def _say(
    arguments: argparse.Namespace, conversation: str | None, found: Verdict, wrong: list[str], copied: int
) -> None:
    said = {"company": arguments.company, "conversation": conversation, "wrong": wrong, "sealed": found.sealed}
    said |= {"unsealed": found.unsealed, "head": found.head.hex() if found.sealed else None}
    there = ""
    if arguments.file:
        said["copied"] = copied
        there = f"; all {copied} of the copy are there" if copied else "; the copy has none of it"
    if arguments.json:
        print(json.dumps(said, ensure_ascii=False))
        return
    name = arguments.company if conversation is None else f"{arguments.company} {remote.word(conversation)}"
    if wrong:
        print(f"{name}: WRONG: {'; '.join(wrong)}")
    elif found.sealed:
        print(f"{name}: {found.sealed} sealed, {found.unsealed} not yet; head {found.head.hex()}{there}")
    else:
        print(f"{name}: nothing is sealed yet; events: {found.unsealed}{there}")
