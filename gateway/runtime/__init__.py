"""The assistant runtime's side of Oncegate: a client, its blocking twin, and a tool loop for any chat model.

This package is a leaf: it needs the standard library and aiohttp, and nothing else of the gateway.
"""

from gateway.runtime.answer import Answer, AnswerError, Approval, First, Replay
from gateway.runtime.call import Call
from gateway.runtime.client import AsyncOncegate
from gateway.runtime.errors import BadCall, NoAnswer, OncegateError, Problem
from gateway.runtime.resend import Resend
from gateway.runtime.sync import Oncegate
from gateway.runtime.tool_loop import ToolLoop, TurnCall, TurnResult
from gateway.runtime.wording import DEFAULT_INSTRUCTION

__all__ = [
    "DEFAULT_INSTRUCTION",
    "Answer",
    "AnswerError",
    "Approval",
    "AsyncOncegate",
    "BadCall",
    "Call",
    "First",
    "NoAnswer",
    "Oncegate",
    "OncegateError",
    "Problem",
    "Replay",
    "Resend",
    "ToolLoop",
    "TurnCall",
    "TurnResult",
]
