"""A history as a small SVG: a line a request, from when it was sent to when it ended, and what it got."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Final

from gateway.commands.merchant_check.exchange import Exchange

WIDTH: Final = 960
_ROW: Final = 22
_LEFT: Final = 230
_BARS: Final = 300
_LONGEST: Final = 62
"""Characters of an answer beside its bar."""
_MOST_ROWS: Final = 60


def picture(history: Sequence[Exchange]) -> str:
    """Inline SVG, whose texts are escaped. Time runs to the right; the scale is the history's own."""
    rows = history[:_MOST_ROWS]
    whole_s = max([each.ended_s for each in rows] + [0.001])
    height = _ROW * (len(rows) + 1) + 6
    lines = [
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="who sent what, when, and what came of it">',
        _text(0, 14, "sent", "head"),
        _text(_LEFT, 14, "0 ms", "head"),
        _text(_LEFT + _BARS, 14, f"{whole_s * 1000:.0f} ms", "head end"),
        _text(_LEFT + _BARS + 12, 14, "got", "head"),
    ]
    for place, each in enumerate(rows, 1):
        lines += _row(each, place * _ROW + 14, _BARS / whole_s)
    return "".join([*lines, "</svg>"])


def _row(exchange: Exchange, y: int, scale: float) -> list[str]:
    left = _LEFT + exchange.sent_s * scale
    width = max((exchange.ended_s - exchange.sent_s) * scale, 2)
    said = exchange.said if len(exchange.said) <= _LONGEST else exchange.said[:_LONGEST] + "…"
    kind = (
        "count"
        if exchange.what == "count"
        else "done"
        if exchange.done
        else "open"
        if exchange.status is None
        else "no"
    )
    told = escape(f"{exchange.what}, key {exchange.key or '-'}: {exchange.said}")
    return [
        _text(0, y, exchange.what, ""),
        f'<rect class="{kind}" x="{left:.1f}" y="{y - 10}" width="{width:.1f}" height="11">',
        f"<title>{told}</title></rect>",
        _text(_LEFT + _BARS + 12, y, said, "said"),
    ]


def _text(x: int, y: int, text: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'
