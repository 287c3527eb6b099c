"""Where settings come from, read strictly, with every wrong one reported at once.

A setting comes from the first of: a flag, the environment (`ledger.url` is `ONCEGATE_LEDGER_URL`; settings that
may hold a secret can be named by `ONCEGATE_LEDGER_URL_FILE` instead), `config/gateway.toml`, its default. Errors
name the place and what is accepted, never the value: a secret ends up in the oddest places.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from rapidfuzz import process
from rapidfuzz.distance import Indel

from gateway.adapters.redis_urls import parse_ledger_url
from gateway.core.errors import ConfigError
from gateway.settings_tree import Settings

__all__ = ["FIELDS", "Settings", "environment_name", "load", "read_settings"]

PREFIX: Final = "ONCEGATE_"
OTHERS_NAMES: Final = ("URL", "KEY", "COMPANY", "SHARED", "CONFIG")
"""Names after the prefix that belong to clients, tools and tests; all that start with SECRET_ are merchants'."""


ALIKE: Final = 0.6
"""From 0 to 1: a name that resembles no setting so much gets no suggestion."""


@dataclass(frozen=True, slots=True)
class _Given:
    """A setting's value, and the place it came from, in words."""

    value: object
    place: str
    strict: bool


ReadFile = Callable[[str], str]


def read_settings(flags: Mapping[str, object], environ: Mapping[str, str], config: Path) -> Settings:
    """Settings of a configuration folder; a folder without `gateway.toml` has defaults. Raises ConfigError."""
    file = config / "gateway.toml"
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        text = None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{file}: cannot be read ({type(error).__name__})"]) from None
    return load(flags, environ, text, toml_name=str(file), read_file=lambda path: Path(path).read_text("utf-8"))


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    toml_text: str | None,
    *,
    toml_name: str = "config/gateway.toml",
    read_file: ReadFile | None = None,
) -> Settings:
    """`flags` maps settings (`http.port`) to values, None where a flag was not given; `read_file` reads what
    `…_FILE` names. Raises ConfigError with one line for each wrong setting."""
    problems: list[str] = []
    given: dict[str, _Given] = {}
    for source in (
        _from_toml(toml_text, toml_name, problems),
        _from_environment(environ, read_file, problems),
        _from_flags(flags, problems),
    ):
        given.update(source)
    values: dict[str, object] = {}
    for path, each in given.items():
        problem = _validated(path, each, values)
        if problem is not None:
            problems.append(f"{each.place}: {problem}")
    wrong = given.keys() - values.keys()
    settings = _tree(values)
    problems += [
        f"{_places(paths, given)}: {text}" for paths, text in _contradictions(settings) if not wrong & set(paths)
    ]
    if problems:
        raise ConfigError(sorted(problems))
    return settings


def environment_name(path: str) -> str:
    return PREFIX + path.replace(".", "_").upper()


def _fields() -> dict[str, FieldInfo]:
    found: dict[str, FieldInfo] = {}
    for name, info in Settings.model_fields.items():
        section = info.annotation
        if isinstance(section, type) and issubclass(section, BaseModel):
            found |= {f"{name}.{key}": inner for key, inner in section.model_fields.items()}
        else:
            found[name] = info
    return found


FIELDS: Final[Mapping[str, FieldInfo]] = _fields()
"""Every setting by its path."""
FLAGS: Final[Mapping[str, str]] = {"ledger.url": "ledger", "ledger.allow_unsafe": "allow-unsafe-ledger"}
"""Flags that are not named like their settings."""
SECTIONS: Final = tuple(dict.fromkeys(path.partition(".")[0] for path in FIELDS if "." in path))


_TOP: Final = (*SECTIONS, *(path for path in FIELDS if "." not in path))


def _adapter(info: FieldInfo) -> TypeAdapter[Any]:
    form: Any = info.annotation
    if info.metadata:
        form = cast(Any, Annotated)[(form, *info.metadata)]
    return TypeAdapter(form, config=ConfigDict(allow_inf_nan=False))


_ADAPTERS: Final = {path: _adapter(info) for path, info in FIELDS.items()}


def _marked(path: str, mark: str) -> bool:
    extra = FIELDS[path].json_schema_extra
    return isinstance(extra, dict) and bool(extra.get(mark))


def _from_toml(text: str | None, file: str, problems: list[str]) -> dict[str, _Given]:
    try:
        tables = tomllib.loads(text or "")
    except (ValueError, RecursionError) as error:  # a plain ValueError is a number of too many digits
        problems.append(f"{file}: is not valid TOML: {error}")
        return {}
    found: dict[str, object] = {}
    for name, value in tables.items():
        if name in SECTIONS and isinstance(value, dict):
            found |= {f"{name}.{key}": inner for key, inner in value.items()}
        elif name in SECTIONS:
            problems.append(f"{file}, {name}: must be a table: [{name}]")
        else:
            found[name] = value
    return dict(_known({path: _Given(value, f"{file}, {path}", True) for path, value in found.items()}, problems))


