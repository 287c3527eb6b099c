"""Who a call is (promises 2.1 to 2.10)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core import identity
from gateway.core.identity import Kind, Place, Repeats, Reused, Same, Scope
from gateway.core.strict_json import JsonRefused, parse

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "identity.json").read_text())


def vectors(name):
    return [pytest.param(row, id=str(number)) for number, row in enumerate(VECTORS[name])]


@pytest.mark.parametrize("row", vectors("canonical"))
def test_p2_10_golden_canonical_form(row):
    """2.10"""
    assert identity.read_arguments(row["sent"]).canonical.decode() == row["canonical"]


@pytest.mark.parametrize("row", vectors("fingerprint"))
def test_golden_fingerprint(row):
    print_ = identity.fingerprint(Kind(row["kind"]), row["target"], row["canonical"].encode())
    assert print_.hex() == row["fingerprint"]


@pytest.mark.parametrize("row", vectors("effect_id"))
def test_p2_4_golden_effect_id(row):
    """2.4"""
    fields = {name: row[name] for name in ("company", "conversation", "turn", "tool_call_id", "target", "occurrence")}
    found = identity.effect_id(kind=Kind(row["kind"]), canonical=row["canonical"].encode(), **fields)
    assert found.hex() == row["effect_id"]


@pytest.mark.parametrize("row", vectors("call"))
def test_p2_1_golden_call_digest(row):
    """2.1, 2.3"""
    place = Place(row["turn"], row["step"])
    found = identity.call_digest(row["company"], row["conversation"], row["tool_call_id"], Scope(row["scope"]), place)
    assert found.hex() == row["digest"]


@pytest.mark.parametrize("row", vectors("conversation"))
def test_golden_conversation_digest(row):
    assert identity.conversation_digest(row["company"], row["conversation"]).hex() == row["digest"]


@pytest.mark.parametrize("name", ["fingerprint", "effect_id", "conversation"])
def test_p2_4_golden_values_differ_wherever_a_field_does(name):
    """2.4: each field is length-prefixed, so that "ab"+"c" is not "a"+"bc"."""
    key = "digest" if name == "conversation" else name
    # In a turn, the id has no part in the effect id: a re-run turn may give it another (2.5).
    shared = 1 if name == "effect_id" else 0
    assert len({row[key] for row in VECTORS[name]}) == len(VECTORS[name]) - shared


@given(st.lists(st.text(min_size=1, max_size=4), min_size=4, max_size=4), st.integers(0, 20))
def test_p2_4_no_two_splits_of_the_same_letters_share_an_effect_id(parts, number):
    """2.4"""

    def made(a, b, c, d):
        return identity.effect_id(a, b, c, None, Kind.TOOL_CALL, d, b"{}", number)

    whole = "".join(parts)
    other = (whole[:1], whole[1:2], whole[2:3], whole[3:])
    assert (made(*parts) == made(*other)) == (tuple(parts) == other)


def test_p2_4_an_effect_needs_a_turn_or_an_id():
    """2.4"""
    with pytest.raises(ValueError, match="neither"):
        identity.place_of(None, None)


@pytest.mark.parametrize(
    ("scope", "place"),
    [(Scope.TURN, Place()), (Scope.STEP, Place()), (Scope.STEP, Place(turn="t")), (Scope.STEP, Place(step=1))],
)
def test_p2_3_a_scope_needs_what_it_names(scope, place):
    """2.3"""
    with pytest.raises(ValueError, match=f"call_id_scope {scope} needs turn"):
        identity.call_digest("acme", "c-1", "call_1", scope, place)


@dataclass(frozen=True)
class Given:
    """One call an id was given to before."""

    fingerprint: bytes
    place: Place
    effect: bytes = b""


A, B = b"a" * 32, b"b" * 32
NOWHERE = Place()


def at(turn=None, step=None, attempt=None):
    return Place(turn, step, attempt)


AUTO, CONVERSATION, TURN, STEP = Scope.AUTO, Scope.CONVERSATION, Scope.TURN, Scope.STEP

# scope, places where the id was given to A, where to B, the request (always A), what it is
SCOPE_RULES = {
    "a new id is new": (AUTO, [], [], at(), None),
    "same print, nothing stated": (AUTO, [at()], [], at(), Same),
    "same print, equal turn and step": (AUTO, [at("t1", 1, 1)], [], at("t1", 1, 1), Same),
    "same print, only the record states a turn": (AUTO, [at("t1", 1, 1)], [], at(), Same),
    "same print, only the request states a turn": (AUTO, [at()], [], at("t1", 1, 1), Same),
    "same print, step left out": (AUTO, [at("t1", 1, 1)], [], at("t1", None, 1), Same),
    "same print, another turn": (AUTO, [at("t1", 1, 1)], [], at("t2", 1, 1), Repeats),
    "same print, another turn, step left out": (AUTO, [at("t1", 3, 1)], [], at("t2"), Repeats),
    "same print, another step of the same attempt": (AUTO, [at("t1", 1, 1)], [], at("t1", 2, 1), Repeats),
    "same print, another step of another attempt": (AUTO, [at("t1", 1, 1)], [], at("t1", 2, 2), Same),
    "same print, same step of another attempt": (AUTO, [at("t1", 1, 1)], [], at("t1", 1, 2), Same),
    "another print, nothing stated": (AUTO, [], [at()], at(), Reused),
    "another print, only one states a turn": (AUTO, [], [at("t1", 1, 1)], at(), Reused),
    "another print, only the request states one": (AUTO, [], [at()], at("t1", 1, 1), Reused),
    "another print, equal turn and step": (AUTO, [], [at("t1", 1, 1)], at("t1", 1, 1), Reused),
    "another print, equal turn, step left out": (AUTO, [], [at("t1", 1, 1)], at("t1"), Reused),
    "another print, another turn": (AUTO, [], [at("t1", 1, 1)], at("t2", 1, 1), None),
    "another print, another step": (AUTO, [], [at("t1", 1, 1)], at("t1", 2, 1), None),
    "another print, another step of another attempt": (AUTO, [], [at("t1", 1, 1)], at("t1", 2, 2), None),
    "another print, same step of another attempt": (AUTO, [], [at("t1", 1, 1)], at("t1", 1, 2), Reused),
    "the same call goes before a reuse": (AUTO, [at("t1", 1, 1)], [at("t1", 1, 1)], at("t1", 1, 1), Same),
    "a reuse goes before a repeat": (AUTO, [at("t1", 1, 1)], [at("t2", 1, 1)], at("t2", 1, 1), Reused),
    "a repeat, though another print stands elsewhere": (
        AUTO,
        [at("t1", 1, 1)],
        [at("t2", 1, 1)],
        at("t3", 1, 1),
        Repeats,
    ),
    "conversation: turns do not matter": (CONVERSATION, [at("t1", 1, 1)], [], at("t2", 2, 1), Same),
    "conversation: nor for another print": (CONVERSATION, [], [at("t1", 1, 1)], at("t2", 2, 1), Reused),
    "turn: within the key all is one call": (TURN, [at("t1", 1, 1)], [], at("t1", 2, 1), Same),
    "turn: or a reuse": (TURN, [], [at("t1", 1, 1)], at("t1", 2, 1), Reused),
    "step: within the key all is one call": (STEP, [at("t1", 1, 1)], [], at("t1", 1, 2), Same),
    "step: or a reuse": (STEP, [], [at("t1", 1, 1)], at("t1", 1, 2), Reused),
}


@pytest.mark.parametrize("rule", SCOPE_RULES)
def test_p2_3_the_scope_rule(rule):
    """2.3: one row for each case of the paragraph."""
    scope, given_a, given_b, place, expected = SCOPE_RULES[rule]
    bounds = [Given(A, p) for p in given_a] + [Given(B, p) for p in given_b]
    for order in (bounds, bounds[::-1]):
        found = identity.match(order, A, place, scope)
        assert (None if found is None else type(found)) is expected


def test_p2_3_of_several_same_calls_the_latest_counts():
    """2.3"""
    bounds = [Given(A, at("t1", 1, 1)), Given(A, at("t2", 1, 1)), Given(B, at("t3", 1, 1))]
    found = identity.match(bounds, A, NOWHERE, AUTO)
    assert isinstance(found, Same)
    assert found.bound is bounds[1]


def test_p2_3_a_repeat_names_every_call_it_repeats():
    """2.3"""
    bounds = [Given(A, at("t1", 1, 1)), Given(A, at("t2", 1, 1))]
    found = identity.match(bounds, A, at("t3", 1, 1), AUTO)
    assert isinstance(found, Repeats)
    assert set(map(id, found.bounds)) == set(map(id, bounds))


places = st.builds(
    lambda turn, step, attempt: Place(turn, step, attempt) if turn else Place(),
    st.sampled_from([None, "t1", "t2"]),
    st.sampled_from([None, 1, 2]),
    st.sampled_from([1, 2]),
)


@given(
    st.lists(st.builds(Given, st.sampled_from([A, B]), places, st.sampled_from([b"1", b"2", b"3"])), max_size=5),
    places,
    st.sampled_from(list(Scope)),
)
def test_p2_3_the_scope_rule_as_the_paragraph_words_it(bounds, place, scope):
    """2.3: the sentences themselves, against every mix of records."""

    def differ(one, other):
        return None not in (one, other) and one != other

    def met(effect):
        # "one that this attempt has met at another step is not met again here"
        return any(
            b.effect == effect
            and b.fingerprint == A
            and b.place.turn == place.turn
            and b.place.attempt == place.attempt is not None
            and differ(b.place.step, place.step)
            for b in bounds
        )

    same, reused, repeats = [], [], []
    for bound in bounds:
        turns, steps = differ(bound.place.turn, place.turn), differ(bound.place.step, place.step)
        another_print = bound.fingerprint != A
        if another_print:
            # "the same id names another call only if its fingerprint differs and both requests state turns, or
            # steps, that differ"
            if scope is not AUTO or not (turns or steps):
                reused.append(bound)
        elif (scope is AUTO and (turns or (steps and not differ(bound.place.attempt, place.attempt)))) or (
            scope is AUTO and differ(bound.place.attempt, place.attempt) and met(bound.effect)
        ):
            repeats.append(bound)
        else:
            same.append(bound)
    found = identity.match(bounds, A, place, scope)
    if same:
        assert isinstance(found, Same)
        here = [b for b in same if place.step is not None and b.place.step == place.step]
        exactly = [b for b in here if (b.place.turn, b.place.attempt) == (place.turn, place.attempt)]
        later = place.step is not None and all(differ(b.place.attempt, place.attempt) for b in same)
        assert found.bound is (exactly[-1] if exactly else here[-1] if here else same[0] if later else same[-1])
    elif reused:
        assert isinstance(found, Reused)
    elif repeats:
        assert isinstance(found, Repeats)
        assert len(found.bounds) == len(repeats)
    else:
        assert found is None


LONG = "call_ab__thought__" + "A/+=" * 240


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (7, "must be a string, not a number"),
        (True, "must be a string, not a boolean"),
        (None, "must be a string, not null"),
        (["call_1"], "must be a string, not an array"),
        ({"id": 1}, "must be a string, not an object"),
        (parse("1.5"), "must be a string, not a number"),
        ("", "1 to 1,024 bytes, not 0"),
        ("x" * 1_025, "1 to 1,024 bytes, not 1,025"),
        ("\u00e9" * 513, "1 to 1,024 bytes, not 1,026"),
        ("\ud83d", "half of a surrogate pair"),
    ],
)
def test_p2_8_what_is_not_an_id_is_refused_in_words(value, problem):
    """2.8"""
    with pytest.raises(ValueError, match=problem):
        identity.check_id(value)


@pytest.mark.parametrize("value", ["x", "x" * 1_024, "\u00e9" * 512, LONG, "a{x}b", "{}", "\x00", " ", "D681PevKs"])
def test_p2_8_any_string_up_to_1024_bytes_is_an_id(value):
    """2.8"""
    assert identity.check_id(value) == value


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (LONG + "1", LONG + "2"),
        ("x" * 1_023 + "1", "x" * 1_023 + "2"),
        ("x" * 1_023, "x" * 1_024),
        ("D681PevKs", "d681pevks"),
        ("caf\u00e9", "cafe\u0301"),
        ("x", "x "),
        ("1", "01"),
    ],
)
def test_k1_09_ids_that_differ_anywhere_are_two_calls(one, other):
    """K1-09, 2.8: compared byte for byte, nothing cut off; so they are two effects and two merchants' keys as well,
    whether the difference stands in the id, in a turn or in a conversation's name."""
    assert {identity.check_id(value) for value in (one, other)} == {one, other}
    for digests in (
        {identity.call_digest("acme", "c-1", value, AUTO, NOWHERE) for value in (one, other)},
        {identity.call_digest("acme", value, "call_1", AUTO, NOWHERE) for value in (one, other)},
        {identity.call_digest("acme", "c-1", "call_1", TURN, at(value)) for value in (one, other)},
        {identity.conversation_digest("acme", value) for value in (one, other)},
        {identity.effect_id("acme", "c-1", None, value, Kind.TOOL_CALL, "t", b"{}", 0) for value in (one, other)},
        {identity.effect_id("acme", "c-1", value, "x", Kind.TOOL_CALL, "t", b"{}", 0) for value in (one, other)},
        {identity.effect_id("acme", value, None, "x", Kind.TOOL_CALL, "t", b"{}", 0) for value in (one, other)},
    ):
        assert len(digests) == 2


