"""Finds and reads the shipped word tables. The package's only I/O; everything else takes a Lexicon."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from .lexicon import Lexicon, LexiconError

__all__ = ["default_lexicon"]

_HERE = Path(__file__).resolve().parent
# Installed, the file lies beside this module; in the source tree it lies with the other configuration.
_PLACES = (_HERE / "verbs.toml", _HERE.parent / "config" / "verbs.toml")


@cache
def default_lexicon() -> Lexicon:
    """The shipped tables, read once. Raises LexiconError if the file is missing or wrong."""
    for place in _PLACES:
        if place.is_file():
            return Lexicon.from_toml(place.read_text(encoding="utf-8"))
    raise LexiconError("verbs.toml is missing: looked beside the package and in config/")
