"""Names and forms of the registry's documents: one JSON text for each tool, company, list of secrets and key.

A document's name is a JSON array, so that no choice of company and tool names makes two documents one. A
document of a newer format than this gateway knows is not guessed at (UnknownDocument).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from gateway.core.identity import Scope
from gateway.core.model import Company, Role
from gateway.core.registration import FORMAT, StoredTool

NOT_LIMITED: Final = "off"
"""The value of `max_steps` that limits nothing."""


class UnknownDocument(Exception):
    """The document was written by a newer gateway, or by something else."""


class StoredCompany(msgspec.Struct, frozen=True):
    """What was stated of a company; what was not follows the platform's settings, also when they change."""

    format: int
    name: str
    stated: dict[str, Any]


class StoredSecret(msgspec.Struct, frozen=True):
    """A signing secret: `whsec_` and base64. Its value is in no repr."""

    id: str
    value: str
    created_at_ms: int

    def __repr__(self) -> str:
        return f"StoredSecret({self.id!r})"


class StoredSecrets(msgspec.Struct, frozen=True):
    """A company's signing secrets, newest first; a retired one is gone."""

    format: int
    company: str
    secrets: tuple[StoredSecret, ...] = ()


class StoredKey(msgspec.Struct, frozen=True):
    """A key: all but the key itself, of which only the SHA-256 is kept (api.md)."""

    format: int
    id: str
    digest: bytes
    role: Role
    companies: tuple[str, ...]
    principal: str
    created_at_ms: int


Stored = StoredTool | StoredCompany | StoredSecrets | StoredKey

_FORMS: Final[dict[str, msgspec.json.Decoder[Any]]] = {
    "tool": msgspec.json.Decoder(StoredTool),
    "company": msgspec.json.Decoder(StoredCompany),
    "secrets": msgspec.json.Decoder(StoredSecrets),
    "key": msgspec.json.Decoder(StoredKey),
}
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def tool_document(company: str, tool: str) -> str:
    return _name("tool", company, tool)


def company_document(company: str) -> str:
    return _name("company", company)


def secrets_document(company: str) -> str:
    return _name("secrets", company)


def key_document(key_id: str) -> str:
    return _name("key", key_id)


def encode(document: Stored) -> bytes:
    """The document's JSON. The same document gives the same bytes, which is what a change is compared by."""
    return _encode(document)


def decode(name: str, content: bytes) -> Stored:
    """Raises UnknownDocument; the message holds nothing of the content."""
    try:
        kind = json.loads(name)[0]
        found: Stored = _FORMS[kind].decode(content)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        # No cause is kept: it may quote what could not be read.
        raise UnknownDocument(f"the document {name[:200]} cannot be read") from None
    if found.format > FORMAT:
        raise UnknownDocument(f"the document {name[:200]} is of format {found.format}; this gateway reads {FORMAT}")
    return found


def company_of(name: str, stated: Mapping[str, Any], defaults: Company) -> Company:
    """The company as it stands: what is stated, over the platform's settings."""
    # A policy is asked call by call, not a setting: the registry keeps it read.
    changes: dict[str, Any] = {key: value for key, value in stated.items() if value is not None and key != "policy"}
    if changes.get("max_steps") == NOT_LIMITED:
        changes["max_steps"] = None
    if "call_id_scope" in changes:
        changes["call_id_scope"] = Scope(changes["call_id_scope"])
    return replace(defaults, name=name, **changes)


def _name(*parts: str) -> str:
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))
