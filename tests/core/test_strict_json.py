"""JSON read strictly and written canonically (promises 2.9, 2.10)."""

from __future__ import annotations

import json
import tracemalloc
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.core import strict_json
from gateway.core.strict_json import JsonRefused, Number, dumps, parse, parse_bytes, plain

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "wire_numbers.json").read_text())
documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**40), 10**40) | st.text(st.characters(codec="utf-8"), max_size=12),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=6), inner, max_size=4)
    ),
    max_leaves=12,
)
numerals = st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,12})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


def canonical(text):
    return dumps(parse(text), canonical=True)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param('{"sku":"A","qty":1,}', "malformed JSON", id="trailing comma"),
        pytest.param('{"items":[{"sku":"A","qty":2},{"sku":"B","qty":1', "truncated", id="cut off"),
        pytest.param('{"note":"half a str', "truncated", id="cut off in a string"),
        pytest.param("", "truncated", id="nothing"),
        pytest.param('{"a":1} {"b":2}', "malformed JSON", id="two documents"),
        pytest.param("{'a':1}", "malformed JSON", id="single quotes"),
        pytest.param('{"a":01}', "malformed JSON", id="leading zero"),
        pytest.param('{"a":.5}', "malformed JSON", id="bare fraction"),
        pytest.param('{"a":"\n"}', "malformed JSON", id="raw control character"),
        pytest.param('\ufeff{"a":1}', "malformed JSON", id="byte order mark"),
        pytest.param('{"a":1,"a":1}', "stands twice", id="repeated key"),
        pytest.param('{"a":1,"\\u0061":2}', "stands twice", id="repeated key under an escape"),
        pytest.param('[{"x":{"b":1,"c":2,"b":3}}]', "stands twice", id="repeated key, deep"),
        pytest.param('{"price":NaN}', "NaN", id="NaN"),
        pytest.param('{"price":Infinity}', "Infinity", id="Infinity"),
        pytest.param('{"price":-Infinity}', "-Infinity", id="minus Infinity"),
        pytest.param('{"price":1e400}', "overflows", id="overflow"),
        pytest.param('{"price":-1.5E+999999}', "overflows", id="minus overflow"),
        pytest.param('{"price":1e-99999999}', "out of range", id="an exponent nobody can hold"),
        pytest.param('{"note":"\\ud83d"}', "surrogate", id="lone high surrogate"),
        pytest.param('{"note":"\\udcb2x"}', "surrogate", id="lone low surrogate"),
        pytest.param('{"\\ud83d":1}', "surrogate", id="lone surrogate as a key"),
        pytest.param('{"note":"\ud83d"}', "surrogate", id="raw surrogate"),
        pytest.param("[" * 65 + "]" * 65, "64 levels", id="65 arrays"),
        pytest.param('{"a":' * 65 + "1" + "}" * 65, "64 levels", id="65 objects"),
        pytest.param("[" * 200_000, "64 levels", id="a tower"),
        pytest.param("1" * 1_001, "1,000 digits", id="1001 digits"),
        pytest.param("-" + "1" * 1_001, "1,000 digits", id="minus 1001 digits"),
        pytest.param("0." + "1" * 1_000, "1,000 digits", id="1001 digits with a fraction"),
    ],
)
def test_p2_9_bad_text_is_refused_never_repaired(text, why):
    """2.9"""
    with pytest.raises(JsonRefused, match=why):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[" * 64 + "]" * 64, id="64 arrays"),
        pytest.param('"' + "[{" * 500 + '"', id="brackets in a string nest nothing"),
        pytest.param('["\\"[[", ' + "[" * 63 + "]" * 63 + "]", id="nor after an escaped quote"),
        pytest.param("-" + "1" * 1_000, id="1000 digits"),
        pytest.param("-0." + "1" * 999, id="1000 digits with a fraction"),
        pytest.param("1.7e308", id="the largest doubles"),
        pytest.param("1e-999999", id="a tiny number"),
        pytest.param('"\\ud83d\\ude00"', id="a whole surrogate pair"),
        pytest.param(' \t\r\n{"a" : 1}\n', id="white space around"),
    ],
)
def test_p2_9_what_is_only_unusual_is_read(text):
    """2.9"""
    assert dumps(parse(dumps(parse(text)))) == dumps(parse(text))


