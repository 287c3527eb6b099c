"""Which names are the same, fold to the same, or are one edit apart. Linear in the names in practice: nothing is
compared with everything, but looked up under what is left when one character is taken away."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from rapidfuzz.distance import OSA

from heuristics.classify import classify
from heuristics.lexicon import Lexicon
from heuristics.rules.looked import Alike
from heuristics.words import split

__all__ = ["NameIndex", "among", "folded"]

_DIGITS: Final = re.compile("[0-9]+")
_SEPARATORS: Final = re.compile(r"[\W_]+")
_SHORTEST: Final = 8
_LONGEST: Final = 64
_MOST_IN_A_BUCKET: Final = 8
"""Names under one key that are compared with one another; more are a series of names, not slips."""
_MOST: Final = 50
_MOST_ABROAD: Final = 8
"""Companies with the other name that are asked whether they use this one too."""


def folded(name: str) -> str:
    """Letter case and separators do not count. A name of nothing but separators is itself: `...` is not `---`."""
    return _SEPARATORS.sub("", name).casefold() or name


class NameIndex:
    """The names of all tools, by scope: a company, or a file where no company is named.

    Two companies may well use one name, so across companies only near names count, and only where neither company
    uses both; of the two, the one that fewer companies use is the odd one out.
    """

    def __init__(self, tools: Sequence[tuple[str, str, str]], lexicon: Lexicon) -> None:
        """`tools`: scope, name and where it stands, in order."""
        self._lexicon = lexicon
        self._first: dict[tuple[str, str], tuple[int, str]] = {}
        self._scopes: dict[str, list[str]] = {}
        self._forms: dict[str, list[str]] = {}
        self._fold: dict[str, str] = {}
        for place, (scope, name, where) in enumerate(tools):
            if (scope, name) in self._first:
                continue
            self._first[scope, name] = (place, where)
            if (scopes := self._scopes.get(name)) is not None:
                scopes.append(scope)
                continue
            self._scopes[name] = [scope]
            self._fold[name] = fold = folded(name)
            self._forms.setdefault(fold, []).append(name)
        self._slips = self._slipped()

    def of(self, place: int, scope: str, name: str) -> list[Alike]:
        """What is like the tool that stands at `place` in the order; at most some of what are very many."""
        first, where = self._first[scope, name]
        found = [Alike("same", name, where=where)] if first != place else []
        fold = self._fold[name]
        found += self._of_form("folded", self._forms[fold], scope, name)
        for slip in self._slips.get(fold, ()):
            found += self._of_form("slip", self._forms[slip], scope, name)
        return found[:_MOST]

    def _of_form(self, kind: str, others: Sequence[str], scope: str, name: str) -> Iterator[Alike]:
        for other in others[: _MOST + 1]:
            if other == name:
                continue
            own = (scope, other) in self._first
            if not own and len(self._scopes[other]) < len(self._scopes[name]):
                continue
            abroad = None if own else self._abroad(name, other)
            if (own or abroad is not None) and (kind == "folded" or self._confusable(name, other)):
                yield Alike(kind, other, abroad)

    def _abroad(self, name: str, other: str) -> str | None:
        """A scope that uses the other name and not this one."""
        return next((scope for scope in self._scopes[other][:_MOST_ABROAD] if (scope, name) not in self._first), None)

    def _slipped(self) -> Mapping[str, list[str]]:
        """Folded form -> the forms one edit away from it."""
        first: dict[str, str] = {}
        more: dict[str, list[str]] = {}  # few: most keys are nobody else's
        letters: dict[str, str] = {}  # names that differ in digits alone are a series
        for form in self._forms:
            if not _SHORTEST <= len(form) <= _LONGEST:
                continue
            letters[form] = _DIGITS.sub("", form)
            for key in dict.fromkeys([form, *[form[:place] + form[place + 1 :] for place in range(len(form))]]):
                known = first.setdefault(key, form)
                if known is not form and letters[known] != letters[form]:
                    more.setdefault(key, [known]).append(form)
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for forms in more.values():
            for one in forms[:_MOST_IN_A_BUCKET]:
                for other in forms[:_MOST_IN_A_BUCKET]:
                    if one != other and _one_edit(one, other):
                        found[one][other] = None
        return {form: list(others) for form, others in found.items()}

    def _confusable(self, one: str, other: str) -> bool:
        """Not a numbered series, not two words that the tables know (`get_…` and `set_…`), and not one and many that
        are looked at (`get_order`, `get_orders`); `place_order` and `place_orders` are."""
        here, there = split(one), split(other)
        if len(here) != len(there):
            return True
        for mine, yours in zip(here, there, strict=True):
            if mine == yours:
                continue
            if mine.isdigit() or yours.isdigit() or len(mine) < 4 or len(yours) < 4:
                return False
            if mine + "s" == yours or yours + "s" == mine:
                return classify(one, lexicon=self._lexicon).side_effecting
            if self._known(mine) and self._known(yours):
                return False
        return True

    def _known(self, word: str) -> bool:
        return word in self._lexicon.verbs or word in self._lexicon.tails or word in self._lexicon.heads


def _one_edit(one: str, other: str) -> bool:
    """One character more, less or another, or two neighbours swapped."""
    return OSA.distance(one, other, score_cutoff=1) == 1


def among(name: str, others: Iterable[str], lexicon: Lexicon) -> list[Alike]:
    """The same for one tool among its company's others, without an index over all of them."""
    fold = folded(name)
    near = []
    for other in others:
        if other != name and abs(len(other) - len(name)) <= _LONGEST:
            form = folded(other)
            long_enough = min(len(form), len(fold)) >= _SHORTEST and max(len(form), len(fold)) <= _LONGEST
            if form == fold or (long_enough and _one_edit(form, fold)):
                near.append(other)
    listed = [("", each, "") for each in [name, *sorted(near)]]
    return NameIndex(listed, lexicon).of(0, "", name)
