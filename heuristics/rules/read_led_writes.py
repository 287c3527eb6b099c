"""OG204: a name that begins like a read and changes something: `get_or_create_cart`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from heuristics.lexicon import Role
from heuristics.rules.better_names import clearer
from heuristics.rules.looked import Looked
from heuristics.rules.rule import Remark, Rule
from heuristics.rules.wording import quoted

_READS: Final = (Role.GET, Role.READ, Role.READ_OR_NOUN, Role.NOUN_OR_READ)


def _check(at: Looked) -> Iterator[Remark]:
    by_name, words = at.by_name, at.words
    if not by_name.side_effecting or by_name.verb is None or not words or len(at.name) > 128:
        return
    first = at.lexicon.verbs.get(words[0])
    if first is None or first.role not in _READS or words[0] == by_name.verb.split()[0]:
        return
    places = [place for place, word in enumerate(words) if word == by_name.verb]
    if not places:
        return
    names = clearer(at)
    better = f"call it {quoted(names[0])}" if names else f"begin with {quoted(by_name.verb)}"
    yield Remark(
        f"It begins like a read, but {quoted(by_name.verb)} changes something: {better}, or make it two tools.",
    )


RULE: Final = Rule(
    code="OG204",
    name="read-led-writes",
    severity="note",
    what="The name begins with a verb that reads and goes on with one that changes something.",
    why=(
        "It is protected, but people and models read the first word: an assistant that only wanted to look has made a "
        "cart, and the look is recorded and held as a repeat."
    ),
    example="""\
{"tools": [{
  "name": "get_or_create_cart",
  "description": "The customer's cart; a new one if there is none.",
  "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false}
}]}
""",
    instead="""\
{"tools": [{
  "name": "create_cart",
  "description": "A cart for the customer, or the one that is there.",
  "inputSchema": {"type": "object", "properties": {}, "additionalProperties": false}
}]}
""",
    check=_check,
)
