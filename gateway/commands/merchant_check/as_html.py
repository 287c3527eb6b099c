"""A run as one page that needs nothing else: every fault, and the history of each that failed as a picture."""

from __future__ import annotations

from html import escape
from typing import Final

from gateway.commands.merchant_check.as_text import WEAK
from gateway.commands.merchant_check.picture import picture
from gateway.commands.merchant_check.result import Result, Run

_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1000px;margin:2em auto;padding:0 1em;color:#222;background:#fff}
section{border-left:4px solid #aaa;padding:.1em 1em;margin:.8em 0}
.failed{border-color:#b3261e}.passed{border-color:#2e7d32}
h2{font-size:1em;margin:.3em 0}p{margin:.3em 0}code{font-size:.95em}svg{width:100%;margin:.5em 0}
text{font:12px ui-monospace,monospace;fill:#333}.head{fill:#666}.end{text-anchor:end}
.done{fill:#2e7d32}.no{fill:#b3261e}.open{fill:#e09b00}.count{fill:#9aa0a6}
"""


def as_html(run: Run) -> str:
    numbers = ", ".join(f"{len(run.having(verdict))} {verdict}" for verdict in ("passed", "failed", "not tried"))
    notes = "".join(f"<p>{escape(text)}</p>" for text in ("" if run.counted else WEAK, run.stopped) if text)
    order = sorted(run.results, key=lambda each: ("failed", "passed", "not tried").index(each.verdict))
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Merchant check</title>'
        f"<style>{_STYLE}</style><h1>{escape(run.tool)} at {escape(run.url)}</h1><p><b>{numbers}</b></p>{notes}"
        f"{''.join(map(_section, order))}</html>\n"
    )


def _section(result: Result) -> str:
    fault = result.fault
    parts = [f"<h2>{result.verdict}: <code>{fault.code}</code></h2><p>{escape(fault.promise)}</p>"]
    if result.why:
        parts.append(f"<p><b>{escape(result.why)}</b></p>")
    if result.verdict == "failed":
        parts.append(f"<p>Do: {escape(fault.do)} <i>protocol.md, {escape(fault.rule)}</i></p>{picture(result.history)}")
    parts += [f"<p>Note: {escape(remark)}</p>" for remark in result.remarks]
    return f'<section class="{result.verdict.replace(" ", "-")}" id="{fault.code}">{"".join(parts)}</section>'
