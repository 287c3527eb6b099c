"""The OpenAPI document is true to the code: it is fuzzed, and read for what it must say."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from schemathesis import engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events

from gateway.core import identity
from gateway.core.answer import Answer
from gateway.web.call_fields import FIELDS

API_MD = Path(__file__).parents[2] / "docs" / "api.md"
CONFIG = {
    "headers": {"Authorization": "Bearer k-operator"},
    "seed": 2026,
    "workers": 1,
    "generation": {"max-examples": 40, "deterministic": True, "no-shrink": True, "database": "none"},
    "phases": {"stateful": {"enabled": False}},
    "checks": {
        # What JSON Schema cannot say makes 400s of data that fits it: bytes of an id, a step without a turn, JSON in
        # text. Names that fit may still be refused (422).
        "positive_data_acceptance": {"expected-statuses": ["2xx", "400", "404", "409", "422"]},
        "negative_data_rejection": {"expected-statuses": ["4xx"]},
        "not_a_server_error": {"expected-statuses": ["2xx", "4xx"]},
    },
}


@pytest.fixture(scope="module")
def api(make_gateway: Any) -> Any:
    gateway = make_gateway()
    asyncio.run(gateway.register("place_order", "get_order"))
    asyncio.run(leave_unknown(gateway))
    return gateway


async def leave_unknown(gateway: Any) -> None:
    """One call whose outcome never comes, for what resolves it: it ends unsettled with this loop."""
    gateway.merchant.gates["place_order"] = asyncio.Event()
    calling = asyncio.ensure_future(gateway.call(tool_call_id="unknown"))
    await gateway.merchant.reached.wait()
    del gateway.merchant.gates["place_order"]
    assert not calling.done()


UNKNOWN = identity.effect_id(
    "acme",
    "c-1",
    None,
    "unknown",
    identity.Kind.TOOL_CALL,
    "place_order",
    identity.read_arguments({}).canonical,
    0,
).hex()


def map_case(context: Any, case: Any) -> Any:
    """Let what fits the document reach what exists: random names would all be refused, and test little."""
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return case
    if case.path_parameters and "code" in case.path_parameters:
        case.path_parameters["code"] = "malformed"
    if isinstance(case.body, dict):
        calls = case.body.get("calls")
        for call in (case.body, *(calls if isinstance(calls, list) else ())):
            if isinstance(call, dict) and isinstance(call.get("tool"), str) and "arguments" in call:
                call["tool"] = "place_order" if len(call["tool"]) % 2 else "get_order"
                call["company"] = "acme"
        if "outcome" in case.body and case.path_parameters:
            case.path_parameters["effect_id"] = UNKNOWN
            case.body.update(company="acme", conversation="c-1")
        if "endpoint" in case.body:
            case.body["endpoint"] = "https://shop.example/tools"
            case.body["parameters"] = {"type": "object"}
            case.body.pop("status_endpoint", None)
    return case


@pytest.fixture(scope="module")
def fuzzed(api: Any) -> list[Any]:
    """All that happened when every operation of the document was tried, in and out of its bounds."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", api.app, config=SchemathesisConfig.from_dict(CONFIG))

    schema.hook(map_case)
    return list(engine.from_schema(schema).execute())


def test_no_request_gets_a_5xx_or_an_answer_that_is_not_documented(api: Any, fuzzed: list[Any]) -> None:
    """Status, media type, body and headers of every answer are those of the document; wrong keys, methods
    and values are refused."""
    assert [event for event in fuzzed if isinstance(event, events.NonFatalError | events.FatalError)] == []
    checks = [
        (event.recorder.label, check)
        for event in fuzzed
        if isinstance(event, events.ScenarioFinished)
        for of_case in event.recorder.checks.values()
        for check in of_case
    ]
    failed = {
        f"{label}: {check.name}: {check.failure_info and check.failure_info.failure.message[:300]}"
        for label, check in checks
        if check.status is not engine.Status.SUCCESS
    }
    assert sorted(failed) == []
    assert {"status_code_conformance", "response_schema_conformance", "ignored_auth", "unsupported_method"} <= {
        check.name for _, check in checks
    }


def test_the_fuzzing_reached_every_operation_and_the_services_behind_it(api: Any, fuzzed: list[Any]) -> None:
    """A search that tries nothing finds nothing: each operation was tried, and real calls were made by it."""
    tried: dict[str, set[int]] = {}
    for event in fuzzed:
        if isinstance(event, events.ScenarioFinished):
            for interaction in event.recorder.interactions.values():
                if interaction.response is not None:
                    label = event.recorder.label
                    tried.setdefault(label, set()).add(interaction.response.status_code)
    # The document's own address is where it was read from.
    assert set(tried) == {f"{o.method} {o.path}" for o in api.app.operations} - {"GET /openapi.json"}
    succeeded = {label for label, statuses in tried.items() if any(status < 300 for status in statuses)}
    # What is named by an id that is made here, no guess hits.
    unguessed = {
        "DELETE /v1/companies/{company}/secrets/{secret}",
        "GET /v1/approvals/{approval}",
        "POST /v1/approvals/{approval}/grant",
        "POST /v1/approvals/{approval}/deny",
        *(f"POST /v1/effects/{{effect_id}}/{said}" for said in ("complete", "fail", "renew", "release")),
    }
    assert set(tried) - succeeded <= unguessed
    # An effect's id comes with the answer to its submission, so that search may reach what is reported on it.
    assert "POST /v1/effects" in succeeded
    assert all(401 in statuses for label, statuses in tried.items() if label.split()[1].startswith("/v1/"))


def _document(api: Any) -> dict[str, Any]:
    answer = asyncio.run(api.get("/openapi.json", key=None))
    assert answer.status == 200
    found: dict[str, Any] = answer.json()
    return found


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for item in part.values():
            yield from _references(item)
    elif isinstance(part, list):
        for item in part:
            yield from _references(item)


def test_every_reference_in_the_document_leads_somewhere(api: Any) -> None:
    """A tool that reads it must not stumble."""
    document = _document(api)
    for reference in set(_references(document)):
        place = document
        for step in reference.removeprefix("#/").split("/"):
            place = place[step]


def test_the_document_takes_the_fields_of_the_tables_that_check_them(api: Any) -> None:
    """One table checks a call and documents it."""
    body = _document(api)["paths"]["/v1/calls"]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert list(body["properties"]) == [field.name for field in FIELDS]
    assert body["required"] == ["company", "conversation", "tool", "arguments"]
    answer = _document(api)["paths"]["/v1/calls"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert set(answer["required"]) == set(Answer.__struct_fields__)


def test_operations_that_want_a_key_say_so_and_list_what_its_lack_gets(api: Any) -> None:
    """401, 403 and 500 stand wherever they can happen."""
    for path, methods in _document(api)["paths"].items():
        for method, operation in methods.items():
            open_ = next(o.open for o in api.app.operations if (o.path, o.method) == (path, method.upper()))
            assert operation["security"] == ([] if open_ else [{"key": []}])
            assert ("401" in operation["responses"]) is not open_
            assert "500" in operation["responses"]


def test_the_page_about_the_api_has_every_operation(api: Any) -> None:
    """docs/api.md: a heading for each method of each path, and none for what is not there."""
    headings = {line[5:-1] for line in API_MD.read_text().splitlines() if line.startswith("### `")}
    assert headings == {f"{operation.method} {operation.path}" for operation in api.app.operations}
