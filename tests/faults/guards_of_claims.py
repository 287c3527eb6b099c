"""Guards of claims: who may send, what is a repeat of what, and how many claims there may be (2 and 4)."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from gateway.adapters.claim_wait import ClaimWait
from gateway.core import claim as claiming
from gateway.core import decisions as d
from gateway.core import identity, record, repeats, settlement
from gateway.core.conversation import Writes
from gateway.core.granting import grant, take_up
from gateway.core.occurrences import Occurrence
from gateway.core.record import Effect, Status
from gateway.core.requests import Release
from gateway.service import handle_call, running
from gateway.service.running import Running
from gateway.service.sweep import Sweep
from tests.faults.guards import KEEP_MS, Guard, theme
from tests.faults.loop import OWNER
from tests.faults.network import LedgerWire
from tests.faults.plan import How
from tests.faults.run import World

_known, _judge, _match, _repeat = claiming._known, claiming._judge, identity.match, repeats.judge_repeat
_release, _run_claimed = settlement._release, Running.run


def _any_claim_is_ours(view: Any, request: Any, effect_id: bytes, matched: str) -> d.Step:
    effect = view.effects.get(effect_id)
    if effect is not None and effect.status is Status.EXECUTING and not effect.lapsed(view.now_ms or 0):
        return d.Step(d.Granted(effect))
    return _known(view, request, effect_id, matched)


def _lapse_is_release(view: Any, effect: Effect) -> d.Step:
    unread = tuple(slot for slot in effect.slots if slot not in view.slots)
    if unread:
        return d.Step(d.Need(slots=unread))
    request = Release(effect.effect_id, effect.tokens[-1], "lease lapsed", KEEP_MS)
    return d.Step(d.Again(), _release(view, effect, request).writes)


def _lapsed_by_wall_clock(effect: Effect, now_ms: int) -> bool:
    process: Any = OWNER.get()
    now_ms = process.clock.wall_ms() if process is not None else now_ms
    return effect.status is Status.EXECUTING and now_ms >= (effect.claimed_at or 0) + effect.lease_ms


def _any_fingerprint(bounds: Any, print_: bytes, place: Any, scope: Any) -> Any:
    return _match([replace(bound, fingerprint=print_) for bound in bounds], print_, place, scope)


async def _whatever_the_lease(self: Any, claim: Any, effect: Any, *rest: Any, **more: Any) -> Any:
    before, after = rest[:-2], rest[-1:]
    return await _run_claimed(self, claim, effect, *before, float("inf"), *after, **more)


async def _never(self: Any, *rest: Any) -> int:
    return 0


def _without_unknown(view: Any, request: Any, own: Any, under_id: Any, held: Any) -> d.Step:
    known = tuple(k for k in view.identical.known if not k.was_unknown)
    return _repeat(replace(view, identical=replace(view.identical, known=known)), request, own, under_id, held)


def _unknown_runs_again(view: Any, request: Any, effect_id: bytes, matched: str) -> d.Step:
    effect = view.effects.get(effect_id)
    if effect is not None and effect.status is Status.INDETERMINATE:
        return take_up(view, request, effect, matched)
    return _known(view, request, effect_id, matched)


def _no_attempt_is_late(view: Any, request: Any) -> d.Step:
    return _judge(replace(view, highest_attempt=0), request)


def _numbers_go_on(view: Any, request: Any) -> Occurrence:
    within = request.numbered_within
    number = len({t.number for t in view.identical.taken if t.place == within})
    return Occurrence(number, request.effect_id(number))


_order, _key_of = running._order, handle_call.key_of


def _tried_again(claim: Any, effect: Effect) -> Any:
    return replace(_order(claim, effect), again=True)


def _sent_where_it_is_now(claim: Any, effect: Effect) -> Any:
    return replace(_order(claim, effect), url=claim.terms.endpoint)


def _another_key(claim: Any, effect: Effect) -> Any:
    return replace(_order(claim, effect), key=claim.token.hex() * 2)


def _a_success_runs_again(view: Any, request: Any, own: Any, effect_id: Any, kept: Any, held: Any) -> d.Step:
    return grant(view, request, own)


def _key_of_anything(
    company: Any, conversation: Any, id_: Any, place: Any, scope: Any, tool: Any, arguments: Any
) -> Any:
    return _key_of(company, conversation, id_, place, scope, tool, identity.read_arguments("{}"))


def _blind(world: World) -> None:
    world.ledger.compares = False


def _begun_late(world: World) -> None:
    world.begins_in_time = False


def _no_keys(world: World) -> None:
    world.books.honours_keys = frozenset()


_FAILOVERS = theme("failovers")


GUARDS_OF_CLAIMS: Final = (
    Guard("version check", "4.15", world=_blind),
    Guard("token check of a claim", "4.3", ((claiming, "_known", _any_claim_is_ours),)),
    Guard(
        "a lapsed lease is unknown",
        "4.5",
        ((claiming, "lapse", _lapse_is_release), (repeats, "lapse", _lapse_is_release)),
    ),
    Guard(
        "lease on the ledger's clock",
        "4.5",
        ((Effect, "lapsed", _lapsed_by_wall_clock),),
        fits=lambda plan: any(fault.kind == "gateway clock jumps" for fault in plan.faults),
    ),
    Guard("lease covers the deadline", "4.5", ((Running, "run", _whatever_the_lease),)),
    Guard("nothing is begun late", "4.5", world=_begun_late),
    Guard("fingerprint check", "2.2", ((identity, "match", _any_fingerprint),)),
    Guard("fingerprint in the answers kept", "2.2", ((handle_call, "key_of", _key_of_anything),)),
    Guard(
        "prior_outcome_unknown",
        "4.7",
        ((repeats, "judge_repeat", _without_unknown), (claiming, "judge_repeat", _without_unknown)),
    ),
    Guard("unknown never runs again by itself", "4.6", ((claiming, "_known", _unknown_runs_again),)),
    Guard("replicas are counted", "4.14", ((ClaimWait, "missing", lambda self, reply: ""),), fits=_FAILOVERS),
    Guard("claims wait", "4.14", ((Writes, "claims", False),), fits=_FAILOVERS),
    Guard("a claim that is told again is confirmed", "4.14", ((LedgerWire, "confirms", False),), fits=_FAILOVERS),
    Guard("the sweeper comes by", "4.5", ((Sweep, "once", _never),)),
    Guard("repeats are counted", "4.9", ((repeats, "_counts", lambda known, view, request: False),)),
    Guard("a success is not repeated", "4.9", ((repeats, "_after_success", _a_success_runs_again),)),
    Guard("earlier attempts start nothing", "2.6", ((claiming, "_judge", _no_attempt_is_late),)),
    Guard("a re-run finds its effects", "2.5", ((claiming, "occurrence_of", _numbers_go_on),)),
    Guard(
        "an answered id is bound",
        "2.5",
        ((repeats, "bind", lambda *asked: None), (claiming, "bind", lambda *asked: None)),
        fits=lambda plan: any(ask.turn is None and ask.how is How.REISSUED for ask in plan.asks),
    ),
    Guard("one send a claim", "4.6", ((running, "_order", _tried_again),)),
    Guard("the key stays the same", "4.6", ((running, "_order", _another_key),)),
    Guard(
        "sent again where it was sent first",
        "4.6",
        ((running, "_order", _sent_where_it_is_now),),
        fits=lambda plan: any("elsewhere" in fault.kind for fault in plan.faults),
    ),
    Guard("the merchant honours keys", "4.6", world=_no_keys),
    Guard("claims of one call are bounded", "4.6", ((record, "MAX_TOKENS", 10_000),), fits=theme("stubborn")),
)
