"""What a tool's name says about what it does. Pure but for `default_lexicon`, which reads the shipped tables once."""

from __future__ import annotations

from .classify import Heuristic, Verdict, classify, shared_prefix
from .hints import Hints
from .lexicon import Lexicon, LexiconError
from .lexicon_file import default_lexicon
from .naming import suggested_name
from .near import nearest, nearest_verb

__all__ = [
    "Heuristic",
    "Hints",
    "Lexicon",
    "LexiconError",
    "Verdict",
    "classify",
    "default_lexicon",
    "nearest",
    "nearest_verb",
    "shared_prefix",
    "suggested_name",
]