def numeral(row):
    return "".join(part if isinstance(part, str) else part[0] * part[1] for part in row["parts"])


def nested(row):
    return '{"a":' * row["levels"] + row["inside"] + "}" * row["levels"]


@pytest.mark.parametrize("row", VECTORS["numbers"], ids=lambda row: row["name"])
def test_p2_9_numbers_are_bounded_as_on_the_merchants_side(row):
    """2.9: the same rows are tried there."""
    text = '{"n":' + numeral(row) + "}"
    if row["accepted"]:
        assert dumps(parse(text)) == text
    else:
        with pytest.raises(JsonRefused, match=r"digits|overflows|out of range"):
            parse(text)


@pytest.mark.parametrize("row", VECTORS["nesting"], ids=nested)
def test_p2_9_nesting_is_bounded_as_on_the_merchants_side(row):
    """2.9: the same rows are tried there."""
    if row["accepted"]:
        assert dumps(parse(nested(row))) == nested(row)
    else:
        with pytest.raises(JsonRefused, match="64 levels"):
            parse(nested(row))


def test_p2_9_bytes_that_are_not_utf_8_are_refused():
    """2.9"""
    with pytest.raises(JsonRefused, match="not UTF-8 at byte 9"):
        parse_bytes(b'{"note":"\xff"}')


def test_p2_9_text_of_quotes_that_never_close_is_refused_in_one_pass():
    """2.9: a look that starts over at each of half a million quotes would not end today."""
    with pytest.raises(JsonRefused):
        parse("[" * 65 + '"' + '\\"' * 500_000)


@pytest.mark.parametrize(
    ("forms", "written"),
    [
        (["1", "1.0", "1e0", "10e-1", "0.1E1", "1.000e+00"], "1"),
        (["0", "-0", "0.0", "-0.0", "0e5", "-0E-7"], "0"),
        (["12.5", "125e-1", "1.25e1", "0.0125E+3"], "125e-1"),
        (["-100", "-1e2", "-1.00E2"], "-100"),
        (["2512292042121000001"], "2512292042121000001"),
        (["2512292042121000000", "2512292042121e6"], "2512292042121000000"),
        (["9007199254740993", "9007199254740993.0"], "9007199254740993"),
        (["0.1"], "1e-1"),
        (["0.1000000000000000055511151231257827"], "1000000000000000055511151231257827e-34"),
    ],
)
def test_p2_10_numbers_are_one_when_their_exact_values_are(forms, written):
    """2.10"""
    assert {canonical(form) for form in forms} == {written}


@given(numerals, numerals)
@example("1", "1.0")
@example("9007199254740992", "9007199254740993")
def test_p2_10_two_numbers_have_one_canonical_text_if_and_only_if_they_are_equal(one, other):
    """2.10: judged by exact fractions, which know nothing of this module."""
    equal = Fraction(Decimal(one)) == Fraction(Decimal(other))
    assert (canonical(one) == canonical(other)) == equal
    assert Fraction(Decimal(canonical(one))) == Fraction(Decimal(one))


@given(numerals)
def test_p2_10_a_number_is_written_as_it_was_read_digit_for_digit(numeral):
    """2.10"""
    assert dumps(parse(f'{{"n":[{numeral}]}}')) == f'{{"n":[{numeral}]}}'


@given(documents)
def test_p2_10_canonical_form_is_its_own_canonical_form(document):
    """2.10"""
    once = canonical(json.dumps(document))
    assert canonical(once) == once
    assert json.loads(once) == document


@given(numerals)
def test_p2_10_a_canonical_number_is_its_own_canonical_form(numeral):
    """2.10"""
    assert canonical(canonical(numeral)) == canonical(numeral)


@given(documents, st.sampled_from([None, 1, "\t", " \n"]), st.booleans(), st.randoms(use_true_random=False))
def test_p2_10_key_order_white_space_and_escapes_never_matter(document, indent, ascii_only, random):
    """2.10"""

    def shuffled(value):
        if isinstance(value, dict):
            items = [(key, shuffled(item)) for key, item in value.items()]
            random.shuffle(items)
            return dict(items)
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    other = json.dumps(shuffled(document), indent=indent, ensure_ascii=ascii_only)
    assert canonical(other) == canonical(json.dumps(document))


