"""What words mean: the tables of `config/verbs.toml` as one frozen value. Pure; `lexicon_file` reads the file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from .platform import PLATFORM_VERBS
from .words import fold, split

__all__ = ["Entry", "Lexicon", "LexiconError", "Role"]


class Role(Enum):
    """What a word may do in a name; the head of `config/verbs.toml` explains each."""

    MUTATING = "mutating"
    MUTATING_OR_NOUN = "mutating_or_noun"
    ACT = "act"
    FRONT = "front"
    DISPATCHER = "dispatcher"
    GET = "get"
    READ = "read"
    QUESTION = "question"
    READ_OR_NOUN = "read_or_noun"
    NOUN_OR_READ = "noun_or_read"
    HTTP_WRITE = "http_write"
    HTTP_READ = "http_read"
    MODIFIER = "modifier"
    CONJUNCTION = "conjunction"
    JOINED = "joined"
    PREPOSITION = "preposition"
    NOMINAL = "nominal"
    # What a word says where no verb does; in maps of their own, since 'report' is a verb in front, a noun at the end.
    READ_NOUN = "read_noun"
    DOCUMENT = "document"
    CONTENT = "content"
    AMOUNT = "amount"
    READ_MARK = "read_mark"
    READ_LEAD = "read_lead"
    READ_ALONE = "read_alone"
    NOISE = "noise"


_SHORTEST_SLIP = 6
"""Letters; other words lie one letter away from shorter verbs."""
_SLIPPED = (
    Role.MUTATING,
    Role.MUTATING_OR_NOUN,
    Role.FRONT,
    Role.ACT,
    Role.DISPATCHER,
    Role.HTTP_WRITE,
    Role.GET,
    Role.READ,
    Role.READ_OR_NOUN,
    Role.NOUN_OR_READ,
)
_TAILS = (Role.READ_NOUN, Role.DOCUMENT, Role.CONTENT, Role.AMOUNT, Role.READ_MARK)
_HEADS = (Role.READ_LEAD, Role.READ_ALONE)
_PLATFORM_ROLES = (Role.MUTATING, Role.MUTATING_OR_NOUN, Role.FRONT)
_SPECIAL = ("phrase", "exception", "task", "verb_of")
_EXTRA_KEYS: Mapping[str, set[str]] = {"phrase": {"role"}, "exception": {"verbs"}, "task": {"verbs"}, "verb_of": set()}
_SPELLINGS = (("ize", "ise"), ("ise", "ize"), ("yze", "yse"), ("yse", "yze"))


class LexiconError(ValueError):
    """A word table that cannot be used; the message names the table and the word."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One word's meaning: its role and the reason that its group gives; `instead` are those of the platform's twelve
    that come nearest, for suggested names."""

    word: str
    role: Role
    why: str
    instead: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The word tables, folded and ready for look-up. All keys are lower case without accents."""

    verbs: Mapping[str, Entry]
    tails: Mapping[str, Entry]
    heads: Mapping[str, Entry]
    noise: frozenset[str]
    phrases: Mapping[str, Mapping[str, Entry]]
    """First word -> second word -> what the pair means."""
    reading_objects: Mapping[str, Mapping[str, str]]
    """Mutating verb -> last word of the name that makes it a read -> why."""
    acting_objects: Mapping[str, Mapping[str, str]]
    """Read verb -> last word of the name that makes it an act -> why."""
    verb_of: Mapping[str, str]
    """Noun for an act -> its verb (`cancellation` -> `cancel`); for suggested names, never for a verdict."""

    misspelt: tuple[str, ...] = ()
    """Verbs long enough that a word near one may be a slip; for suggested names."""

    @classmethod
    def from_toml(cls, text: str) -> Lexicon:
        """Raises LexiconError for text that is not TOML and for tables that `from_tables` refuses."""
        try:
            tables = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # a plain ValueError is a number of too many digits
            raise LexiconError(f"not valid TOML: {error}") from error
        return cls.from_tables(tables)

    @classmethod
    def from_tables(cls, tables: Mapping[str, Any]) -> Lexicon:
        """`{role: {group: {"why": str, "words": [str]}}}`; raises LexiconError naming the table and word at fault."""
        verbs: dict[str, Entry] = {}
        tails: dict[str, Entry] = {}
        heads: dict[str, Entry] = {}
        noise: dict[str, Entry] = {}
        for name, groups in tables.items():
            if name in _SPECIAL:
                continue
            role = _role(name)
            into = tails if role in _TAILS else heads if role in _HEADS else noise if role is Role.NOISE else verbs
            for table, why, group in _groups(name, groups):
                instead = _instead(table, group)
                for word in _words(table, group, "words"):
                    _put(into, table, word, Entry(word, role, why, instead))
        for word in PLATFORM_VERBS:
            entry = verbs.setdefault(word, Entry(word, Role.MUTATING, "is one of the platform's twelve verbs"))
            if entry.role not in _PLATFORM_ROLES:
                raise LexiconError(f"'{word}' is one of the platform's twelve verbs (3.1), so not {entry.role.value}")
        _add_spellings(verbs)
        return cls(
            MappingProxyType(verbs),
            MappingProxyType(tails),
            MappingProxyType(heads),
            frozenset(noise),
            _phrases(tables.get("phrase", {})),
            _objects("exception", tables.get("exception", {}), verbs),
            _objects("task", tables.get("task", {}), verbs),
            _verbs_of(tables.get("verb_of", {}), verbs),
            tuple(word for word, entry in verbs.items() if entry.role in _SLIPPED and len(word) >= _SHORTEST_SLIP),
        )


