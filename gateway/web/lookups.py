"""What is stored: `GET /v1/calls`, and `GET /v1/events` with its feed and seals."""

from __future__ import annotations

from datetime import datetime

from gateway.core.errors import Malformed
from gateway.web.models import CallsQuery, EventsQuery, FeedQuery, SealQuery
from gateway.web.operations import Asked
from gateway.web.replies import Reply, json_reply
from gateway.web.services import Services

_BY_ID = ("conversation", "tool_call_id", "turn", "step")
_LISTED = ("status", "cursor", "limit")


class Lookups:
    def __init__(self, services: Services) -> None:
        self._look_up = services.look_up
        self._feed = services.feed

    async def calls(self, asked: Asked) -> Reply:
        """One call's records by its id, or a page of a company's unknown outcomes."""
        query: CallsQuery = asked.query
        if query.status is not None:
            _refuse_stated(query, _BY_ID, "does not go with status")
            found, cursor = await self._look_up.unknown(asked.caller, query.company, query.cursor, query.limit or 100)
            return json_reply({"calls": found, "cursor": cursor})
        if query.conversation is None or query.tool_call_id is None:
            lacking = "conversation" if query.conversation is None else "tool_call_id"
            raise _wrong((lacking,), "is missing: state conversation and tool_call_id, or status=indeterminate")
        _refuse_stated(query, _LISTED, "does not go with tool_call_id")
        found = await self._look_up.calls(
            asked.caller, query.company, query.conversation, query.tool_call_id, turn=query.turn, step=query.step
        )
        return json_reply({"calls": found, "cursor": None})

    async def events(self, asked: Asked) -> Reply:
        """A page of the events of a conversation or, without one, of the company."""
        query: EventsQuery = asked.query
        events = await self._look_up.events(asked.caller, query.company, query.conversation, query.after, query.limit)
        if 0 < len(events) < query.limit:
            last = events[-1]["seq"]
        else:
            last = await self._look_up.last_event(asked.caller, query.company, query.conversation)
        return json_reply({"events": events, "last": last})

    async def feed(self, asked: Asked) -> Reply:
        """A page of a company's feed."""
        query: FeedQuery = asked.query
        page = await self._feed.page(asked.caller, query.company, _since(query.since), query.cursor, query.limit)
        return json_reply(page._asdict())

    async def seal(self, asked: Asked) -> Reply:
        """How far a log is sealed."""
        query: SealQuery = asked.query
        return json_reply(await self._feed.seal(asked.caller, query.company, query.conversation))


def _since(said: str | None) -> int:
    """Milliseconds."""
    if said is None:
        return 0
    try:
        time = datetime.fromisoformat(said)
        if time.tzinfo is None or time.timestamp() < 0:
            raise ValueError
        return int(time.timestamp() * 1000)
    except (ValueError, OverflowError):
        raise _wrong(("since",), "must be a time with its zone, such as 2026-05-04T12:00:00Z") from None


def _refuse_stated(query: CallsQuery, names: tuple[str, ...], problem: str) -> None:
    stated = tuple(name for name in names if getattr(query, name) is not None)
    if stated:
        raise _wrong(stated, problem)


def _wrong(names: tuple[str, ...], problem: str) -> Malformed:
    return Malformed(
        "; ".join(f"{name} {problem}" for name in names),
        details={"fields": [{"field": name, "problem": problem} for name in names]},
    )
