"""The short way of a first claim says what the long way says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.core.claim import claim
from gateway.core.conversation import View, assumed_empty
from gateway.core.identity import Kind, Place, Scope, fingerprint, read_arguments
from gateway.core.record import Mode
from gateway.core.requests import Claim, OnRepeat, Terms

IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
PLACES = st.builds(
    Place, turn=IDS, step=st.none() | st.integers(1, 6), attempt=st.none() | st.integers(1, 3)
) | st.just(Place())


@given(
    id_=IDS,
    place=PLACES,
    scope=st.sampled_from([Scope.AUTO, Scope.CONVERSATION]),
    mode=st.sampled_from(list(Mode)),
    on_repeat=st.sampled_from(list(OnRepeat)),
    arguments=st.dictionaries(IDS, st.none() | st.integers() | IDS | st.lists(st.integers(), max_size=3), max_size=4),
)
def test_p4_10_a_first_claim_on_nothing_is_the_same_by_the_short_way_and_the_long(
    id_, place, scope, mode, on_repeat, arguments
):
    """4.10, 4.15: the first try assumes that nothing is there; what it writes is what a look would have led to."""
    read = read_arguments(arguments)
    request = Claim(
        company="acme",
        conversation="c",
        tool_call_id=id_,
        kind=Kind.TOOL_CALL,
        target="place_order",
        arguments=read,
        fingerprint=fingerprint(Kind.TOOL_CALL, "place_order", read.canonical),
        place=place,
        scope=scope,
        terms=Terms(mode, on_repeat, 15_000, 1, "https://shop.example", 60_000, 86_400_000),
        token=b"t" * 16,
    )
    assumed = claim(assumed_empty(request.where()), request)
    looked = claim(View(now_ms=1, effects={request.first: None}), request)
    assert assumed == looked
