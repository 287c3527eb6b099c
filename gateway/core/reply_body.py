"""A merchant's reply body, from bytes to raw JSON text (promises 5 and 9.4).

Nothing here builds the values: a JSON body is checked and kept as the merchant wrote it, so that numbers
beyond 2^53 and the order of keys survive. Every function is total: any bytes give an answer.
"""

from __future__ import annotations

import codecs
import enum
import functools
import html
import re
from encodings.aliases import aliases
from typing import Final

import msgspec

from gateway.core.strict_json import MAX_DEPTH, deeper_than

NULL: Final = b"null"


class Body(enum.StrEnum):
    """What a body turned out to be."""

    EMPTY = "empty"
    JSON = "json"
    TEXT = "text"
    ENCODED = "content_encoding"
    HTML = "html"
    OTHER_TYPE = "content_type"
    BAD_CHARSET = "undecodable"
    BAD_JSON = "malformed_json"
    TOO_DEEP = "nested_too_deep"


class Form(enum.Enum):
    """What a declared media type promises."""

    JSON = 1
    TEXT = 2
    HTML = 3
    OTHER = 4
    UNDECLARED = 5


MEDIA_TYPES: Final = {
    "": Form.UNDECLARED,
    "application/json": Form.JSON,
    "text/json": Form.JSON,
    "application/x-json": Form.JSON,
    "text/html": Form.HTML,
    "application/xhtml+xml": Form.HTML,
    "text/xml": Form.OTHER,
    "text/event-stream": Form.OTHER,
}
"""Exact types; then `+json` is JSON, `text/*` is text, anything else is outside the contract."""

_LATIN_1 = ("cp1252", "latin_1")  # what the web means by Latin-1, then what the standard says
CHARSETS: Final = {
    "latin_1": _LATIN_1,
    "cp1252": _LATIN_1,
    **{
        name: (name,)
        for name in (
            *(f"iso8859_{part}" for part in (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16)),
            *(f"cp{page}" for page in (874, 932, 949, 950, 1250, 1251, 1253, 1254, 1255, 1256, 1257, 1258)),
            *("koi8_r", "koi8_u", "gbk", "gb2312", "gb18030", "big5", "euc_jp", "euc_kr", "shift_jis"),
            *("utf_16", "utf_16_le", "utf_16_be"),
        )
    },
}
"""Codecs a `charset` may name, by their module in Python; any other name is read as UTF-8, strictly. A list
and not `codecs.lookup`, which also finds codecs that unpack (zlib, bz2) and remembers every name asked for."""

_BOM = codecs.BOM_UTF8
_ENCODINGS_THAT_CHANGE_NOTHING = frozenset({"", "identity"})
_HTML_START = re.compile(rb"\s*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_HALF_PAIR = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_checker = msgspec.json.Decoder(msgspec.Raw)  # checks the grammar and reads no value
_CLEANED_INPUT = 16_384
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")
_BLANKS = re.compile(r"\s+")
_NO_CHARACTER = re.compile(r"&#[0-9]{1000,};?")
"""A reference of more digits than any character has, and perhaps than Python makes a number of (4,300)."""
_NOT_ALPHANUMERIC = re.compile(r"[^a-z0-9]+")
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}  # unlike lower(), keeps the length


@functools.lru_cache(maxsize=256)
def content_type_of(header: str | None) -> tuple[str, str | None]:
    """Split a Content-Type field value (RFC 9110, 8.3) into media type, lowercase, and charset or None."""
    if not header:
        return "", None
    media, *parameters = header.split(";")
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            return media.strip().lower(), value.strip().strip("\"'").lower() or None
    return media.strip().lower(), None


def form_of(media_type: str) -> Form:
    """What a media type, lowercase and without parameters, promises of the body."""
    known = MEDIA_TYPES.get(media_type)
    if known is not None:
        return known
    if media_type.endswith("+json"):
        return Form.JSON
    return Form.TEXT if media_type.startswith("text/") else Form.OTHER


def declared_body(media_type: str, content_encoding: str) -> Body:
    """What the header section alone says of a body too large to be read whole."""
    if content_encoding.strip().lower() not in _ENCODINGS_THAT_CHANGE_NOTHING:
        return Body.ENCODED
    return _DECLARED[form_of(media_type)]


