"""What a lint run looks for: `[tool.oncegate.lint]`, read strictly. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from heuristics.classify import Heuristic
from heuristics.near import nearest
from heuristics.rules import RULES
from heuristics.rules.provider_names import PROVIDERS

__all__ = ["LintSettings", "SettingsError", "read_settings"]


class SettingsError(ValueError):
    """Settings that cannot be used; the message names the key, and is one line."""


@dataclass(frozen=True, slots=True)
class LintSettings:
    """`select` and `ignore` are beginnings of codes (`OG`, `OG2`, `OG203`), the longest that fits decides; of equal
    ones, `ignore`. `overrides` as a company's (3.3). `baseline` is a path, relative to the settings' own file."""

    select: tuple[str, ...] = ("OG",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    heuristic: Heuristic | None = None
    providers: tuple[str, ...] = PROVIDERS
    overrides: Mapping[str, bool] = field(default_factory=dict)
    baseline: str | None = None

    def wants(self, code: str) -> bool:
        return _longest(code, self.select) > _longest(code, self.ignore)

    def ignored_in(self, code: str, path: str) -> bool:
        """By `per-file-ignores`: globs over the path as shown or its last part."""
        shown = path.replace("\\", "/")
        last = shown.rsplit("/", 1)[-1]
        return any(
            code.startswith(codes) and (fnmatchcase(shown, glob) or fnmatchcase(last, glob))
            for glob, codes in self.per_file_ignores.items()
        )


_KEYS: Final = ("select", "ignore", "per-file-ignores", "heuristic", "providers", "overrides", "baseline")


def read_settings(table: Mapping[str, Any]) -> LintSettings:
    """Raises SettingsError for an unknown key or a value of the wrong kind."""
    for key in table:
        if key not in _KEYS:
            near = nearest(key, _KEYS, limit=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise SettingsError(f"{key} is not a setting of lint{meant} (known: {', '.join(_KEYS)})")
    heuristic = table.get("heuristic")
    if heuristic not in (None, "words", "platform"):
        raise SettingsError('heuristic must be "words" or "platform"')
    providers = _texts("providers", table.get("providers", list(PROVIDERS)))
    if unknown := [each for each in providers if each not in PROVIDERS]:
        raise SettingsError(f"providers: {unknown[0]!r} is not one of {', '.join(PROVIDERS)}")
    baseline = table.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        raise SettingsError("baseline must be a path")
    return LintSettings(
        select=codes("select", table.get("select", ["OG"])),
        ignore=codes("ignore", table.get("ignore", [])),
        per_file_ignores={
            glob: codes(f"per-file-ignores.{glob}", listed)
            for glob, listed in _table("per-file-ignores", table.get("per-file-ignores", {})).items()
        },
        heuristic=heuristic,
        providers=providers,
        overrides=_overrides(table.get("overrides", {})),
        baseline=baseline,
    )


def codes(key: str, listed: Any) -> tuple[str, ...]:
    """Beginnings of codes, each of at least one rule. Raises SettingsError."""
    found = _texts(key, listed)
    for each in found:
        if not each or not any(rule.code.startswith(each) for rule in RULES):
            raise SettingsError(f"{key}: no rule's code begins with {each!r} (see oncegate lint --explain all)")
    return found


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise SettingsError(f"{key} must be a list of texts")
    return tuple(value)


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SettingsError(f"{key} must be a table")
    return value


def _overrides(value: Any) -> Mapping[str, bool]:
    table = _table("overrides", value)
    if wrong := next((name for name, says in table.items() if not isinstance(says, bool)), None):
        raise SettingsError(f"overrides.{wrong} must be true or false")
    return table


def _longest(code: str, beginnings: tuple[str, ...]) -> int:
    return max((len(each) for each in beginnings if code.startswith(each)), default=-1)