@given(documents, documents)
def test_p2_10_documents_that_differ_have_canonical_forms_that_differ(one, other):
    """2.10: Python's own comparison, but for its belief that True is 1."""
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical(json.dumps(one)) == canonical(json.dumps(other))) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"caf\u00e9"', '"cafe\u0301"'),
        ('"\ufb01"', '"fi"'),
        ('"A"', '"a"'),
        ('"x"', '" x"'),
        ('{"a":null}', "{}"),
        ("[1,2]", "[2,1]"),
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("null", "false"),
    ],
)
def test_p2_10_what_is_not_the_same_stays_apart(one, other):
    """2.10: no Unicode normalisation; null is not absent; array order counts."""
    assert canonical(one) != canonical(other)


@given(st.text(st.characters(codec="utf-8")))
def test_p2_10_strings_are_kept_as_sent(text):
    """2.10"""
    assert parse(dumps(parse(json.dumps(text)), canonical=True)) == text


def test_p2_10_keys_sort_alike_whether_or_not_a_number_keeps_its_text():
    """2.10: two writers, one order."""
    keys = ["b", "a", "\ue000", "\U0001f600", "", "A", "\u007f"]
    fast = canonical(json.dumps(dict.fromkeys(keys, 1)))
    slow = canonical("{" + ",".join(f"{json.dumps(key)}:1.0" for key in keys) + "}")
    assert fast == slow


def test_a_number_shows_its_text_and_compares_by_value():
    assert Number("1.50") == Number("15e-1")
    assert len({Number("1.50"), Number("15e-1"), Number("1.5000001")}) == 2
    assert Number("1.50") != "1.50"
    assert repr(Number("1.50")) == "Number(1.50)"


def test_plain_gives_schema_checks_ordinary_numbers():
    assert plain(parse('{"a":[1.0,1.5,-0,{"b":2e2}],"c":"1.0"}')) == {"a": [1, 1.5, 0, {"b": 200}], "c": "1.0"}


def test_p9_4_the_depth_of_a_large_document_is_found_in_one_pass_without_a_mark_per_character():
    """9.4: a body of megabytes with many brackets costs its size, not a thousand times it."""
    text = "[" + ",".join(["[1]"] * 100) + ',"' + "a\\\\" * 500_000 + '"]'
    tracemalloc.start()
    try:
        parse(text, max_depth=64)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * len(text)


def judged(read, *given):
    try:
        return repr(read(*given))
    except JsonRefused as refused:
        return f"refused: {refused}"


@given(
    documents,
    numerals,
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(0, 200),
    st.sampled_from(' -0e."{}[],:\\a'),
)
@example({"a": [0]}, "-0", None, False, 200, " ")
@example({"a": 1}, "1E5", None, True, 3, '"')
def test_p2_9_the_fast_reader_never_says_anything_else_than_the_strict_one(
    document, numeral, indent, ascii_only, at, odd
):
    """2.9, 2.10: it steps aside for whatever it would read in another way; also where one character is odd."""
    text = json.dumps([document, "here"], indent=indent, ensure_ascii=ascii_only).replace('"here"', numeral)
    for sent in (text, text[:at] + odd + text[at:], text[:at] + odd + text[at + 1 :]):
        strictly = judged(strict_json._parsed, sent, 64)
        assert judged(parse, sent) == strictly
        assert judged(parse_bytes, sent.encode()) == strictly


@pytest.mark.parametrize(
    "text",
    [
        *('{"a":1,"a":1}', '{"a":-0}', "[" * 65 + "]" * 65, "1" * 1_001, f"[{'1' * 1_000}.{'1' * 5}]", '"\\u00e9"'),
        *('"\x01"', "1e400", "[1,]", "\ufeff1", '"\\ud83d"', "NaN", "1" * 1_000, "", '{"\\u0061":1}', "-" + "9" * 30),
    ],
)
def test_p2_9_what_the_fast_reader_must_leave_to_the_strict_one(text):
    """2.9: read or refused, in the same words."""
    assert judged(parse_bytes, text.encode()) == judged(strict_json._parsed, text, 64)
