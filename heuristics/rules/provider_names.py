"""What model providers and MCP accept as a tool's name: a table from their references."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

__all__ = ["LIMITS", "PROVIDERS", "NameLimit"]


@dataclass(frozen=True, slots=True)
class NameLimit:
    """`longest` in characters; `accepted` matches a name of any length that holds only what is allowed; `allowed`
    says so in words."""

    called: str
    longest: int
    accepted: re.Pattern[str]
    allowed: str


_WORD: Final = re.compile(r"[A-Za-z0-9_-]+")
_WORD_SAID: Final = "letters, digits, _ and -"

LIMITS: Final[Mapping[str, NameLimit]] = MappingProxyType(
    {
        # Chat Completions and Responses, reference of `function.name`.
        "openai": NameLimit("OpenAI", 64, _WORD, _WORD_SAID),
        # The Messages API's own refusal names the pattern; it allowed 64 until 2025.
        "anthropic": NameLimit("Anthropic", 128, _WORD, _WORD_SAID),
        # FunctionDeclaration.name. Published versions differ (64 or 128, colons or not): what all of them take.
        "gemini": NameLimit(
            "Gemini",
            64,
            re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*"),
            "letters, digits, _, . and -, beginning with a letter or _",
        ),
        # ToolSpecification.name of the Converse API.
        "bedrock": NameLimit("Bedrock", 64, _WORD, _WORD_SAID),
        # Specification 2025-11-25, server/tools, "Tool Names" (SHOULD).
        "mcp": NameLimit("MCP", 128, re.compile(r"[A-Za-z0-9_.-]+"), "letters, digits, _, . and -"),
    }
)
PROVIDERS: Final = tuple(LIMITS)
