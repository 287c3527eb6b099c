"""The word tables: what is refused, and that the shipped ones keep what the promises say."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from heuristics import Lexicon, LexiconError, classify, default_lexicon

SHIPPED = Path(__file__).resolve().parents[2] / "config" / "verbs.toml"


def test_p3_2_the_tables_are_data_that_can_be_replaced() -> None:
    """3.2: the wider list is configuration, the platform's twelve stay."""
    lexicon = Lexicon.from_toml('[mutating.own]\nwhy = "does ours"\nwords = ["frobnicate"]\n')
    assert classify("frobnicate_x", lexicon=lexicon).verb == "frobnicate"
    assert classify("create_x", lexicon=lexicon).verb == "create"
    assert classify("finalise_x", lexicon=lexicon).verb is None


def test_p3_2_spellings_and_accents_are_derived() -> None:
    """3.2: British and American, and umlauts in both ways."""
    lexicon = Lexicon.from_toml('[mutating.own]\nwhy = "changes"\nwords = ["organize", "analyse", "hinzufügen"]\n')
    for word in ("organise", "organize", "analyze", "hinzufugen", "hinzufuegen"):
        assert word in lexicon.verbs


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not valid TOML"),
        ('[verbs.x]\nwhy = "w"\nwords = ["a"]', r"\[verbs\] is not a role"),
        ("mutating = 3", r"\[mutating\] must hold groups"),
        ("[mutating]\nx = 3", r"\[mutating.x\] must be a table"),
        ('[mutating.x]\nwords = ["ab"]', r"\[mutating.x\] needs `why`"),
        ('[mutating.x]\nwhy = " "\nwords = ["ab"]', r"\[mutating.x\] needs `why`"),
        ('[mutating.x]\nwhy = "w"', r"\[mutating.x\] needs `words`"),
        ('[mutating.x]\nwhy = "w"\nwords = []', r"\[mutating.x\] needs `words`"),
        ('[mutating.x]\nwhy = "w"\nwords = [3]', r"\[mutating.x\]: 3 is not a string"),
        ('[mutating.x]\nwhy = "w"\nwords = ["Ab"]', r"\[mutating.x\]: 'Ab' must be 1 lower-case word"),
        ('[mutating.x]\nwhy = "w"\nwords = ["a b"]', r"\[mutating.x\]: 'a b' must be 1 lower-case word"),
        ('[mutating.x]\nwhy = "w"\nwords = ["ab"]\nword = ["c"]', r"\[mutating.x\] has unknown keys: word"),
        ('[mutating.x]\nwhy = "w"\nwords = ["ab", "ab"]', r"'ab' is already listed as mutating"),
        (
            '[read.x]\nwhy = "w"\nwords = ["ab"]\n[front.x]\nwhy = "v"\nwords = ["ab"]',
            r"'ab' is already listed as read \(w\)",
        ),
        ('[read.x]\nwhy = "w"\nwords = ["pay"]', r"'pay' is one of the platform's twelve verbs"),
        (
            '[phrase.x]\nwhy = "w"\nrole = "front"\nwords = ["check"]',
            r"\[phrase.x\]: 'check' must be 2 lower-case words",
        ),
        ('[phrase.x]\nwhy = "w"\nwords = ["check in"]', r"\[None\] is not a role"),
        ('[exception.x]\nwhy = "w"\nverbs = ["zap"]\nwords = ["x"]', r"\[exception.x\]: 'zap' is not a listed verb"),
        ('[task.x]\nwhy = "w"\nverbs = ["zap"]\nwords = ["x"]', r"\[task.x\]: 'zap' is not a listed verb"),
    ],
)
def test_a_wrong_table_is_refused_by_name(text: str, message: str) -> None:
    """3.2: a word table that cannot be used says which table and which word."""
    with pytest.raises(LexiconError, match=message):
        Lexicon.from_toml(text)


def test_p3_2_every_shipped_group_gives_its_reason_and_is_loaded() -> None:
    """3.2: the file in the project is the one that judges."""
    tables = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    assert all(group["why"] for groups in tables.values() for group in groups.values())
    assert Lexicon.from_tables(tables) == default_lexicon()


def test_the_shipped_tables_are_read_once() -> None:
    """3.2: classification does no I/O after the first call."""
    assert default_lexicon() is default_lexicon()
