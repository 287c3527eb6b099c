"""The bodies of `PUT …/tools/{tool}` and `PUT /v1/companies/{company}`, and the same tables in files, read strictly.

Every wrong field is named at once. No message repeats a value: a body may hold what its sender did not mean to
send, and messages travel further than bodies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from gateway.core.identity import MAX_ID_BYTES, Scope, check_id
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_reading import PolicyRefused
from gateway.core.record import Fault, Mode
from gateway.core.registration import MAX_NAME_BYTES, MAX_TIMEOUT_S, MIN_TIMEOUT_S, Declared
from gateway.core.requests import OnRepeat
from gateway.core.strict_json import dumps, plain
from heuristics import Hints, nearest

Problem = dict[str, str]
"""`{"field": JSON pointer, "problem": words}`."""

MAX_URL: Final = 2_048
MAX_DESCRIPTION: Final = 16_384
MAX_OVERRIDES: Final = 1_000
MAX_STEPS: Final = 1_000
MAX_REPEAT_WINDOW_S: Final = 86_400.0
MAX_WORDS: Final = 2_000


class NotAcceptable(Exception):
    """A body that does not have the right form."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{each['field'] or '/'}: {each['problem']}" for each in problems))
        self.problems = problems


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, strict=True)


class HintsBody(_Body):
    """What a tool says of itself. It may raise protection, never lower it (3.4)."""

    readOnlyHint: bool | None = None  # noqa: N815 (MCP's name)
    destructiveHint: bool | None = None  # noqa: N815 (MCP's name)
    idempotentHint: bool | None = None  # noqa: N815 (MCP's name)
    httpMethod: Annotated[str, Field(max_length=16)] | None = None  # noqa: N815


class ToolBody(_Body):
    """A tool as its merchant declares it. A field that is null is as one left out."""

    endpoint: str = Field(max_length=MAX_URL, description="https URL that calls are sent to")
    description: str = Field("", max_length=MAX_DESCRIPTION, description="Shown to the model")
    parameters: dict[str, Any] = Field(
        default_factory=lambda: {"type": "object"},
        description="JSON Schema 2020-12 of the arguments; x-sensitive marks fields that no message may hold",
    )
    side_effecting: bool | None = Field(None, description="Overrides what the name says (3.3)")
    idempotency: Mode | None = Field(
        None, description="safe_to_retry declares that Idempotency-Key is honoured (4.6)", strict=False
    )
    on_repeat: OnRepeat | None = Field(None, description="What a repeat of a success gets (4.9)", strict=False)
    timeout_s: Annotated[float, Field(ge=MIN_TIMEOUT_S, le=MAX_TIMEOUT_S)] | None = Field(
        10.0, description="Deadline of the whole exchange, tries included (5.2)"
    )
    status_endpoint: Annotated[str, Field(max_length=MAX_URL)] | None = Field(
        None, description="https URL that is asked about calls whose outcome is not known (5.4)"
    )
    unavailable_means_not_executed: bool | None = Field(False, description="503 and 409 then release (5.1)")
    hints: HintsBody | None = None


_Glob = Annotated[str, Field(min_length=1, max_length=MAX_NAME_BYTES)]


class CompanyBody(_Body):
    """What a company may set. The whole is replaced; what is left out or null follows the platform's settings."""

    max_steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] | Literal["off"] | None = Field(
        None, description="Steps a turn may have (7.1); off: not limited"
    )
    call_id_scope: Scope | None = Field(None, description="What a tool_call_id names a call within (2.3)", strict=False)
    overrides: Annotated[dict[_Glob, bool], Field(max_length=MAX_OVERRIDES)] | None = Field(
        None, description="Tool name or glob to side-effecting (3.3)"
    )
    heuristic: Literal["words", "platform"] | None = Field(None, description="How names are judged (3.1, 3.2)")
    repeat_window_s: Annotated[float, Field(ge=0, le=MAX_REPEAT_WINDOW_S)] | None = Field(
        None, description="How long an identical call counts as a repeat (4.9)"
    )
    on_finding: Literal["warn", "refuse"] | None = Field(None, description="What findings do (3.5)")
    runtime_may_resolve: bool | None = Field(
        None, description="Whether a runtime key may resolve unknown outcomes, naming its evidence (5.5)"
    )
    customer_may_approve: bool | None = Field(
        None, description="Whether the customer may approve a held repeat, as the runtime tells it (7.4)"
    )
    policy: dict[str, Any] | None = Field(
        None, description="The company's own rules (7.3): default_action and rules; numbers are exact"
    )


_Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_BYTES), BeforeValidator(check_id)]
_Words = Annotated[str, Field(min_length=1, max_length=MAX_WORDS)]


class ErrorBody(_Body):
    """Why it was not done, as the assistant is told."""

    code: str = Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")
    message: _Words


class ResolutionBody(_Body):
    """How an unknown outcome ended (5.5)."""

    company: _Id
    conversation: _Id
    outcome: Literal["succeeded", "failed", "absent"] = Field(description="absent: it never happened; its id is free")
    note: _Words = Field(description="Why, for the event log")
    result: Any = Field(None, description="Required with succeeded: what the call gave")
    error: ErrorBody | None = Field(None, description="With failed; left out: not_executed")
    evidence: _Words | None = Field(None, description="Where it was seen; required of a runtime key")


