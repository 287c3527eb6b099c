"""Tool names as words (promise 3.2): snake, kebab, camel, dots, digits; and the prefix that a company's tools share.

Everything here is linear in the length of the name and accepts any string.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

__all__ = ["fold", "last_segment", "split", "words_of_company"]

# Names without capitals need no camel rule; most names are such, and this pattern is twice as fast.
_PLAIN = re.compile(r"[a-z]+|[0-9]+|&|[^\W\d_a-z]+")
_CAMEL = re.compile(r"[A-Z]{2,}s(?![a-z])|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|&|[^\W\d_A-Za-z]+")
_NAMESPACE = re.compile(r"[./:]|(?<=[^_])__(?=[^_])")


def fold(text: str) -> str:
    """Compatibility forms and accents removed, case kept: `añadir` -> `anadir`, full-width Latin -> ASCII."""
    if text.isascii():
        return text
    decomposed = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("ẞ", "SS"))
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def split(name: str) -> list[str]:
    """The name's words in lower case: `finaliseInvoice2` -> `["finalise", "invoice", "2"]`; `&` is a word."""
    if not name.isascii():
        name = fold(name)
    lowered = name.lower()
    if lowered == name:
        return _PLAIN.findall(name)
    return [word.lower() for word in _CAMEL.findall(name)]


def last_segment(name: str) -> str:
    """What follows the last namespace mark, or an empty string if there is none.

    Marks are `.`, `/`, `:` and an inner `__`; and `_` where the last part holds a `-`, since then `-` joins the words
    (`webapp_settings_update-appsettings`).
    """
    end = 0
    for mark in _NAMESPACE.finditer(name):
        end = mark.end()
    if end:
        return name[end:]
    tail = name[name.rfind("_") + 1 :]
    return tail if "-" in tail and len(tail) < len(name) else ""


def words_of_company(names: Iterable[str]) -> list[str]:
    """The leading words that all distinct names share, leaving every name at least one word of its own.

    Two names at least are needed: one name alone shares everything with itself.
    """
    distinct = list(dict.fromkeys(names))
    if len(distinct) < 2:
        return []
    shared = split(distinct[0])[:-1]
    for name in distinct[1:]:
        words = split(name)
        limit = min(len(shared), len(words) - 1)
        length = 0
        while length < limit and shared[length] == words[length]:
            length += 1
        del shared[length:]
        if not shared:
            break
    return shared
