"""The API as a table: every operation there is, what it takes, and what it may answer."""

from __future__ import annotations

from collections.abc import Callable

from gateway.core import errors as e
from gateway.core.rights import Right
from gateway.core.strict_json import Json
from gateway.service.declarations import CompanyBody, NotAcceptable, ToolBody, read_company, read_tool
from gateway.web import models as m
from gateway.web.call_fields import BATCH_DEPTH, CALL_DEPTH, CALL_SCHEMA, read_call, read_calls
from gateway.web.calls import Calls
from gateway.web.companies import Companies
from gateway.web.effect_operations import approval_operations, effect_operations
from gateway.web.event_stream import EventStreams
from gateway.web.lookups import Lookups
from gateway.web.openapi_answers import ANSWER_SCHEMA, BATCH_SCHEMA
from gateway.web.operations import DOCUMENT_DEPTH, Answered, Body, Operation
from gateway.web.probes import Probes
from gateway.web.readiness import Readiness
from gateway.web.services import Services
from gateway.web.tools import Tools

CALL_PROBLEMS = (
    e.UnknownTool,
    e.AttemptSuperseded,
    e.ToolCallIdReused,
    e.InvalidArguments,
    e.CallInFlight,
    e.RateLimited,
    e.ConversationFull,
    e.MerchantUnreachable,
    e.MerchantNotReady,
    e.MerchantReplyInvalid,
)
BATCH_ITEM = {"anyOf": [CALL_SCHEMA, {"description": "Anything else gets a problem as its entry; the others run."}]}


def operations(services: Services, calls: Calls, openapi: Callable[[], bytes]) -> tuple[Operation, ...]:
    """All operations, bound to the services."""
    return (
        *_call_operations(services, calls),
        *effect_operations(services),
        *approval_operations(services, calls),
        *_company_operations(services),
        *_tool_operations(services),
        *_open_operations(services, openapi),
    )


def _call_operations(services: Services, calls: Calls) -> tuple[Operation, ...]:
    lookups, limits = Lookups(services), services.limits
    replayed = {"Idempotent-Replayed": "`true` when the outcome was recorded before"}
    return (
        Operation(
            "POST",
            "/v1/calls",
            "call",
            "Run one tool call, or get the outcome it already has.",
            calls.one,
            {200: Answered("Something to show the model.", ANSWER_SCHEMA, headers=replayed)},
            body=Body(CALL_SCHEMA, read_call, CALL_DEPTH, limits.body_bytes),
            problems=CALL_PROBLEMS,
        ),
        Operation(
            "POST",
            "/v1/calls/batch",
            "callBatch",
            "Run several calls side by side; one entry each, a problem where a call failed.",
            calls.batch,
            {200: Answered("An entry for each call, in order.", BATCH_SCHEMA)},
            body=Body(
                {
                    "type": "object",
                    "properties": {"calls": {"type": "array", "items": BATCH_ITEM, "maxItems": limits.batch_calls}},
                    "required": ["calls"],
                    "additionalProperties": False,
                },
                lambda document: read_calls(document, limits.batch_calls),
                BATCH_DEPTH,
                limits.batch_body_bytes,
            ),
        ),
        Operation(
            "GET",
            "/v1/calls",
            "lookUpCalls",
            "The stored records of one id with their events, or a page of a company's unknown outcomes.",
            lookups.calls,
            {200: Answered("The records.", m.RecordList)},
            query=m.CallsQuery,
        ),
        Operation(
            "GET",
            "/v1/events",
            "listEvents",
            "A page of the events of a conversation or, without one, of the company, in order.",
            lookups.events,
            {200: Answered("The events.", m.EventList)},
            query=m.EventsQuery,
        ),
        Operation(
            "GET",
            "/v1/events/feed",
            "readFeed",
            "A page of the sealed events of all of a company's conversations, each at least once.",
            lookups.feed,
            {200: Answered("The events, and where to go on.", m.FeedShown)},
            query=m.FeedQuery,
        ),
        Operation(
            "GET",
            "/v1/events/seal",
            "getSeal",
            "How far the events of a conversation or, without one, of the company are sealed.",
            lookups.seal,
            {200: Answered("The seal.", m.SealShown)},
            query=m.SealQuery,
        ),
        Operation(
            "GET",
            "/v1/events/stream",
            "streamEvents",
            "The same as they come, as server-sent events; `Last-Event-ID` goes on behind an event.",
            EventStreams(services).stream,
            {200: Answered("Events, until the reader leaves.", {"type": "object"}, media="text/event-stream")},
            query=m.StreamQuery,
            problems=(e.BeyondLog, e.RateLimited),
        ),
    )


