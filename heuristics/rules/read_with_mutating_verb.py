"""OG103: a name led by a read verb that carries a whole mutating verb: `view_checkout`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.lexicon import Role
from heuristics.platform import PLATFORM_VERBS
from heuristics.rules.better_names import replaced_nouns
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import joined, quoted

_READS: Final = (Role.GET, Role.READ, Role.READ_OR_NOUN, Role.NOUN_OR_READ)


def _check(at: Looked) -> Iterator[Remark]:
    if at.side_effecting or at.declared or at.by_name.side_effecting or at.by_name.verb is None:
        return
    if at.tool.hints.read_only or at.method in ("GET", "HEAD"):
        return
    entry, words, verbs = at.verb, at.words, at.lexicon.verbs
    if entry is None or entry.role not in _READS or at.by_name.verb not in words:
        return
    for place in range(words.index(at.by_name.verb) + 1, len(words)):
        word, last = words[place], place == len(words) - 1
        known = verbs.get(word)
        if known is not None and known.role in (Role.PREPOSITION, Role.CONJUNCTION):
            return
        whole = word in PLATFORM_VERBS
        if whole or (last and known is not None and known.role is Role.MUTATING):
            yield Remark(
                f"{quoted(at.by_name.verb)} makes it a read, but {quoted(word)} is a verb that changes something: "
                f"{at.declare} (which says whether it only shows), or {_renamed(at)}.",
                severity="error" if whole and last else None,
            )
            return


def _renamed(at: Looked) -> str:
    names = replaced_nouns(at)
    return f"use a noun ({joined(map(quoted, names), 'or')})" if names else "use a noun"


RULE: Final = Rule(
    code="OG103",
    name="read-with-mutating-verb",
    severity="warning",
    what=(
        "The name begins like a read and carries a whole verb that changes something. An error where one of the "
        "platform's twelve verbs ends the name (`view_checkout`), a warning where a noun follows it or another "
        "verb ends the name. Declaring "
        "`side_effecting`, `readOnlyHint: true` or a GET settles it."
    ),
    why=(
        "Nobody can tell from `view_checkout` whether it shows a page or starts a purchase. By its first word it is a "
        "read and goes unprotected; if the other word is meant, two calls are two purchases."
    ),
    example="""\
{"tools": [{
  "name": "view_checkout",
  "description": "Go to the checkout.",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}}
}]}
""",
    instead="""\
{"tools": [{
  "name": "get_cart_total",
  "description": "Show what the cart costs, with shipping.",
  "inputSchema": {"type": "object", "properties": {"cart_id": {"type": "string"}}}
}]}
""",
    check=_check,
)
