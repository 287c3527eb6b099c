"""Is a tool side-effecting? Declarations first (3.3), then the name (3.1, 3.2), then hints, which only raise (3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Literal

from .hints import Hints, raised_by
from .lexicon import Lexicon, Role
from .lexicon_file import default_lexicon
from .overrides import declared
from .platform import platform_verb
from .verbs import METHODS, Judgement, judge
from .words import last_segment, split, words_of_company

__all__ = ["Heuristic", "Verdict", "classify", "raised", "shared_prefix"]

Heuristic = Literal["words", "platform"]

_NONE: Mapping[str, bool] = MappingProxyType({})
_MARKS = frozenset("./:_")
_VERBAL = (
    Role.MUTATING,
    Role.MUTATING_OR_NOUN,
    Role.FRONT,
    Role.ACT,
    Role.DISPATCHER,
    Role.GET,
    Role.READ,
    Role.READ_OR_NOUN,
    Role.NOUN_OR_READ,
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a tool is side-effecting, the rule that says so, why, and the verb that decided (None if none did).

    `source`: `tool`, `company`, `platform_override`, `heuristic:words`, `heuristic:platform` or `hint`.
    """

    side_effecting: bool
    source: str
    reason: str
    verb: str | None


def classify(
    name: str,
    *,
    heuristic: Heuristic = "words",
    lexicon: Lexicon | None = None,
    prefix: str = "",
    tool_override: bool | None = None,
    company_overrides: Mapping[str, bool] = _NONE,
    platform_overrides: Mapping[str, bool] = _NONE,
    hints: Hints | None = None,
) -> Verdict:
    """The verdict on one tool, from its registered name; promises 3.1 to 3.4.

    `prefix` is what `shared_prefix` gave for the company's tools. Overrides map exact names or globs to side-effecting.
    Raises on no name, whatever its characters or length. Without `lexicon` the shipped tables are read, once.
    """
    override = declared(name, tool_override, company_overrides, platform_overrides)
    if override is not None:
        return Verdict(override.side_effecting, override.source, override.reason, None)
    if heuristic == "platform":
        verdict = _by_platform(name)
    else:
        verdict = _by_words(name, prefix, default_lexicon() if lexicon is None else lexicon)
    return verdict if hints is None else raised(verdict, hints)


def raised(verdict: Verdict, hints: Hints) -> Verdict:
    """What hints make of a verdict by name (3.4)."""
    if verdict.side_effecting or (reason := raised_by(hints)) is None:
        return verdict
    return Verdict(True, "hint", f"{reason}; by its name it would be a read ({verdict.reason})", verdict.verb)


def shared_prefix(names: Iterable[str], *, lexicon: Lexicon | None = None) -> str:
    """The words that all of a company's names start with, joined by `_`; empty if none, or for a single name (3.2).

    It stops at the first word that can be a verb: a company whose tools are all `get_…` has no prefix.
    """
    verbs = (default_lexicon() if lexicon is None else lexicon).verbs
    shared = words_of_company(names)
    for place, word in enumerate(shared):
        entry = verbs.get(word)
        if entry is not None and entry.role in _VERBAL:
            del shared[place:]
            break
    return "_".join(shared)


def _by_platform(name: str) -> Verdict:
    verb = platform_verb(name)
    if verb is None:
        return Verdict(False, "heuristic:platform", "the name contains none of the platform's twelve verbs", None)
    return Verdict(True, "heuristic:platform", f"the name contains '{verb}'", verb)


def _by_words(name: str, prefix: str, lexicon: Lexicon) -> Verdict:
    words = split(name)
    if prefix:
        dropped = _prefix_words(prefix)
        if len(words) > len(dropped) and words[: len(dropped)] == list(dropped):
            words = words[len(dropped) :]
    found: Judgement | None = None
    if not _MARKS.isdisjoint(name):
        found = _by_segment(name, lexicon)
    if found is None:
        camel = not name.islower() and "_" not in name and "-" not in name
        found = judge(words, lexicon, camel_http=camel)
    if found is None:
        return Verdict(True, "heuristic:words", _no_verb(words, lexicon), None)
    return Verdict(found.side_effecting, "heuristic:words", found.reason, found.verb)


def _by_segment(name: str, lexicon: Lexicon) -> Judgement | None:
    """`search.update_index`: what follows the namespace decides alone, if it holds a verb besides an HTTP method.

    It cannot make a read of a name that starts with a mutating verb: `delete_user-list` deletes.
    """
    tail = last_segment(name) or _camel_tail(name, lexicon)
    segment = split(tail)
    if not segment or (len(segment) == 1 and segment[0] in METHODS):
        return None
    found = judge(segment, lexicon)
    if found is None or found.side_effecting:
        return found
    for word in split(name[: len(name) - len(tail)]):
        entry = lexicon.verbs.get(word)
        if entry is not None and entry.role in (Role.MUTATING, Role.MUTATING_OR_NOUN):
            return None
    return found


def _camel_tail(name: str, lexicon: Lexicon) -> str:
    """`hosting_importSite` -> `importSite`: camel case behind words that hold no verb; else empty."""
    head, _, tail = name.rpartition("_")
    if not head or tail.islower() or tail.isupper() or not tail[:1].islower():
        return ""
    for word in split(head):
        entry = lexicon.verbs.get(word)
        if entry is not None and entry.role in _VERBAL:
            return ""
    return tail


def _no_verb(words: list[str], lexicon: Lexicon) -> str:
    for word in words:
        entry = lexicon.verbs.get(word)
        if entry is not None and entry.role is Role.NOMINAL:
            return f"no verb that the tables know ('{word}' {entry.why})"
    return "no verb that the tables know"


@lru_cache(maxsize=64)
def _prefix_words(prefix: str) -> tuple[str, ...]:
    return tuple(split(prefix))
