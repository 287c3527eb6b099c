"""Which format a document is in, by what it holds. Pure tables over shapes; the file's name is never asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from heuristics.formats.building import refuse
from heuristics.formats.gemini import CAPITALS, GROUPS
from heuristics.formats.source import At, Source
from heuristics.formats.unreadable import kind_of, shown

__all__ = ["Entries", "entries_of", "format_of_entry"]

_OTHER_KINDS: Final = (
    ("swagger", "is Swagger 2.0; OpenAPI 3.0 and 3.1 are read: convert it first"),
    ("asyncapi", "is an AsyncAPI document, which declares no tools"),
    ("arazzo", "is an Arazzo document, which declares no tools"),
    ("openrpc", "is an OpenRPC document, which is not read"),
    ("mcpServers", "lists MCP servers, not their tools: lint a server itself, or what its tools/list answers"),
    ("$schema", "is a JSON Schema or a settings file, not a list of tools"),
)
_PROVIDERS_OWN: Final = frozenset(
    {
        "googleSearch",
        "googleSearchRetrieval",
        "codeExecution",
        "urlContext",
        "googleMaps",
        "fileSearch",
        "computerUse",
        "enterpriseWebSearch",
        "google_search",
        "google_search_retrieval",
        "code_execution",
        "url_context",
        "google_maps",
        "file_search",
        "computer_use",
        "enterprise_web_search",
    }
)
_AMBIGUOUS: Final = "?"
OWN: Final = "provider"
"""A tool that the provider itself runs: nothing of it is declared here."""


def _capitals(entry: Mapping[str, Any]) -> bool:
    parameters = entry.get("parameters")
    return isinstance(parameters, dict) and parameters.get("type") in CAPITALS


# In this order: the first that holds. Keys that only one format has come first.
_SHAPES: Final[tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...]] = (
    ("openai", lambda e: e.get("type") == "function" and ("function" in e or "name" in e)),
    ("openai", lambda e: e.get("type") == "namespace" and isinstance(e.get("tools"), list)),
    ("gemini", lambda e: any(key in e for key in GROUPS)),
    ("oncegate", lambda e: isinstance(e.get("endpoint"), str) and "name" in e),
    ("anthropic", lambda e: "input_schema" in e),
    ("mcp", lambda e: "inputSchema" in e),
    ("gemini", lambda e: "parametersJsonSchema" in e or "parameters_json_schema" in e),
    ("gemini", _capitals),
    ("openai", lambda e: e.get("type") == "custom" and ("custom" in e or "name" in e)),
    ("openai", lambda e: "parameters" in e and isinstance(e.get("strict"), bool)),
    ("mcp", lambda e: "name" in e and ("annotations" in e or "outputSchema" in e)),
    (OWN, lambda e: isinstance(e.get("type"), str) and "parameters" not in e),
    (OWN, lambda e: len(e) == 1 and not _PROVIDERS_OWN.isdisjoint(e)),
    (_AMBIGUOUS, lambda e: isinstance(e.get("name"), str) and isinstance(e.get("parameters"), dict)),
)


@dataclass(frozen=True, slots=True)
class Entries:
    """Where the tools of a document stand. `whole` is a format that reads the document as one."""

    format: str | None
    at: tuple[At, ...] = ()
    whole: bool = False


def format_of_entry(entry: Any) -> str | None:
    """The format of one tool, `?` if several fit, None if it is no tool."""
    if not isinstance(entry, dict):
        return None
    return next((name for name, fits in _SHAPES if fits(entry)), None)


def entries_of(source: Source, forced: str | None) -> Entries | None:
    """None where there are no tools. Raises UnreadableSource for another kind of document and for mixed or unclear
    formats, unless `forced` says which."""
    value = source.value
    if isinstance(value, dict):
        if "openapi" in value and forced in (None, "openapi"):
            version = value["openapi"]
            if not str(version).startswith("3"):
                refuse(source, ("openapi",), f"is OpenAPI {shown(str(version))}; 3.0 and 3.1 are read")
            return Entries("openapi", whole=True)
        listed = _listed(source, value, forced)
        if listed is not None:
            return listed
        for key, message in _OTHER_KINDS:
            if key in value:
                refuse(source, (key,), message)
        return None
    if isinstance(value, list) and value:
        return _same_format(source, (), forced)
    return Entries(forced) if value == [] else None


def _listed(source: Source, value: dict[str, Any], forced: str | None) -> Entries | None:
    if value.get("jsonrpc") is not None:
        if isinstance(value.get("error"), dict):
            said = shown(str(value["error"].get("message", "no reason given")), 200)
            refuse(source, ("error",), f"is an error that a server answered: {said}")
        if isinstance(value.get("result"), dict) and isinstance(value["result"].get("tools"), list):
            return _same_format(source, ("result", "tools"), forced or "mcp")
        return None
    tools = value.get("tools")
    if isinstance(tools, list):
        return _same_format(source, ("tools",), forced) if tools else Entries(forced)
    if isinstance(tools, dict) and forced in (None, "oncegate"):
        endpoints = [isinstance(tool, dict) and isinstance(tool.get("endpoint"), str) for tool in tools.values()]
        if forced or "company" in value or any(endpoints):
            return Entries("oncegate", whole=True)
        return None
    if isinstance(value.get("functions"), list) and value["functions"] and forced in (None, "openai"):
        first = value["functions"][0]
        if forced or (isinstance(first, dict) and "parameters" in first):
            return _same_format(source, ("functions",), "openai")
    return _single(source, value, forced)


def _single(source: Source, value: dict[str, Any], forced: str | None) -> Entries | None:
    found = format_of_entry(value)
    if found is None and isinstance(value.get("endpoint"), str) and {"parameters", "idempotency"} & set(value):
        found = "oncegate"  # a PUT body: its name is that of the file
    if forced == "oncegate" and isinstance(value.get("endpoint"), str):
        found = "oncegate"
    if found in (None, OWN):
        return Entries(forced, ((),)) if forced and "name" in value else None
    return Entries(_decided(source, (), found or "", forced), ((),))


def _same_format(source: Source, at: At, forced: str | None) -> Entries | None:
    """One format for the whole list: an entry that could be of several is of that of its neighbours."""
    entries = source.value
    for step in at:
        entries = entries[step]
    kinds = [format_of_entry(entry) for entry in entries]
    definite = {kind: index for index, kind in reversed(list(enumerate(kinds))) if kind not in (None, OWN, _AMBIGUOUS)}
    named = [isinstance(entry, dict) and "name" in entry for entry in entries]
    if not forced and not definite and _AMBIGUOUS not in kinds:
        return Entries(None) if OWN in kinds and at else None
    if not forced and len(definite) > 1:
        (one, first), (other, second) = sorted(definite.items(), key=lambda each: (each[1], str(each[0])))[:2]
        said = (
            f"mixes formats: tool {first + 1} is {one}, tool {second + 1} is {other}; keep them in files of their own"
        )
        refuse(source, (*at, second), f"{said}, or say which with --from")
    format_ = forced or next(iter(definite), None)
    places: list[At] = []
    for index, kind in enumerate(kinds):
        if kind == OWN and not (forced and named[index] and forced != "openai" and forced != "anthropic"):
            continue
        where = (*at, index)
        if not isinstance(entries[index], dict):
            refuse(source, where, f"a tool must be an object, not {kind_of(entries[index])}")
        format_ = format_ or _decided(source, where, kind or "", None)
        places.append(where)
    return Entries(format_, tuple(places))


def _decided(source: Source, at: At, found: str, forced: str | None) -> str:
    if forced:
        return forced
    if found == _AMBIGUOUS:
        refuse(source, at, "could be openai or gemini tools: say which with --from openai or --from gemini")
    return found
