"""What this process knows of companies, tools, secrets and keys: a snapshot of the documents, kept fresh.

Every call asks it, so asking costs a dictionary look-up. The ledger is asked for one number a second; only when
that has changed are the documents read again. When the ledger is away the last snapshot goes on serving: a
change, a revoked key among them, then reaches this process once the ledger is back.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gateway.core import registry_documents as documents
from gateway.core.errors import LedgerUnavailable
from gateway.core.model import Company, Principal, SigningSecret, Tool
from gateway.core.policy import Bundle
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_reading import PolicyRefused
from gateway.core.ports import Clock, Documents
from gateway.core.registration import FromFile, StoredTool
from gateway.core.registry_documents import StoredCompany, StoredKey, StoredSecrets, UnknownDocument
from gateway.core.strict_json import JsonRefused, parse
from heuristics import nearest

_log = logging.getLogger(__name__)

MAX_KEY_CHARACTERS: Final = 256


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything, as of `version` or a little later."""

    version: int
    content: Mapping[str, bytes]
    stored: Mapping[str, documents.Stored]
    companies: dict[str, Company] = field(default_factory=dict)
    tools: dict[str, dict[str, Tool]] = field(default_factory=dict)
    secrets: dict[str, list[SigningSecret]] = field(default_factory=dict)
    principals: dict[bytes, Principal] = field(default_factory=dict)
    policies: dict[str, Bundle] = field(default_factory=dict)


_EMPTY: Final = Snapshot(-1, {}, {})