def _company_operations(services: Services) -> tuple[Operation, ...]:
    companies, limit = Companies(services), services.limits.body_bytes
    path = "/v1/companies/{company}"
    return (
        Operation(
            "GET",
            path,
            "getCompany",
            "A company's settings as they stand.",
            companies.get,
            {200: Answered("The settings.", m.CompanyShown)},
            right=Right.READ_TOOLS,
        ),
        Operation(
            "PUT",
            path,
            "putCompany",
            "Replace a company's settings; what is left out follows the platform's.",
            companies.put,
            {200: Answered("The settings as they now stand.", m.CompanyShown)},
            body=Body(CompanyBody, _declared(read_company), DOCUMENT_DEPTH, limit),
            problems=(e.VersionConflict, e.RegistrationRefused),
            right=Right.WRITE_COMPANY,
        ),
        Operation(
            "GET",
            path + "/secrets",
            "listSecrets",
            "The ids of a company's signing secrets, newest first.",
            companies.secrets,
            {200: Answered("The ids.", m.SecretList)},
            right=Right.SECRETS,
        ),
        Operation(
            "POST",
            path + "/secrets",
            "addSecret",
            "Add a signing secret; its value is shown this once.",
            companies.add_secret,
            {201: Answered("The new secret.", m.SecretShown)},
            body=Body(m.EmptyBody, _empty, DOCUMENT_DEPTH, limit, optional=True),
            problems=(e.VersionConflict, e.RegistrationRefused),
            right=Right.SECRETS,
        ),
        Operation(
            "DELETE",
            path + "/secrets/{secret}",
            "retireSecret",
            "Retire a signing secret.",
            companies.retire_secret,
            {204: Answered("It signs nothing from now on.", None)},
            problems=(e.VersionConflict, e.RegistrationRefused),
            right=Right.SECRETS,
        ),
    )


def _tool_operations(services: Services) -> tuple[Operation, ...]:
    tools, limit = Tools(services), services.limits.body_bytes
    path = "/v1/companies/{company}/tools"
    return (
        Operation(
            "GET",
            path,
            "listTools",
            "A company's tools, ready to hand to a model.",
            tools.listed,
            {200: Answered("The tools, in the form that was asked for.", m.ToolList)},
            query=m.ToolsQuery,
            right=Right.READ_TOOLS,
        ),
        Operation(
            "GET",
            path + "/{tool}",
            "getTool",
            "One registered tool.",
            tools.get,
            {200: Answered("The tool.", m.ToolShown)},
            right=Right.READ_TOOLS,
        ),
        Operation(
            "PUT",
            path + "/{tool}",
            "putTool",
            "Register a tool, or register it anew.",
            tools.put,
            {200: Answered("The stored tool, its verdict and what lint found.", m.ToolShown)},
            body=Body(ToolBody, _declared(read_tool), DOCUMENT_DEPTH, limit),
            problems=(e.VersionConflict, e.RegistrationRefused),
            right=Right.WRITE_TOOLS,
        ),
        Operation(
            "DELETE",
            path + "/{tool}",
            "deleteTool",
            "Remove a tool; its recorded calls still replay.",
            tools.delete,
            {204: Answered("It is removed.", None)},
            problems=(e.VersionConflict, e.RegistrationRefused),
            right=Right.WRITE_TOOLS,
        ),
    )


def _open_operations(services: Services, openapi: Callable[[], bytes]) -> tuple[Operation, ...]:
    probes, text = Probes(services, openapi), {"type": "string"}
    return (
        Operation(
            "GET",
            "/livez",
            "live",
            "Does this process answer? Asks nothing else.",
            probes.live,
            {200: Answered("It does.", m.Health)},
            open=True,
        ),
        Operation(
            "GET",
            "/readyz",
            "ready",
            "Could a call be recorded now?",
            Readiness(services),
            {200: Answered("It could.", m.Health)},
            problems=(e.LedgerUnavailable, e.Stopping),
            open=True,
        ),
        Operation(
            "GET",
            "/metrics",
            "metrics",
            "Counts and times, in Prometheus' text format.",
            probes.metrics,
            {200: Answered("All series.", text, media="text/plain")},
            open=True,
        ),
        Operation(
            "GET",
            "/openapi.json",
            "openapi",
            "This document.",
            probes.openapi,
            {200: Answered("OpenAPI 3.1.", {"type": "object"})},
            open=True,
        ),
        Operation(
            "GET",
            "/problems/{code}",
            "problem",
            "What a problem's `type` points to.",
            probes.problem,
            {200: Answered("What it means and what to do.", m.ProblemKind)},
            open=True,
        ),
    )


def _declared(read: Callable[[object], object]) -> Callable[[Json], Json]:
    """Check the form here, so that no use case begins with a malformed body; the use case reads it again."""

    def checked(document: Json) -> Json:
        try:
            read(document)
        except NotAcceptable as wrong:
            raise e.Malformed(str(wrong), details={"fields": wrong.problems}) from None
        return document

    return checked


def _empty(document: Json) -> Json:
    if document != {}:
        raise e.Malformed(
            "the body must be empty or an empty object",
            details={"fields": [{"field": "", "problem": "must be empty or an empty object"}]},
        )
    return document
