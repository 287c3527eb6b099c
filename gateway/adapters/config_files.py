"""Companies from `config/merchants/*.toml`: settings, tools, and signing secrets by reference.

    [company]
    name = "acme"                       # the file's name if left out
    max_steps = 6                       # and the other fields of PUT /v1/companies/{company}

    [[secrets]]                         # newest first; all of them sign
    id = "2026-11"
    secret_env = "ACME_SIGNING_SECRET"  # or secret_file = "/run/secrets/acme"

    [tools.place_order]                 # the fields of PUT …/tools/{tool}
    endpoint = "https://shop.example/tools"

    [policy]                            # the company's own rules (docs/policy.md)
    default_action = "allow"

Secrets never stand in the files themselves. Every error of every file is reported at once, with its place.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time
from pathlib import Path
from typing import Any, Final

from gateway.adapters.policy_files import exact_toml, policy_lines, within_policy
from gateway.adapters.text_files import read_text, unreadable
from gateway.core.addresses import AddressRefused
from gateway.core.errors import ConfigError
from gateway.core.model import SigningSecret
from gateway.core.policy import Bundle
from gateway.core.policy_bundle import read_bundle
from gateway.core.policy_reading import PolicyRefused
from gateway.core.registration import Declared, FromFile, company_problem, name_problem
from gateway.core.strict_json import JsonRefused, parse, plain
from gateway.service.declarations import NotAcceptable, Problem, read_company, read_tool, unknown_field

SECRET_BYTES: Final = range(24, 65)
"""How long a signing secret may be, as Standard Webhooks has it."""
_TABLES: Final = ("company", "secrets", "tools", "policy")
_SECRET_KEYS: Final = ("id", "secret_env", "secret_file")
_QUOTE: Final = 'is not a field of a tool; a name with dots needs quotes: [tools."a.b"]'

ReadFile = Callable[[str], str]
"""A file's text by its path. Raises OSError or UnicodeDecodeError."""


@dataclass(frozen=True, slots=True)
class Judges:
    """What a tool is judged by beyond its form. `url` raises AddressRefused; it asks no name server, since a
    name that cannot be resolved for a moment must not keep a gateway from starting."""

    url: Callable[[str], object]
    schema: Callable[[Mapping[str, Any]], list[Problem]]


def read_merchants_folder(folder: Path, environ: Mapping[str, str], judges: Judges) -> list[FromFile]:
    """All `*.toml` of a folder, in the order of their names; none if there is no such folder. Raises ConfigError."""
    texts: dict[str, str] = {}
    problems: list[str] = []
    if folder.exists() and not folder.is_dir():
        problems.append(f"{folder}: is not a folder")  # passed over, its companies would be unprotected or unknown
    for path in sorted(folder.glob("*.toml")):
        try:
            texts[str(path)] = read_text(str(path))
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"{path}: {unreadable(error)}")
    try:
        found = read_merchants(texts, environ, judges)
    except ConfigError as wrong:
        raise ConfigError([*problems, *wrong.problems]) from None
    if problems:
        raise ConfigError(problems)
    return found


def read_merchants(
    texts: Mapping[str, str], environ: Mapping[str, str], judges: Judges, read_file: ReadFile | None = None
) -> list[FromFile]:
    """File name to its text, read. Raises ConfigError naming file, table and key of everything that is wrong."""
    problems: list[str] = []
    found: list[FromFile] = []
    named: dict[str, str] = {}
    for file, text in texts.items():
        reader = _Reader(file, environ, judges, read_file or read_text)
        company = reader.read(text)
        problems += reader.problems
        if company is None:
            continue
        if company.company in named:
            problems.append(f"{file}, company.name: is also the company of {named[company.company]}")
        named.setdefault(company.company, file)
        found.append(company)
    if problems:
        raise ConfigError(problems)
    return found