@pytest.mark.parametrize(
    ("company", "conversation"), [("acme", "c-2"), ("other", "c-1"), ("Acme", "c-1"), ("acmec", "-1")]
)
def test_p2_1_an_id_names_a_call_only_within_its_company_and_conversation(company, conversation):
    """2.1"""
    ours = identity.call_digest("acme", "c-1", "call_1", AUTO, NOWHERE)
    assert identity.call_digest(company, conversation, "call_1", AUTO, NOWHERE) != ours


@pytest.mark.parametrize(
    "sent",
    [
        {"date": "2026-12-01"},
        '{"date":"2026-12-01"}',
        ' { "date" : "2026-12-01" } ',
        json.dumps('{"date": "2026-12-01"}'),
    ],
)
def test_k2_04_an_object_and_the_texts_that_hold_it_are_one(sent):
    """2.9, K2-03"""
    read = identity.read_arguments(sent)
    assert read.value == {"date": "2026-12-01"}
    assert read.canonical == b'{"date":"2026-12-01"}'


@pytest.mark.parametrize("sent", ["", "  ", "\n\t", {}, "{}", " { } "])
def test_k2_01_empty_text_means_no_arguments(sent):
    """2.9"""
    read = identity.read_arguments(sent)
    assert (read.value, read.text, read.canonical) == ({}, "{}", b"{}")