def _from_flags(flags: Mapping[str, object], problems: list[str]) -> dict[str, _Given]:
    found = {
        path: _Given(value, f"--{FLAGS.get(path) or path.rpartition('.')[2].replace('_', '-')} ({path})", False)
        for path, value in flags.items()
        if value is not None
    }
    return dict(_known(found, problems))


def _known(given: Mapping[str, _Given], problems: list[str]) -> Iterator[tuple[str, _Given]]:
    for path, each in given.items():
        if path in FIELDS:
            yield path, each
        else:
            problems.append(f"{each.place}: is not a setting{_meant(path, FIELDS if '.' in path else _TOP)}")


def _from_environment(environ: Mapping[str, str], read_file: ReadFile | None, problems: list[str]) -> dict[str, _Given]:
    names = {environment_name(path): path for path in FIELDS}
    files = {f"{name}_FILE": path for name, path in names.items() if _marked(path, "secret")}
    found: dict[str, _Given] = {}
    for name, value in sorted(environ.items()):
        if not name.startswith(PREFIX) or name[len(PREFIX) :].startswith("SECRET_"):
            continue
        if name in names:
            found[names[name]] = _Given(value, name, False)
        elif name in files:
            if names_of := [n for n, path in names.items() if path == files[name] and n in environ]:
                problems.append(f"{name}: stands beside {names_of[0]}; only one of them may be set")
                continue
            try:
                found[files[name]] = _Given((read_file or _no_files)(value).strip(), name, False)
            except (OSError, UnicodeDecodeError):
                problems.append(f"{name}: the file that it names cannot be read")
        elif name[len(PREFIX) :] not in OTHERS_NAMES:
            # A misspelt ONCEGATE_LEDGER_URL that is ignored is a gateway on an empty ledger.
            problems.append(f"{name}: is not a setting{_meant(name, [*names, *files])}")
    return found


def _validated(path: str, given: _Given, values: dict[str, object]) -> str | None:
    try:
        if given.strict:
            # JSON's strictness, not Python's: a list for a tuple and a text for a network, but no "8080" for 8080.
            values[path] = _ADAPTERS[path].validate_json(json.dumps(given.value), strict=True)
        else:
            values[path] = _ADAPTERS[path].validate_python(_from_text(path, given.value))
    except (ValidationError, TypeError, ValueError, RecursionError):
        return f"must be {FIELDS[path].description}"
    return None


def _from_text(path: str, value: object) -> object:
    """A flag's or variable's text in the form that the setting has in a file."""
    if not isinstance(value, str):
        return value
    default = FIELDS[path].get_default(call_default_factory=True)
    if isinstance(default, tuple):
        return [part.strip() for part in value.split(",") if part.strip()]
    return json.loads(value) if isinstance(default, dict) else value


def _tree(values: Mapping[str, object]) -> Settings:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        section, _, key = path.rpartition(".")
        (tree.setdefault(section, {}) if section else tree)[key] = value
    return Settings.model_validate(tree)


def _contradictions(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    if settings.dev and not _is_loopback(settings.http.host):
        yield ("dev", "http.host"), "dev accepts the key dev from anyone, so http.host must be a loopback address"
    ledger = settings.ledger
    waits = ("ledger.wait_replicas", "ledger.wait_fsync")
    if ledger.waits and ledger.wait_timeout_s >= ledger.command_timeout_s:
        yield (
            (*waits, "ledger.wait_timeout_s", "ledger.command_timeout_s"),
            "ledger.wait_timeout_s must be below ledger.command_timeout_s, or no claim that is confirmed late is seen",
        )
    if ledger.waits and (why := _NOTHING_TO_WAIT_FOR.get(parse_ledger_url(ledger.url).kind)):
        yield (*waits, "ledger.url"), why


_NOTHING_TO_WAIT_FOR: Final = {
    "local": "ledger.url names the embedded ledger: it has no replicas, and syncs every write before it answers",
    "memory": "ledger.url names the memory ledger: it has neither replicas nor a disk",
}


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _places(paths: tuple[str, ...], given: Mapping[str, _Given]) -> str:
    return " and ".join(given[path].place for path in paths if path in given)


def _meant(name: str, known: Iterable[str]) -> str:
    # By the letters that differ, and without what all of them begin with: in ONCEGATE_… anything resembles anything.
    near = process.extractOne(
        name, sorted(known), scorer=Indel.normalized_similarity, processor=_own_part, score_cutoff=ALIKE
    )
    return f"; did you mean {near[0]}?" if near else ""


def _own_part(name: str) -> str:
    return name.upper().removeprefix(PREFIX)


def _no_files(_: str) -> str:
    raise OSError