def _role(name: str) -> Role:
    try:
        return Role(name)
    except ValueError:
        known = ", ".join([*(role.value for role in Role), *_SPECIAL])
        raise LexiconError(f"[{name}] is not a role; roles are {known}") from None


def _groups(name: str, groups: object) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if not isinstance(groups, Mapping):
        raise LexiconError(f"[{name}] must hold groups, such as [{name}.platform]")
    for group_name, group in groups.items():
        table = f"[{name}.{group_name}]"
        if not isinstance(group, Mapping):
            raise LexiconError(f"{table} must be a table with `why` and `words`")
        allowed = {"why", "words"} | _EXTRA_KEYS.get(name, {"instead"})
        if unknown := sorted(set(group) - allowed):
            raise LexiconError(f"{table} has unknown keys: {', '.join(unknown)}")
        why = group.get("why")
        if not isinstance(why, str) or not why.strip():
            raise LexiconError(f"{table} needs `why`: the reason these words are listed")
        yield table, why, group


def _instead(table: str, group: Mapping[str, Any]) -> tuple[str, ...]:
    found = tuple(_words(table, group, "instead")) if "instead" in group else ()
    if wrong := next((verb for verb in found if verb not in PLATFORM_VERBS), None):
        raise LexiconError(f"{table}: instead: '{wrong}' is not one of the platform's twelve verbs")
    return found


def _words(table: str, group: Mapping[str, Any], key: str, *, each: int = 1) -> Iterator[str]:
    """The group's words, folded; `ü` gives both `u` and `ue`. `each` is how many words an item has."""
    listed = group.get(key)
    if not isinstance(listed, list) or not listed:
        raise LexiconError(f"{table} needs `{key}`: a list of words")
    for word in listed:
        if not isinstance(word, str):
            raise LexiconError(f"{table}: {word!r} is not a string")
        folded = fold(word)
        if folded != folded.lower() or len(parts := split(folded)) != each or " ".join(parts) != folded:
            raise LexiconError(f"{table}: {word!r} must be {each} lower-case word{'s' * (each > 1)}")
        yield folded
        spelt_out = fold(word.replace("ä", "ae").replace("ö", "oe").replace("ü", "ue"))
        if spelt_out != folded:
            yield spelt_out


def _put(into: dict[str, Entry], table: str, word: str, entry: Entry) -> None:
    if (known := into.get(word)) is not None:
        raise LexiconError(f"{table}: '{word}' is already listed as {known.role.value} ({known.why})")
    into[word] = entry


def _add_spellings(verbs: dict[str, Entry]) -> None:
    for word, entry in list(verbs.items()):
        for ending, other in _SPELLINGS:
            if len(word) > 5 and word.endswith(ending):
                verbs.setdefault(word[: -len(ending)] + other, entry)


def _phrases(groups: object) -> Mapping[str, Mapping[str, Entry]]:
    phrases: dict[str, dict[str, Entry]] = {}
    for table, why, group in _groups("phrase", groups):
        role = _role(str(group.get("role")))
        for pair in _words(table, group, "words", each=2):
            first, second = pair.split(" ")
            _put(phrases.setdefault(first, {}), table, second, Entry(pair, role, why))
    return MappingProxyType({first: MappingProxyType(seconds) for first, seconds in phrases.items()})


def _objects(name: str, groups: object, verbs: Mapping[str, Entry]) -> Mapping[str, Mapping[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for table, why, group in _groups(name, groups):
        objects = list(_words(table, group, "words"))
        for verb in _words(table, group, "verbs"):
            if verb not in verbs:
                raise LexiconError(f"{table}: '{verb}' is not a listed verb")
            found.setdefault(verb, {}).update(dict.fromkeys(objects, why))
    return MappingProxyType({verb: MappingProxyType(objects) for verb, objects in found.items()})


def _verbs_of(groups: object, verbs: Mapping[str, Entry]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for table, _why, group in _groups("verb_of", groups):
        for pair in _words(table, group, "words", each=2):
            noun, verb = pair.split(" ")
            if verb not in verbs:
                raise LexiconError(f"{table}: '{verb}' is not a listed verb")
            found[noun] = verb
    return MappingProxyType(found)