def five_fold(value):
    for _ in range(5):
        value = json.dumps(value)
    return value


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        pytest.param(five_fold({"date": "x"}), "not a text", id="five-fold"),
        pytest.param('"hello"', "malformed JSON", id="a text in a text"),
        pytest.param('""', "truncated", id="emptiness in a text"),
        pytest.param("hello", "malformed JSON", id="a word"),
        pytest.param("[1]", "not an array", id="an array in text"),
        pytest.param([1], "not an array", id="an array"),
        pytest.param("1", "not a number", id="a number in text"),
        pytest.param("1.5", "not a number", id="a fraction in text"),
        pytest.param(7, "not a number", id="a number"),
        pytest.param("true", "not a boolean", id="a boolean in text"),
        pytest.param("null", "not null", id="null in text"),
        pytest.param(None, "not null", id="null"),
        pytest.param('{"sku":"A","qty":1,}', "malformed JSON", id="K2-06 trailing comma"),
        pytest.param('{"items":[{"sku":"A","qty":2},{"sku":"B","qty":1', "truncated", id="K2-07 cut off"),
        pytest.param(json.dumps('{"a":1,"a":2}'), "stands twice", id="a repeated key, twice encoded"),
        pytest.param('{"price":NaN}', "NaN", id="K2-09 NaN"),
        pytest.param('{"price":1e400}', "overflows", id="K2-09 overflow"),
        pytest.param('{"note":"\\ud83d"}', "surrogate", id="K2-15 half a pair"),
        pytest.param(json.dumps('{"note":"\\ud83d"}'), "surrogate", id="K2-15 half a pair, twice encoded"),
    ],
)
def test_p2_9_other_arguments_are_refused(sent, why):
    """2.9"""
    with pytest.raises(JsonRefused, match=why):
        identity.read_arguments(sent)


