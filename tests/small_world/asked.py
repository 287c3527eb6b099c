"""What is asked of `step`, and where: named so that what is equal has one number, read wider where more is needed."""

from __future__ import annotations

import msgspec

from gateway.core import decisions as d
from gateway.core.conversation import View, Where
from gateway.core.record import Effect
from gateway.core.requests import Claim, End, Expire, Grant, Refuse, Withdraw

Asked = Claim | End | Withdraw | Grant | Refuse | Expire


def decided_at(held: Effect, claim: Claim) -> Where:
    return widened(claim.where((held.effect_id,)), d.Need(slots=held.slots))


def plain(request: Asked) -> object:
    if isinstance(request, Grant):
        return (request.effect_id, request.approval, request.claim.token)
    if isinstance(request, Claim):
        return (request.token, sorted(request.repeat_of))
    if isinstance(request, Withdraw):
        return (request.claim.token, sorted(request.claim.repeat_of))
    return [getattr(request, name) for name in request.__struct_fields__]


def key_of(effect: Effect) -> bytes:
    return msgspec.msgpack.encode(effect)


def named(decision: d.Decision) -> str:
    return type(decision).__name__.lower()


def widened(where: Where, need: d.Need) -> Where:
    return msgspec.structs.replace(
        where,
        effects=tuple(dict.fromkeys((*where.effects, *need.effects))),
        slots=tuple(dict.fromkeys((*where.slots, *need.slots))),
    )


def as_written(decision: d.Decision, view: View) -> d.Decision:
    effect = getattr(decision, "effect", None)
    written = None if effect is None else view.effects.get(effect.effect_id)
    return decision if written is None else msgspec.structs.replace(decision, effect=written)