class _Reader:
    """Reads one file and collects what is wrong with it."""

    def __init__(self, file: str, environ: Mapping[str, str], judges: Judges, read_file: ReadFile) -> None:
        self.problems: list[str] = []
        self._file = file
        self._environ = environ
        self._judges = judges
        self._read_file = read_file

    def read(self, text: str) -> FromFile | None:
        try:
            tables = tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            # The decoder names line and column, never the text; a plain ValueError is a number of too many digits.
            self._wrong("", f"is not valid TOML: {error}")
            return None
        for key in tables:
            if key not in _TABLES:
                self._wrong(key, unknown_field(key, _TABLES))
        name, settings = self._company(tables.get("company", {}))
        tools = self._tools(tables.get("tools", {}))
        secrets = self._secrets(tables.get("secrets", []))
        policy = self._policy(text, name) if "policy" in tables else None
        return FromFile(name, self._file, settings, tools, secrets, policy)

    def _company(self, table: object) -> tuple[str, dict[str, Any]]:
        stem = Path(self._file).stem
        if not isinstance(table, dict):
            self._wrong("company", "must be a table")
            return stem, {}
        name = table.get("name", stem)
        problem = company_problem(name)
        if problem is not None:
            self._wrong("company.name", problem)
        settings: dict[str, Any] = {}
        if "policy" in table:
            self._wrong("company.policy", "stands in a table of its own: [policy]")
            return str(name), {}
        try:
            settings = read_company({key: value for key, value in table.items() if key != "name"})
        except NotAcceptable as wrong:
            self._all_wrong("company", wrong.problems)
        return str(name), settings

    def _tools(self, tables: object) -> dict[str, Declared]:
        tools: dict[str, Declared] = {}
        if not isinstance(tables, dict):
            self._wrong("tools", "must hold tables: [tools.NAME]")
            return tools
        for name, table in tables.items():
            place = f"tools.{_shown(name)}"
            problem = name_problem(name)
            if problem is not None:
                self._wrong(place, problem)
            declared = self._tool(place, table)
            if declared is not None:
                tools[name] = declared
        return tools

    def _tool(self, place: str, table: object) -> Declared | None:
        if not isinstance(table, dict):
            self._wrong(place, "must be a table")
            return None
        body = dict(table)
        if isinstance(body.get("parameters"), str):
            try:
                body["parameters"] = plain(parse(body["parameters"]))
            except JsonRefused as refused:
                self._wrong(f"{place}.parameters", str(refused))
                del body["parameters"]
        try:
            declared = read_tool(body)
        except NotAcceptable as wrong:
            nested = {f"/{key}" for key, value in table.items() if isinstance(value, dict)} - {"/hints", "/parameters"}
            unquoted = [{**each, "problem": _QUOTE} for each in wrong.problems if each["field"] in nested]
            self._all_wrong(place, unquoted or wrong.problems)
            return None
        beyond = list(_beyond_json("/parameters", declared.parameters))
        self._all_wrong(place, beyond or self._judges.schema(declared.parameters))
        for key, url in (("endpoint", declared.endpoint), ("status_endpoint", declared.status_endpoint)):
            if url is not None:
                try:
                    self._judges.url(url)
                except AddressRefused as refused:
                    self._wrong(f"{place}.{key}", str(refused))
        return declared

    def _policy(self, text: str, company: str) -> Bundle | None:
        # Read once more: other tables have floats, and an amount of money must not be one.
        try:
            return read_bundle(exact_toml(text)["policy"], company)
        except PolicyRefused as refused:
            self.problems += policy_lines(self._file, within_policy(refused))
            return None

    def _secrets(self, entries: object) -> tuple[SigningSecret, ...]:
        if not isinstance(entries, list):
            self._wrong("secrets", "must be a list of tables: [[secrets]]")
            return ()
        found: list[SigningSecret] = []
        for number, entry in enumerate(entries, start=1):
            place = f"secrets[{number}]"
            if not isinstance(entry, dict):
                self._wrong(place, "must be a table")
                continue
            for key in entry:
                if key not in _SECRET_KEYS:
                    self._wrong(f"{place}.{key}", unknown_field(key, _SECRET_KEYS))
            id_ = entry.get("id", f"file-{number}")
            if (problem := name_problem(id_)) is not None:
                self._wrong(f"{place}.id", problem)
            elif any(id_ == other.id for other in found):
                self._wrong(f"{place}.id", "stands twice")
            value = self._secret(place, entry)
            if value is not None:
                found.append(SigningSecret(str(id_), value))
        return tuple(found)

    def _secret(self, place: str, entry: Mapping[str, Any]) -> str | None:
        by_env, by_file = entry.get("secret_env"), entry.get("secret_file")
        if (by_env is None) == (by_file is None):
            self._wrong(place, "needs secret_env or secret_file, and only one of them")
            return None
        key, reference = ("secret_env", by_env) if by_env is not None else ("secret_file", by_file)
        if not isinstance(reference, str) or not reference:
            self._wrong(f"{place}.{key}", "must be a text")
            return None
        if by_env is not None:
            value = self._environ.get(reference)
            if value is None:
                self._wrong(f"{place}.{key}", f"the environment has no {reference}")
                return None
        else:
            try:
                value = self._read_file(reference)
            except (OSError, UnicodeDecodeError) as error:
                self._wrong(f"{place}.{key}", f"{reference}: {unreadable(error)}")
                return None
        value = value.strip()
        problem = secret_problem(value)
        if problem is not None:
            self._wrong(f"{place}.{key}", f"what it names {problem}")
            return None
        return value

    def _all_wrong(self, place: str, problems: Sequence[Problem]) -> None:
        for each in problems:
            self._wrong(place + each["field"].replace("/", "."), each["problem"])

    def _wrong(self, place: str, problem: str) -> None:
        self.problems.append(f"{self._file}, {place}: {problem}" if place else f"{self._file}: {problem}")


def _beyond_json(place: str, value: object) -> Iterator[Problem]:
    """What TOML can say and JSON cannot. Parameters are stored and shown as JSON, which would make null of it."""
    todo = [(place, value)]
    while todo:
        at, item = todo.pop()
        if isinstance(item, dict):
            todo += [(f"{at}/{key.replace('~', '~0').replace('/', '~1')}", part) for key, part in item.items()]
        elif isinstance(item, list):
            todo += [(f"{at}/{number}", part) for number, part in enumerate(item)]
        elif isinstance(item, date | time) or (isinstance(item, float) and not math.isfinite(item)):
            yield {"field": at, "problem": "must be what JSON can say: neither date nor time, inf nor nan"}


def secret_problem(value: str) -> str | None:
    """What is wrong with a signing secret; the words hold nothing of it (9.3)."""
    wanted = f"must be whsec_ and the base64 of {SECRET_BYTES.start} to {SECRET_BYTES.stop - 1} bytes"
    try:
        size = len(base64.b64decode(value.removeprefix("whsec_"), validate=True))
    except (binascii.Error, ValueError):
        return wanted
    return None if value.startswith("whsec_") and size in SECRET_BYTES else wanted


def _shown(name: str) -> str:
    plain_key = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain_key else json.dumps(name[:80], ensure_ascii=False)