def test_k2_11_arguments_are_kept_digit_for_digit_and_in_their_order():
    """2.10: for the merchant the caller's values, for identity their canonical form."""
    read = identity.read_arguments('{ "order_id": 2512292042121000001, "amount": 12.50, "a": [1e0, -0] }')
    assert read.text == '{"order_id":2512292042121000001,"amount":12.50,"a":[1e0,-0]}'
    assert read.canonical == b'{"a":[1,0],"amount":125e-1,"order_id":2512292042121000001}'


@pytest.mark.parametrize(
    ("ours", "theirs", "named"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a"]),
        ({"a": 1, "b": 1}, {"a": 1}, ["b"]),
        ({"a": 1}, {"a": 1, "b": None}, ["b"]),
        ({"b": [1, 2], "a": {"x": 1}}, {"b": [2, 1], "a": {"x": 2}}, ["a", "b"]),
    ],
)
def test_p2_2_the_fields_that_differ_are_named(ours, theirs, named):
    """2.2"""
    found = identity.differing_fields(identity.field_digests(ours), identity.field_digests(theirs))
    assert found == named


MANY = {f"f{n:03}": n for n in range(100)}


@pytest.mark.parametrize(
    ("ours", "theirs", "named"),
    [
        ({**MANY, "f010": "other"}, MANY, ["f010"]),
        ({**MANY, "a": 1}, MANY, ["a"]),
        (MANY, {**MANY, "a": 1}, ["a"]),
        ({**MANY, "f010": "other", "f090": "other"}, MANY, ["f010"]),
        ({**MANY, "f090": "other"}, MANY, []),
        ({"f000": 0}, MANY, sorted(MANY)[1:64]),
        (MANY, {"f000": 0}, sorted(MANY)[1:]),
    ],
    ids=[
        "differs",
        "new",
        "gone",
        "one of two behind the cut",
        "behind the cut",
        "few against many",
        "many against few",
    ],
)
def test_p2_2_of_very_many_fields_only_those_known_to_differ_are_named(ours, theirs, named):
    """2.2: a field that was merely not kept is not said to differ."""
    found = identity.differing_fields(identity.field_digests(ours, None), identity.field_digests(theirs))
    assert found == named


def test_p2_2_numbers_that_are_equal_are_no_difference():
    """2.2, 2.10"""
    ours, theirs = (identity.field_digests(parse(text)) for text in ('{"n":1.0}', '{"n":1}'))
    assert identity.differing_fields(ours, theirs) == []


def test_p2_2_what_is_kept_of_a_field_does_not_hold_its_value():
    """2.2"""
    secret = "4929 0000 1111 2222"
    kept = identity.field_digests({"card": secret, "more": {"card": secret}})
    assert all(isinstance(checksum, int) and checksum < 2**32 for checksum in kept.values())
