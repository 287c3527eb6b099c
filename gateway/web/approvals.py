"""`/v1/approvals`: what waits for somebody, and their decisions."""

from __future__ import annotations

from gateway.core.strict_json import Json
from gateway.service.decide_approval import Verdict
from gateway.web.call_fields import Field, read_fields, rows
from gateway.web.calls import Calls
from gateway.web.models import ApprovalsQuery
from gateway.web.operations import Asked
from gateway.web.replies import Reply, json_reply
from gateway.web.services import Services

MAX_WORDS = 2_000


class Approvals:
    def __init__(self, services: Services, calls: Calls) -> None:
        self._decide = services.decide_approval
        self._calls = calls

    async def pending(self, asked: Asked) -> Reply:
        """A page of a company's open approvals."""
        query: ApprovalsQuery = asked.query
        found, cursor = await self._decide.pending(asked.caller, query.company, query.cursor, query.limit)
        return json_reply({"approvals": found, "cursor": cursor})

    async def get(self, asked: Asked) -> Reply:
        return json_reply(await self._decide.get(asked.caller, asked.path["approval"]))

    async def grant(self, asked: Asked) -> Reply:
        """Runs the stored call: whoever hangs up meanwhile changes nothing (5.3)."""
        work = self._decide.grant(asked.caller, asked.path["approval"], asked.body, asked.trace)
        return json_reply(await self._calls.detached(work))

    async def deny(self, asked: Asked) -> Reply:
        return json_reply(await self._decide.deny(asked.caller, asked.path["approval"], asked.body))


def _words(sent: Json) -> str | None:
    if sent is None or (type(sent) is str and 0 < len(sent) <= MAX_WORDS):
        return sent
    raise ValueError(f"must be a text of 1 to {MAX_WORDS:,} characters")


_WORDS_SCHEMA = {"type": ["string", "null"], "minLength": 1, "maxLength": MAX_WORDS}
_FIELDS = (
    Field("rationale", _words, {**_WORDS_SCHEMA, "description": "why, for the event log"}),
    Field(
        "customer_message",
        _words,
        {**_WORDS_SCHEMA, "description": "the customer's own words; required of a runtime key, which speaks for them"},
    ),
)
VERDICT_SCHEMA = {
    "type": "object",
    "properties": {field.name: field.schema for field in _FIELDS},
    "additionalProperties": False,
}


def read_verdict(document: Json) -> Verdict:
    """Raises Malformed."""
    return Verdict(**read_fields(document, rows(_FIELDS), lambda *_: None))
