"""Where the keys of a TOML text stand. The text is known to be valid, so this looks for keys and judges nothing."""

from __future__ import annotations

import contextlib
import re
import tomllib
from dataclasses import dataclass
from typing import Any, Final

from heuristics.formats.spotted import Spots
from heuristics.formats.text import Lines

__all__ = ["spots_in"]

_TOKEN: Final = re.compile(
    r"(?:[ \t\r\n]++|\#[^\n]*+)"
    r"|(?P<text>\"\"\"(?:[^\"\\]|\\.|\"(?!\"\"))*+\"{3,5}+|'''(?:[^']|'(?!''))*+'{3,5}+"
    r"|\"(?:[^\"\\\n]|\\.)*+\"|'[^'\n]*+')"
    r"|(?P<sign>[\[\]{}=,.])"
    r"|(?P<word>[^ \t\r\n\#\"'\[\]{}=,.]++)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int


def spots_in(text: str, root: dict[str, Any], lines: Lines) -> Spots:
    """Key and value of every table's and array's part, as far as they stand as keys in the text."""
    tokens = [
        _Token(found.lastgroup, found.group(), found.start(), found.end())
        for found in _TOKEN.finditer(text)
        if found.lastgroup is not None
    ]
    walk = _Walk(text, tokens, lines)
    with contextlib.suppress(LookupError, TypeError):  # a form that is not known here: the rest has no positions
        walk.document(root)
    return walk.spots


class _Walk:
    def __init__(self, text: str, tokens: list[_Token], lines: Lines) -> None:
        self.spots: Spots = {}
        self._text = text
        self._tokens = tokens
        self._lines = lines
        self._at = 0
        self._length_seen: dict[int, int] = {}
        """`id` of an array of tables to how many of its headers were met."""

    def document(self, root: dict[str, Any]) -> None:
        table: Any = root
        while self._at < len(self._tokens):
            if self._sign() == "[":
                table = self._header(root)
            else:
                self._value(self._key(table))

    def _header(self, root: dict[str, Any]) -> Any:
        self._at += 1
        of_array = self._sign() == "["
        self._at += of_array
        keys = self._parts("]")
        self._at += of_array
        table: Any = root
        for number, (name, start) in enumerate(keys, start=1):
            self._note(table, name, start, start)
            table = table[name]
            if isinstance(table, list):
                seen = self._length_seen.get(id(table), 0)
                if of_array and number == len(keys):
                    self._length_seen[id(table)] = seen = seen + 1
                    self._note(table, seen - 1, start, start)
                table = table[seen - 1]
        return table

    def _key(self, table: Any) -> Any:
        """Reads `a.b =`, and gives the value that follows."""
        keys = self._parts("=")
        value_at = self._tokens[self._at].start
        for number, (name, start) in enumerate(keys, start=1):
            self._note(table, name, start, value_at if number == len(keys) else start)
            table = table[name]
        return table

    def _parts(self, closing: str) -> list[tuple[str, int]]:
        """Key parts up to a sign, which is passed."""
        found: list[tuple[str, int]] = []
        while self._sign() != closing:
            token = self._tokens[self._at]
            if token.kind == "word":
                found.append((token.text, token.start))
            elif token.kind == "text":
                found.append((str(tomllib.loads(f"key = {token.text}")["key"]), token.start))
            self._at += 1
        self._at += 1
        return found

    def _value(self, value: Any) -> None:
        open_: list[list[Any]] = []  # container and, for arrays, the next index
        while True:
            opening = self._sign()
            if opening in ("[", "{"):
                open_.append([value, 0])
                self._at += 1
            else:
                self._scalar()
            while open_:
                sign = self._sign()
                if sign in ("]", "}"):
                    open_.pop()
                    self._at += 1
                elif sign == ",":
                    self._at += 1
                else:
                    break
            if not open_:
                return
            container, index = open_[-1]
            if isinstance(container, list):
                start = self._tokens[self._at].start
                self._note(container, index, start, start)
                open_[-1][1] = index + 1
                value = container[index]
            else:
                value = self._key(container)

    def _scalar(self) -> None:
        token = self._tokens[self._at]
        self._at += 1
        while token.kind != "text" and self._at < len(self._tokens):
            following = self._tokens[self._at]
            same = following.kind == "word" or following.text == "."  # 1.5, and dates with a space
            if not same or "\n" in self._text[token.end : following.start]:
                return
            token = following
            self._at += 1

    def _sign(self) -> str:
        token = self._tokens[self._at]
        return token.text if token.kind == "sign" else ""

    def _note(self, container: Any, key: str | int, start: int, value_at: int) -> None:
        spots = self.spots.setdefault(id(container), {})
        spots.setdefault(key, (self._lines.spot(start), self._lines.spot(value_at)))