class Resolution(msgspec.Struct, frozen=True):
    """A resolution, read. `result` is JSON text as it was sent, digit for digit (2.10)."""

    company: str
    conversation: str
    outcome: Literal["succeeded", "failed", "absent"]
    note: str
    result: bytes | None = None
    fault: Fault | None = None
    evidence: str | None = None


NOT_EXECUTED: Final = Fault("not_executed", "It was not done.")


B = TypeVar("B", bound=BaseModel)


def read_tool(body: object) -> Declared:
    """Raises NotAcceptable."""
    read = _read(ToolBody, body)
    hints = read.hints or HintsBody()
    return Declared(
        endpoint=read.endpoint,
        description=read.description,
        parameters=read.parameters,
        side_effecting=read.side_effecting,
        idempotency=read.idempotency,
        on_repeat=read.on_repeat,
        timeout_s=10.0 if read.timeout_s is None else read.timeout_s,
        status_endpoint=read.status_endpoint,
        unavailable_means_not_executed=bool(read.unavailable_means_not_executed),
        hints=Hints(hints.readOnlyHint, hints.destructiveHint, hints.idempotentHint, hints.httpMethod),
    )


def read_company(body: object, company: str | None = None) -> dict[str, Any]:
    """What is stated, as JSON-ready values. `company`: whose it is, which its policy has to fit. Raises
    NotAcceptable."""
    stated = _read(CompanyBody, body).model_dump(mode="json", exclude_none=True)
    if "policy" in stated and isinstance(body, dict):
        try:
            read_bundle(body["policy"], company)
        except PolicyRefused as refused:
            raise NotAcceptable(
                [{"field": _pointer(("policy", *each.at)), "problem": each.problem} for each in refused.problems]
            ) from None
        # As text, since an amount of money must not become a binary fraction on its way.
        stated["policy"] = dumps(body["policy"])
    return stated


def read_resolution(body: object) -> Resolution:
    """Raises NotAcceptable."""
    sent = body if isinstance(body, dict) else {}
    read = _read(ResolutionBody, {**sent, "result": None} if "result" in sent else body)
    succeeded, failed = read.outcome == "succeeded", read.outcome == "failed"
    problems = [
        {"field": field, "problem": problem}
        for field, problem, wrong in (
            ("/result", "is required with succeeded", succeeded and "result" not in sent),
            ("/result", "goes with succeeded only", not succeeded and sent.get("result") is not None),
            ("/error", "goes with failed only", not failed and read.error is not None),
        )
        if wrong
    ]
    if problems:
        raise NotAcceptable(problems)
    error = Fault(read.error.code, read.error.message) if read.error is not None else NOT_EXECUTED
    return Resolution(
        company=read.company,
        conversation=read.conversation,
        outcome=read.outcome,
        note=read.note,
        result=dumps(sent["result"]).encode() if succeeded else None,
        fault=error if failed else None,
        evidence=read.evidence,
    )


def _pointer(path: Iterable[str | int]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def unknown_field(name: str, known: Iterable[str]) -> str:
    """`is not a known field`, and the one that was probably meant."""
    near = nearest(name, known, 1)
    return f"is not a known field; did you mean {near[0]}?" if near else "is not a known field"


def _read(form: type[B], body: object) -> B:
    try:
        return form.model_validate(plain(body))
    except ValidationError as wrong:
        errors = wrong.errors(include_url=False, include_context=True, include_input=False)
    # Outside the handler: the library's error holds the values.
    problems: dict[str, Problem] = {}
    for each in errors[:50]:
        problem = _problem(form, dict(each))
        if problem["field"] in problems:  # several branches of one union
            problem["problem"] = f"{problems[problem['field']]['problem']}, or {problem['problem']}"
        problems[problem["field"]] = problem
    raise NotAcceptable(list(problems.values()))


def _problem(form: type[BaseModel], error: Mapping[str, Any]) -> Problem:
    place = [str(part)[:80] for part in error["loc"] if not str(part).startswith(_BRANCHES)]
    field = "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in place)
    kind = error["type"]
    if kind == "missing":
        return {"field": field, "problem": "is required"}
    if kind == "extra_forbidden":
        known = _INNER.get(place[0], form) if len(place) > 1 else form
        return {"field": field, "problem": unknown_field(place[-1], known.model_fields)}
    if kind in ("model_type", "dict_type"):
        return {"field": field, "problem": "must be an object"}
    said = str(error["msg"]).removeprefix("Value error, ")
    return {"field": field, "problem": said.replace("Input should be", "must be").replace("valid ", "")}


_INNER: Final[Mapping[str, type[BaseModel]]] = {"hints": HintsBody, "error": ErrorBody}
_BRANCHES: Final = ("[key]", "constrained-", "literal[", "HintsBody")
"""How the library names the branch of a union that it tried, among the parts of a place."""
