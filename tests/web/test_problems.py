"""Problem documents: every error of the wire has a row, a page section and a place in the OpenAPI document."""

from __future__ import annotations

import errno
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gateway.web.app  # noqa: F401  (so that every module that defines errors is imported)
from gateway.core.errors import CallInFlight, ConfigError, GatewayError, LedgerUnavailable, RateLimited, UnknownTool
from gateway.web.openapi import document, problems_of
from gateway.web.problems import PROBLEMS, described, outcome_of, problem, row_of, wait_s

ERRORS_MD = Path(__file__).parents[2] / "docs" / "errors.md"


def _below(kind: type[GatewayError]) -> Iterator[type[GatewayError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _below(below)


WIRE = sorted(
    {kind for kind in _below(GatewayError) if "code" in vars(kind) and kind is not ConfigError}, key=lambda k: k.code
)


@pytest.mark.parametrize("kind", WIRE, ids=lambda kind: kind.code)
def test_every_error_of_the_wire_has_a_row_and_a_section(kind: type[GatewayError]) -> None:
    """Architecture, Errors: each subclass has a row in web/problems.py and a heading in docs/errors.md."""
    assert kind in PROBLEMS
    page = ERRORS_MD.read_text()
    _, found, rest = page.partition(f"\n## `{kind.code}`\n")
    assert found, f"docs/errors.md has no heading for {kind.code}"
    section = rest.partition("\n## ")[0]
    retryable = "retryable" if kind.retryable else "not retryable"
    assert f"{kind.status}, {retryable}, `{outcome_of(kind)}`. {kind.title}." in section
    assert PROBLEMS[kind].next in section


def test_the_table_and_the_page_name_nothing_else() -> None:
    """A row or a heading that outlives its error stands out."""
    assert set(PROBLEMS) == set(WIRE)
    headings = {line[4:-1] for line in ERRORS_MD.read_text().splitlines() if line.startswith("## `")}
    assert headings == {kind.code for kind in WIRE}


def test_codes_are_told_apart() -> None:
    """One code, one meaning."""
    assert len({kind.code for kind in WIRE}) == len(WIRE)


def test_every_problem_can_be_answered_by_some_documented_operation(gateway: Any) -> None:
    """The OpenAPI document lists each of them somewhere; those of routing alone belong to no operation."""
    listed = {kind for operation in gateway.app.operations for kind in problems_of(operation)}
    assert {kind.code for kind in set(WIRE) - listed} == {"method_not_allowed"}


class _Fuller(LedgerUnavailable):
    pass


def test_a_finer_error_speaks_as_the_one_above_it() -> None:
    """Adapters may raise finer kinds; the wire knows the nearest with a row."""
    assert row_of(_Fuller) is PROBLEMS[LedgerUnavailable]
    assert problem(_Fuller(), "r")["code"] == "ledger_unavailable"


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (CallInFlight(), 1),
        (CallInFlight(retry_after_s=0.01), 1),
        (RateLimited(retry_after_s=12.5), 13),
        (RateLimited(retry_after_s=0), 0),
        (RateLimited(retry_after_s=-3), 0),
        (RateLimited(retry_after_s=1e9), 3_600),
        (RateLimited(retry_after_s=float("inf")), 3_600),
        (RateLimited(retry_after_s=float("nan")), None),
        (UnknownTool(retry_after_s=5), None),
    ],
)
def test_a_wait_is_whole_seconds_within_an_hour(error: GatewayError, seconds: int | None) -> None:
    """RFC 9110, 10.2.3: and none where waiting would not help."""
    assert wait_s(error) == seconds


def test_details_of_an_error_never_replace_its_own_members() -> None:
    """A service's details are members beside the standard ones."""
    found = problem(UnknownTool("m", details={"status": 200, "code": "x", "nearest": ["near"]}), "r")
    assert (found["status"], found["code"], found["nearest"]) == (404, "unknown_tool", ["near"])


async def test_what_a_problem_points_to_is_there(gateway: Any) -> None:
    """RFC 9457, 3.1.1: the type leads to what it means."""
    refused = await gateway.call(tool="no_such")
    page = await gateway.get(refused.problem["type"], key=None)
    assert page.status == 200
    assert page.json() == described(UnknownTool)
    assert (await gateway.get("/problems/no_such", key=None)).status == 404


async def test_an_unknown_tool_is_answered_with_the_nearest_names(gateway: Any) -> None:
    """Section 8: 404 with what was probably meant."""
    answer = await gateway.call(tool="place_ordr")
    assert (answer.status, answer.problem["nearest"][0]) == (404, "place_order")
    assert "fields" not in answer.problem


def test_fields_have_one_shape_in_the_document_that_describes_them(gateway: Any) -> None:
    """A client reads `fields` of every code in one way; names of tools stand elsewhere."""
    problem = document(gateway.app.operations)["components"]["schemas"]["Problem"]["properties"]
    assert problem["fields"]["items"] == {"$ref": "#/components/schemas/FieldProblem"}
    assert problem["nearest"]["items"] == {"type": "string"}


async def test_k8_12_ten_thousand_bad_requests_are_ten_thousand_short_lines(gateway: Any, caplog: Any) -> None:
    """K8-12: at most one short line each, no traces, no bodies, no keys, no paths."""
    junk = [
        {"key": None},
        {"key": "k-secret"},
        {"body": b'{"secret": '},
        {"body": b"\xff" * 50},
        {"body": b"[1]", "headers": [("content-encoding", "gzip")]},
    ]
    rounds = 2_000
    with caplog.at_level(logging.DEBUG):
        for number in range(rounds):
            for one in junk:
                answer = await gateway.ask("POST", "/v1/calls", **one)
                assert 400 <= answer.status < 500
            if number == 0:
                once = len(caplog.records)
                assert (await gateway.get("/secret/%0a%1b[31m?secret")).status == 404
    lines = [record.getMessage() for record in caplog.records]
    assert once == len(junk)
    assert len(lines) == rounds * len(junk) + 1
    assert max(map(len, lines)) < 120
    assert all(record.exc_info is None and record.stack_info is None for record in caplog.records)
    assert not any("secret" in line or "\n" in line or "\x1b" in line for line in lines)


async def test_k8_12_a_log_that_cannot_be_written_loses_no_answer(gateway: Any, caplog: Any, capsys: Any) -> None:
    """K8-12: a full disk under the log stays the log's trouble: the request is answered all the same."""

    class FullDisk(io.StringIO):
        tried = 0

        def write(self, text: str) -> int:
            self.tried += 1
            raise OSError(errno.ENOSPC, "No space left on device")

    disk = FullDisk()
    handler = logging.StreamHandler(disk)
    log = logging.getLogger("gateway.web")
    log.addHandler(handler)
    try:
        with caplog.at_level(logging.INFO, logger="gateway"):
            assert (await gateway.call(key=None)).status == 401
            assert (await gateway.call()).status == 200
    finally:
        log.removeHandler(handler)
    assert disk.tried == 1
    assert "No space left" in capsys.readouterr().err
