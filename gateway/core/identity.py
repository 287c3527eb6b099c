"""Who a call is: canonical arguments, fingerprint, effect id and the scope rule (promises 2.1 to 2.10).

Pure. Golden vectors in `tests/vectors/identity.json` pin every byte: a change here is a change of every key
in every ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Final, Protocol, TypeVar
from zlib import crc32

import msgspec

from gateway.core.strict_json import Json, JsonRefused, Number, canonical_bytes, dumps, parse

MAX_ID_BYTES: Final = 1_024
"""The longest id (2.8)."""
FIELDS_KEPT: Final = 64
"""Top-level fields of its arguments that a record can name later (2.2)."""


class Scope(StrEnum):
    """What a `tool_call_id` names a call within (2.3)."""

    AUTO = "auto"
    CONVERSATION = "conversation"
    TURN = "turn"
    STEP = "step"


class Kind(StrEnum):
    """What an effect is (section 1)."""

    TOOL_CALL = "tool_call"
    LLM_CALL = "llm_call"
    LOCAL = "local"


class Place(msgspec.Struct, frozen=True):
    """Where in a conversation a request says it stands; None is left out, and what is left out does not differ."""

    turn: str | None = None
    step: int | None = None
    attempt: int | None = None


class Arguments(msgspec.Struct, frozen=True):
    """Accepted arguments (2.9): the object, its canonical bytes, and whether it may hold a `Number`."""

    value: dict[str, Json]
    canonical: bytes
    exact: bool = True

    @property
    def text(self) -> str:
        """As sent, for the merchant (2.10)."""
        return dumps(self.value)

    @property
    def plain(self) -> dict[str, Json]:
        """With ints and floats only: for schema checks, never for identity."""
        return json.loads(self.canonical) if self.exact else self.value


def read_arguments(sent: Json) -> Arguments:
    """Accept an object, a JSON text holding one (peeled at most twice), or empty text meaning `{}` (2.9).

    Raises JsonRefused for anything else; nothing is repaired.
    """
    value = sent
    if isinstance(value, str):
        value = {} if not value.strip() else parse(value)
        if isinstance(value, str):
            value = parse(value)
    if not isinstance(value, dict):
        raise JsonRefused(f"must be an object or a JSON text holding one, not {_named(value)}")
    return Arguments(value, *canonical_bytes(value))


def fingerprint(kind: Kind, target: str, canonical: bytes) -> bytes:
    """SHA-256 of kind, target and canonical arguments (section 1): what makes two calls identical."""
    return _digest(_names("oncegate.fingerprint.1", kind, target), _sized(canonical))


def effect_id(
    company: str,
    conversation: str,
    turn: str | None,
    tool_call_id: str | None,
    kind: Kind,
    target: str,
    canonical: bytes,
    occurrence: int,
) -> bytes:
    """The 32 bytes whose hex form is the `effect_id` and the merchant's `Idempotency-Key` (2.4).

    Without a turn, `tool_call_id` stands for it; a leading letter keeps a turn named like an id apart from it.
    """
    return _digest(
        _names("oncegate.effect.1", company, conversation),
        _sized(place_of(turn, tool_call_id).encode()),
        _names(kind, target),
        _sized(hashlib.sha256(canonical).digest()),
        _sized(str(occurrence).encode()),
    )


def place_of(turn: str | None, tool_call_id: str | None) -> str:
    """What occurrences are numbered within: the turn or, without one, the id that stands for it (2.4)."""
    if turn is not None:
        return "t" + turn
    if tool_call_id is None:
        raise ValueError("neither a turn nor a tool_call_id")
    return "i" + tool_call_id


@lru_cache(maxsize=1_024)
def conversation_digest(company: str, conversation: str) -> bytes:
    """16 bytes naming a conversation in the ledger."""
    return _digest(_names("oncegate.conversation.1", company, conversation))[:16]


def call_digest(company: str, conversation: str, tool_call_id: str, scope: Scope, place: Place) -> bytes:
    """16 bytes naming what one id stands for (2.1), qualified by turn and step as the scope says (2.3).

    Raises ValueError where the scope needs a turn or step that is left out.
    """
    family = scope_family(scope)
    parts = [_names("oncegate.call.1", family, company, conversation), _sized(tool_call_id.encode())]
    if family:
        if place.turn is None or (scope is Scope.STEP and place.step is None):
            raise ValueError(f"call_id_scope {scope} needs turn{' and step' if scope is Scope.STEP else ''}")
        parts.append(_sized(place.turn.encode()))
        if scope is Scope.STEP:
            parts.append(_sized(str(place.step).encode()))
    return _digest(*parts)[:16]


def submission_digest(company: str, conversation: str, token: bytes) -> bytes:
    """16 bytes naming what one claim token submitted, where there is no `tool_call_id` (7.2)."""
    return _digest(_names("oncegate.submission.1", company, conversation), _sized(token))[:16]


def approval_id(effect_id: bytes, seed: bytes) -> bytes:
    """16 bytes naming one approval of an effect: another seed opens another (7.4)."""
    return _digest(_sized(b"oncegate.approval.1"), _sized(effect_id), _sized(seed))[:16]


def scope_family(scope: Scope) -> str:
    """`auto` and `conversation` share their keys, so that changing between them loses no call."""
    return _FAMILIES[scope]


_FAMILIES: Final = {Scope.AUTO: "", Scope.CONVERSATION: "", Scope.TURN: "turn", Scope.STEP: "step"}


class Bound(Protocol):
    """One call that an id was given to before."""

    @property
    def effect(self) -> bytes: ...
    @property
    def fingerprint(self) -> bytes: ...
    @property
    def place(self) -> Place: ...


B = TypeVar("B", bound=Bound)


class Same(msgspec.Struct, frozen=True):
    """The same call (2.1)."""

    bound: Bound


class Reused(msgspec.Struct, frozen=True):
    """The id of another call (2.2)."""

    bound: Bound


class Repeats(msgspec.Struct, frozen=True):
    """The same work under the same id, in another stated turn or step (2.3): repeats, by 4.9."""

    bounds: tuple[Bound, ...]


def match(bounds: Sequence[B], print_: bytes, place: Place, scope: Scope) -> Same | Reused | Repeats | None:
    """The scope rule (2.3): the same call first, then 2.2, then a repeat; else new.

    Of several that are the same, the one at this very turn, step and attempt, whatever another attempt has met at that
    step; then the one at this step; else, in a later attempt, the earliest that it has not met yet (a re-run goes
    through them in order); else the latest. One that this attempt has met at another step is not met again here: it
    is repeated.
    """
    if len(bounds) == 1 and bounds[0].fingerprint == print_ and bounds[0].place == place:
        return Same(bounds[0])  # nearly every repeat; the long way says so too
    same: list[Bound] = []
    repeats: list[Bound] = []
    reused: Bound | None = None
    met = {b.effect for b in bounds if b.fingerprint == print_ and _met_at_another_step(b.place, place)}
    for bound in reversed(bounds):
        if bound.fingerprint == print_:
            again = scope is Scope.AUTO and bound.effect in met and _differ(bound.place.attempt, place.attempt)
            (same if at_home(bound.place, place, scope) and not again else repeats).append(bound)
        elif reused is None and (scope is not Scope.AUTO or not _states_another(bound.place, place)):
            reused = bound
    if same:
        here = [b for b in same if place.step is not None and b.place.step == place.step]
        exactly = [b for b in here if b.place == place]
        others = place.step is not None and all(_differ(b.place.attempt, place.attempt) for b in same)
        return Same((exactly or here or (same[::-1] if others else same))[0])
    if reused is not None:
        return Reused(reused)
    return Repeats(tuple(repeats)) if repeats else None


def _met_at_another_step(bound: Place, place: Place) -> bool:
    return bound.turn == place.turn and bound.attempt == place.attempt is not None and _differ(bound.step, place.step)


def at_home(bound: Place, place: Place, scope: Scope) -> bool:
    """Whether an id, given to a call at `bound`, names that same call at `place` too (2.3)."""
    return scope is not Scope.AUTO or not _elsewhere(bound, place)


def _states_another(a: Place, b: Place) -> bool:
    """Both state turns, or steps, that differ."""
    return _differ(a.turn, b.turn) or _differ(a.step, b.step)


def _elsewhere(a: Place, b: Place) -> bool:
    """Another stated turn, or step of the same attempt: a re-run may reach the same call at another step."""
    return _differ(a.turn, b.turn) or (_differ(a.step, b.step) and not _differ(a.attempt, b.attempt))


def _differ(a: object, b: object) -> bool:
    return a is not None and b is not None and a != b


def field_digests(arguments: Mapping[str, Json], limit: int | None = FIELDS_KEPT) -> dict[str, int]:
    """A checksum a top-level field, enough to name what differs (2.2) without keeping or showing a value.

    Of more than `limit` fields (None: no limit), those whose names sort first. The fingerprint decides whether two
    calls differ; this only says where, so it may be cheap.
    """
    found: dict[str, int] = {}
    for name in sorted(arguments)[:limit]:
        value = arguments[name]
        if type(value) is str:
            found[name] = crc32(value.encode(), 1)
        else:
            found[name] = crc32(str(value).encode() if type(value) is int else canonical_bytes(value)[0])
    return found


def differing_fields(ours: Mapping[str, int], kept: Mapping[str, int]) -> list[str]:
    """The names of top-level fields that one lacks or that differ, sorted: `ours` all of them, `kept` as many as a
    record keeps. Behind its last one nothing is known of what it lacks, so nothing there is named."""
    known = max(kept) if len(kept) >= FIELDS_KEPT else None
    names = (name for name in {*ours, *kept} if ours.get(name) != kept.get(name))
    return sorted(name for name in names if known is None or name <= known)


def check_id(value: object) -> str:
    """An id is a string of 1 to 1,024 bytes, compared byte for byte (2.8). Raises ValueError saying what it is."""
    if not isinstance(value, str):
        raise ValueError(f"must be a string, not {_named(value)}")
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        raise ValueError("holds half of a surrogate pair") from None
    if not 0 < size <= MAX_ID_BYTES:
        raise ValueError(f"must have 1 to {MAX_ID_BYTES:,} bytes, not {size:,}")
    return value


_SIZES: Final = tuple(size.to_bytes(8) for size in range(MAX_ID_BYTES + 1))


def _sized(part: bytes) -> bytes:
    # Without the lengths, "ab"+"c" and "a"+"bc" would be one call.
    size = len(part)
    return (_SIZES[size] if size <= MAX_ID_BYTES else size.to_bytes(8)) + part


@lru_cache(maxsize=1_024)
def _names(*names: str) -> bytes:
    """The sized parts that the calls of a tool, or of a conversation, have in common."""
    return b"".join([_sized(name.encode()) for name in names])


def _digest(*sized: bytes) -> bytes:
    return hashlib.sha256(b"".join(sized)).digest()


def _named(value: object) -> str:
    if value is None:
        return "null"
    names = {
        bool: "a boolean",
        str: "a text",
        list: "an array",
        dict: "an object",
        int: "a number",
        Number: "a number",
    }
    return names.get(type(value), type(value).__name__)