_DECLARED: Final = {
    Form.JSON: Body.JSON,
    Form.TEXT: Body.TEXT,
    Form.HTML: Body.HTML,
    Form.OTHER: Body.OTHER_TYPE,
    Form.UNDECLARED: Body.OTHER_TYPE,
}


def read_body(data: bytes, media_type: str, charset: str | None, content_encoding: str) -> tuple[Body, bytes | None]:
    """Tell what a whole body is and give it as raw JSON text in UTF-8, or None where it is unreadable.

    Empty and white space alone give `null`, as does a body of `null`: the two are equal. Text becomes a JSON
    string. Escaped halves of surrogate pairs become U+FFFD, since no UTF-8 text can hold them. A body without
    a declared type counts only if it is JSON. Never raises.
    """
    if content_encoding.strip().lower() not in _ENCODINGS_THAT_CHANGE_NOTHING:
        return Body.ENCODED, None
    form = form_of(media_type)
    is_json, is_text = form is Form.JSON, form is Form.TEXT
    if not data:
        return Body.EMPTY, NULL
    if not is_json:
        if form is Form.HTML or _HTML_START.match(data):
            return Body.HTML, None
        if form is Form.OTHER:
            return Body.OTHER_TYPE, None
    text = _in_utf8(data, charset)
    if text is None:
        return Body.BAD_CHARSET, None
    stripped = text.strip(b" \t\r\n")
    if not stripped:
        return Body.EMPTY, NULL
    if is_text:
        return Body.TEXT, msgspec.json.encode(text.decode())
    text = stripped
    if deeper_than(MAX_DEPTH, text):
        return Body.TOO_DEEP, None
    if _SURROGATE_ESCAPE.search(text):
        text = _HALF_PAIR.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)
    try:
        _checker.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return (Body.BAD_JSON if is_json else Body.OTHER_TYPE), None
    return Body.JSON, text


def excerpt_of(data: bytes, media_type: str, charset: str | None, *, limit: int = 2_048) -> str:
    """A short plain text of a body for the event log: no tags, no control characters, at most `limit` bytes
    of UTF-8. Undecodable bytes become U+FFFD. Never raises."""
    if not data:
        return ""
    head = data[:_CLEANED_INPUT]
    decoded = _in_utf8(head, charset)
    text = (decoded if decoded is not None else head).decode("utf-8", "replace")
    if form_of(media_type) is Form.HTML or _HTML_START.match(head):
        text = html.unescape(_NO_CHARACTER.sub("\ufffd", _without_tags(text)))
    text = _BLANKS.sub(" ", _CONTROL.sub(" ", text)).strip()
    cut = text.encode()
    return text if len(cut) <= limit else cut[:limit].decode("utf-8", "ignore")


def _in_utf8(data: bytes, charset: str | None) -> bytes | None:
    """The same text as UTF-8 without a byte-order mark, or None. A UTF-8 mark beats a declared charset."""
    if not data.startswith(_BOM):
        for name in _codecs_for(charset):
            try:
                return data.decode(name).encode()
            except UnicodeError:
                continue
    try:
        data.decode()
    except UnicodeDecodeError:
        return None
    return data.removeprefix(_BOM)


def _codecs_for(charset: str | None) -> tuple[str, ...]:
    if charset is None or charset == "utf-8":
        return ()
    name = _NOT_ALPHANUMERIC.sub("_", charset.lower())
    return CHARSETS.get(aliases.get(name, name), ())


def _without_tags(text: str) -> str:
    """Text between tags; comments, scripts and styles go whole. Each search moves forward only."""
    lowered = text.translate(_LOWER)
    kept: list[str] = []
    at = 0
    while True:
        start = lowered.find("<", at)
        if start < 0:
            kept.append(text[at:])
            return " ".join(kept)
        kept.append(text[at:start])
        for opening, closing in (("<!--", "-->"), ("<script", "</script"), ("<style", "</style"), ("<", ">")):
            if lowered.startswith(opening, start):
                end = lowered.find(closing, start + len(opening))
                break
        if end < 0:
            return " ".join(kept)
        # A closing tag is left to be read as the next tag.
        at = end if closing.startswith("</") else end + len(closing)
