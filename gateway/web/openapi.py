"""The OpenAPI 3.1 document, made from the table that routes and checks requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from gateway import __version__
from gateway.core import errors as e
from gateway.web.call_fields import ID_SCHEMA
from gateway.web.models import Problem
from gateway.web.operations import Answered, Operation
from gateway.web.problems import PROBLEM_TYPE, wait_s

REF: Final = "#/components/schemas/{model}"
_KEYED: Final = (e.Unauthenticated, e.Forbidden, e.LedgerUnavailable)
_WITH_BODY: Final = (e.Malformed, e.TooLarge, e.EncodingRefused)
_WITH_PATH: Final = (e.Malformed, e.NotFound)


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """The whole document, as JSON-ready values."""
    names, schemas = _models(operations)
    paths: dict[str, dict[str, Any]] = defaultdict(dict)
    for operation in operations:
        paths[operation.path][operation.method.lower()] = _operation(operation, names)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Oncegate",
            "version": __version__,
            "description": "A tool gateway: every side-effecting call happens once.",
        },
        "paths": dict(paths),
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def problems_of(operation: Operation) -> list[type[e.GatewayError]]:
    """Every class of problem that an operation may answer with."""
    kinds: list[type[e.GatewayError]] = list(operation.problems)
    if not operation.open:
        kinds += _KEYED
    if operation.body is not None:
        kinds += _WITH_BODY
    if operation.parameters:
        kinds += _WITH_PATH
    # A query that is not documented is refused too.
    kinds += (e.Malformed, e.InternalFault)
    return list(dict.fromkeys(kinds))


def _operation(operation: Operation, names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [*_path_parameters(operation), *_query_parameters(operation)],
        "responses": {**_answers(operation, names), **_problem_answers(operation)},
        "security": [] if operation.open else [{"key": []}],
    }
    if operation.body is not None:
        found["requestBody"] = {
            "required": not operation.body.optional,
            "content": {"application/json": {"schema": _schema(operation.body.schema, names)}},
        }
    return found


def _answers(operation: Operation, names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    return {str(status): _answer(answered, names) for status, answered in operation.answers.items()}


def _answer(answered: Answered, names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    found: dict[str, Any] = {"description": answered.description}
    if answered.schema is not None:
        found["content"] = {answered.media: {"schema": _schema(answered.schema, names)}}
    if answered.headers:
        found["headers"] = {
            name: {"description": said, "schema": {"type": "string"}} for name, said in answered.headers.items()
        }
    return found


def _problem_answers(operation: Operation) -> dict[str, Any]:
    by_status: dict[int, list[type[e.GatewayError]]] = defaultdict(list)
    for kind in problems_of(operation):
        by_status[kind.status].append(kind)
    return {str(status): _problem_answer(by_status[status]) for status in sorted(by_status)}


def _problem_answer(kinds: Sequence[type[e.GatewayError]]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": "; ".join(f"`{kind.code}`: {kind.title}" for kind in kinds),
        "content": {
            PROBLEM_TYPE: {
                "schema": {
                    "allOf": [
                        {"$ref": REF.format(model="Problem")},
                        {"properties": {"code": {"enum": [kind.code for kind in kinds]}}},
                    ]
                }
            }
        },
    }
    headers: dict[str, Any] = {}
    if any(wait_s(kind()) is not None for kind in kinds):
        headers["Retry-After"] = {"description": "Whole seconds", "schema": {"type": "integer", "minimum": 0}}
    if e.Unauthenticated in kinds:
        headers["WWW-Authenticate"] = {"required": True, "schema": {"type": "string", "const": "Bearer"}}
    return {**found, "headers": headers} if headers else found


def _path_parameters(operation: Operation) -> list[dict[str, Any]]:
    return [{"name": name, "in": "path", "required": True, "schema": dict(ID_SCHEMA)} for name in operation.parameters]


def _query_parameters(operation: Operation) -> list[dict[str, Any]]:
    schema = operation.query.model_json_schema(ref_template=REF)
    required = schema.get("required", [])
    definitions = schema.get("$defs", {})
    return [
        {"name": name, "in": "query", "required": name in required, "schema": _parameter(part, definitions)}
        for name, part in schema.get("properties", {}).items()
    ]


def _parameter(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """A parameter left out is what a body would write as null, so null is no value of its own."""
    kept = {key: value for key, value in part.items() if key not in ("title", "anyOf", "default", "$ref")}
    if "$ref" in part:
        kept.update(definitions[part["$ref"].rsplit("/", 1)[1]])
    for choice in part.get("anyOf", ()):
        if choice != {"type": "null"}:
            kept.update(choice)
    if part.get("default") is not None:
        kept["default"] = part["default"]
    return kept


def _models(operations: Iterable[Operation]) -> tuple[dict[type[BaseModel], str], dict[str, Any]]:
    """The models in use: their names in the document, and their schemas."""
    used: dict[type[BaseModel], None] = {Problem: None}
    for operation in operations:
        shapes = [answered.schema for answered in operation.answers.values()]
        if operation.body is not None:
            shapes.append(operation.body.schema)
        used.update((shape, None) for shape in shapes if isinstance(shape, type))
    modes = [(model, "validation") for model in used]
    _, schema = models_json_schema(modes, ref_template=REF)  # type: ignore[arg-type]
    return {model: model.__name__ for model in used}, schema["$defs"]


def _schema(shape: Mapping[str, Any] | type[BaseModel], names: Mapping[type[BaseModel], str]) -> dict[str, Any]:
    return {"$ref": REF.format(model=names[shape])} if isinstance(shape, type) else dict(shape)