class Registry:
    """Reads go to the snapshot and never wait; `refresh` is what brings it up to date.

    `defaults` holds the platform's settings for a company that states none; `files` are companies defined in
    configuration files, whose settings and secrets are laid over what is stored; `fixed_keys` are keys that
    configuration gives (`dev`); `policy` is the platform's own. `patience_s` bounds how long a call waits for a
    refresh when a snapshot exists.
    """

    def __init__(
        self,
        stored: Documents,
        clock: Clock,
        *,
        defaults: Company | None = None,
        files: Sequence[FromFile] = (),
        fixed_keys: Mapping[str, Principal] = MappingProxyType({}),
        policy: Bundle | None = None,
        max_age_s: float = 1.0,
        patience_s: float = 0.25,
    ) -> None:
        self._documents = stored
        self._clock = clock
        self._defaults = defaults or Company("")
        self._files = {each.company: each for each in files}
        self._fixed = {_digest(key): principal for key, principal in fixed_keys.items()}
        self.platform_policy = policy
        self._max_age_s = max_age_s
        self._patience_s = patience_s
        self._snapshot = _EMPTY
        self._texts: dict[str, object] = {}
        self._looked_at = 0.0
        self._looking: asyncio.Task[None] | None = None
        self._one_look = asyncio.Lock()

    @property
    def fresh(self) -> bool:
        """Whether `refresh` would return at once."""
        return self._snapshot is not _EMPTY and self._clock.monotonic() - self._looked_at < self._max_age_s

    async def refresh(self) -> None:
        """Return once the snapshot is no older than `max_age_s`, or cannot be made younger now.

        Raises LedgerUnavailable only while there has never been a snapshot.
        """
        if self.fresh:
            return
        known = self._snapshot is not _EMPTY
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
            self._looking.add_done_callback(self._looked)
        looking = self._looking
        if known:
            await asyncio.wait([looking], timeout=self._patience_s)
        else:
            await asyncio.shield(looking)

    async def reload(self) -> None:
        """Bring the snapshot up to date now, whatever its age. Raises LedgerUnavailable."""
        await self._look()

    def company(self, name: str) -> Company:
        """As configured; one that was never set has the platform's settings."""
        return self._snapshot.companies.get(name) or self._company(name, {})

    def tool(self, company: str, name: str) -> Tool | None:
        """By its exact registered name: two that differ by a dot are two tools."""
        return self._snapshot.tools.get(company, {}).get(name)

    def tools(self, company: str) -> list[Tool]:
        """Sorted by name."""
        return sorted(self._snapshot.tools.get(company, {}).values(), key=lambda tool: tool.name)

    def policy(self, company: str) -> Bundle | None:
        """The company's own bundle, None if it has none (7.3)."""
        found = self._files.get(company)
        return self._snapshot.policies.get(company) if found is None else found.policy

    def secrets(self, company: str) -> list[SigningSecret]:
        """Newest first; during a rotation all of them sign."""
        found = self._files.get(company)
        return [*self._snapshot.secrets.get(company, ()), *(found.secrets if found is not None else ())]

    def principal(self, key: str) -> Principal | None:
        """Whose key that is, None if nobody's. Any text is a question, none an error.

        The key is hashed before anything is compared, so the time taken tells nothing about other keys.
        """
        if len(key) > MAX_KEY_CHARACTERS:
            return None
        digest = _digest(key)
        found = self._fixed.get(digest)
        return found if found is not None else self._snapshot.principals.get(digest)

    def nearest_tools(self, company: str, name: str) -> list[str]:
        """At most three of the company's own names that resemble `name`."""
        return nearest(name, self._snapshot.tools.get(company, {}))

    def file_of(self, company: str) -> FromFile | None:
        """The configuration file's definition of a company, if this process was started with one."""
        return self._files.get(company)

    def files(self) -> list[FromFile]:
        return list(self._files.values())

    def content(self, document: str) -> bytes | None:
        """A document as the snapshot has it: what a change of it is compared with."""
        return self._snapshot.content.get(document)

    def document(self, name: str) -> documents.Stored | None:
        """The same, read. None if it is absent or cannot be read."""
        return self._snapshot.stored.get(name)

    def stored_tools(self, company: str | None = None) -> list[StoredTool]:
        """Documents of tools, removed ones among them."""
        found = (each for each in self._snapshot.stored.values() if isinstance(each, StoredTool))
        return [each for each in found if company is None or each.company == company]

    def stored_keys(self) -> list[StoredKey]:
        """Oldest first."""
        found = [each for each in self._snapshot.stored.values() if isinstance(each, StoredKey)]
        return sorted(found, key=lambda key: (key.created_at_ms, key.id))

    async def _look(self) -> None:
        try:
            # One after another: of two looks side by side the older could end last, and bring back a revoked key.
            async with self._one_look:
                # Before the load: a change in between is then seen at the next look, not missed.
                version = await self._documents.version()
                if version != self._snapshot.version:
                    self._snapshot = self._read(version, await self._documents.load())
        finally:
            # A failed look counts too: an absent ledger is asked once a second, not once a call.
            self._looked_at = self._clock.monotonic()

    def _looked(self, task: asyncio.Task[None]) -> None:
        self._looking = None
        if not task.cancelled() and (error := task.exception()) is not None and self._snapshot is not _EMPTY:
            level = logging.WARNING if isinstance(error, LedgerUnavailable) else logging.ERROR
            _log.log(level, "the registry could not be refreshed: %s", type(error).__name__)

    def _read(self, version: int, content: dict[str, bytes]) -> Snapshot:
        stored: dict[str, documents.Stored] = {}
        for name, raw in content.items():
            if self._snapshot.content.get(name) == raw:
                if name in self._snapshot.stored:
                    stored[name] = self._snapshot.stored[name]
                continue
            try:
                stored[name] = documents.decode(name, raw)
            except UnknownDocument as unknown:
                # One that cannot be read is as one that is absent: its tool or key is refused, others serve.
                _log.error("%s", unknown)
        snapshot = Snapshot(version, content, stored)
        for each in stored.values():
            self._index(snapshot, each)
        return snapshot

    def _index(self, into: Snapshot, stored: documents.Stored) -> None:
        if isinstance(stored, StoredTool):
            if stored.tool is not None:
                into.tools.setdefault(stored.company, {})[stored.name] = stored.tool
                if stored.company not in into.companies:
                    into.companies[stored.company] = self._company(stored.company, {})
        elif isinstance(stored, StoredCompany):
            into.companies[stored.name] = self._company(stored.name, stored.stated)
            policy = stored.stated.get("policy")
            if policy is not None:
                into.policies[stored.name] = self._bundle(stored.name, policy)
        elif isinstance(stored, StoredSecrets):
            into.secrets[stored.company] = [SigningSecret(each.id, each.value) for each in stored.secrets]
        else:
            into.principals[stored.digest] = Principal(
                stored.principal, stored.role, frozenset(stored.companies), stored.id
            )

    def _bundle(self, name: str, text: object) -> Bundle:
        """Read once for as long as it stays: a snapshot is made anew whenever anything changes.

        One that this gateway cannot read must not hold up the other companies, nor count as none: it denies all.
        """
        known = self._snapshot.policies.get(name)
        if known is not None and self._texts.get(name) == text:
            return known
        self._texts[name] = text
        try:
            return read_bundle(parse(str(text)), name)
        except (PolicyRefused, JsonRefused) as unreadable:
            _log.error("the policy of company %s cannot be read and denies all: %s", name, type(unreadable).__name__)
            return read_bundle({"default_action": "deny"}, name)

    def _company(self, name: str, stated: Mapping[str, object]) -> Company:
        found = self._files.get(name)
        return documents.company_of(name, found.settings if found is not None else stated, self._defaults)


def key_digest(key: str) -> bytes:
    """What is stored of a key: its SHA-256. Keys are 256 random bits, which need no slow hash."""
    return _digest(key)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
