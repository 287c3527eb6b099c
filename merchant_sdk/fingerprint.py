"""Digests that nothing can shift across: every part is written with its length and a tag for its type."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_HALF = 32  # hex digits: 128 bits


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 in hex over `<length>:<bytes>,` for each part, so ("a", "bc") is not ("ab", "c")."""
    sha = hashlib.sha256()
    for part in parts:
        sha.update(b"%d:" % len(part))
        sha.update(part)
        sha.update(b",")
    return sha.hexdigest()


def fingerprint(value: Any) -> str:
    """Digest of a JSON value: key order and the spelling of numbers do not count (2.10).

    Accepts None, bool, int, Decimal, str, list, tuple and dict with str keys; TypeError otherwise. Floats
    are refused, since two different decimal texts can share one.
    """
    return digest(_parts(value))


def named_fingerprint(fields: Mapping[str, Any]) -> str:
    """A fingerprint that can tell which field differs: `<name>:<half a digest>` for each, sorted by name.

    Values as for `fingerprint`. Raises TypeError as that does.
    """
    return ",".join(f"{name}:{fingerprint(value)[:_HALF]}" for name, value in sorted(fields.items()))


def differing(first: str, given: str) -> tuple[str, ...]:
    """The fields in which two named fingerprints differ; none where either is not named."""
    one, other = (dict(part.rpartition(":")[::2] for part in text.split(",")) for text in (first, given))
    if "" in one or "" in other:
        return ()
    return tuple(name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name))


def _parts(value: Any) -> Iterable[bytes]:
    if value is None or isinstance(value, bool):
        yield {None: b"n", True: b"t", False: b"f"}[value]
    elif isinstance(value, int | Decimal):
        yield b"d"
        yield _number(Decimal(value))
    elif isinstance(value, str):
        yield b"s"
        yield value.encode()
    elif isinstance(value, list | tuple):
        yield b"l%d" % len(value)
        for item in value:
            yield from _parts(item)
    elif isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            raise TypeError("the fields of an object are named by text")
        yield b"o%d" % len(value)
        for key in sorted(value):
            yield key.encode()
            yield from _parts(value[key])
    else:
        raise TypeError(f"a fingerprint is made of JSON values, not of {type(value).__name__}")


def _number(number: Decimal) -> bytes:
    """1, 1.0 and 1e0 are one number; written as digits without trailing zeros and a power of ten."""
    sign, digits, power = number.as_tuple()
    if not isinstance(power, int):
        raise TypeError("a fingerprint is made of finite numbers")
    text = "".join(map(str, digits)).lstrip("0")
    kept = text.rstrip("0")
    if not kept:
        return b"0"
    return f"{'-' if sign else ''}{kept}e{power + len(text) - len(kept)}".encode()
