"""Inline waivers: `x-oncegate-lint` in a tool's object, `# oncegate: ignore[OG203] reason` in a comment. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool, Place

__all__ = ["KEY", "MARK", "Waiver", "in_comments", "in_objects"]

KEY: Final = "x-oncegate-lint"
MARK: Final = "oncegate: ignore["
_COMMENT: Final = re.compile(r"#\s*oncegate: ignore\[([^\]\n]*)\][ \t]*([^\n\r]*)")
_CODE: Final = re.compile(r"OG[0-9]{3}")


@dataclass(frozen=True, slots=True)
class Waiver:
    """`tool` is the index of the tool it stands at, None for none; `fault` is what is wrong with its form."""

    codes: tuple[str, ...]
    reason: str
    place: Place
    tool: int | None
    fault: str | None = None


def in_comments(text: str, tools: Sequence[tuple[int, DeclaredTool]], path: str) -> Iterator[Waiver]:
    """Waivers in the comments of one source; `tools` are those read from it, with their indices.

    A comment on a line of its own directly above a tool belongs to that tool, any other to the tool it stands in.
    """
    starts = sorted((tool.place.line, index) for index, tool in tools if tool.place.line is not None)
    lines = [line for line, _ in starts]
    for number, line in enumerate(text.splitlines(), 1):
        if MARK not in line or (found := _COMMENT.search(line)) is None:
            continue
        alone = line[: found.start()].strip() in ("", "-")
        at = bisect_right(lines, number) - 1
        if alone and at + 1 < len(lines) and lines[at + 1] <= number + 1:
            at += 1
        codes = tuple(each.strip() for each in found[1].split(",") if each.strip())
        place = Place(path, number, found.start() + 1)
        yield Waiver(codes, found[2].strip(), place, starts[at][1] if at >= 0 else None, _fault(codes))


def in_objects(tools: Iterable[tuple[int, DeclaredTool]], document: Any = None) -> Iterator[Waiver]:
    """Waivers that tools' objects hold: what the reader kept in `extras`, or `document` has at the tool's pointer."""
    for index, tool in tools:
        stated = tool.extras.get(KEY)
        if stated is None and document is not None:
            stated = _member(document, tool.place.pointer)
        if stated is None:
            continue
        if not isinstance(stated, dict) or not set(stated) <= {"ignore", "reason"}:
            yield Waiver((), "", tool.place, index, f'{KEY} must be {{"ignore": ["OG101"], "reason": "…"}}')
            continue
        listed, reason = stated.get("ignore"), stated.get("reason", "")
        codes = tuple(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()
        yield Waiver(codes, reason.strip() if isinstance(reason, str) else "", tool.place, index, _fault(codes))


def _fault(codes: tuple[str, ...]) -> str | None:
    if not codes:
        return "names no code to ignore (OG101)"
    wrong = next((each for each in codes if _CODE.fullmatch(each) is None), None)
    return None if wrong is None else f"names {wrong[:20]!r}, which is no rule's code (OG101)"


def _member(document: Any, pointer: str) -> Any:
    at = document
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(at, dict):
            at = at.get(key)
        elif isinstance(at, list) and key.isdecimal() and len(key) < 9 and int(key) < len(at):
            at = at[int(key)]
        else:
            return None
    if not isinstance(at, dict):
        return None
    inner = at.get("function", at.get("custom"))  # OpenAI's Chat Completions keep name and schema one deeper
    return inner.get(KEY) if KEY not in at and isinstance(inner, dict) else at.get(KEY)
