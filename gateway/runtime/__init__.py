"""The assistant runtime's side of Oncegate: a client, its blocking twin, and a tool loop for any chat model.

This package is a leaf: it needs the standard library and aiohttp, and nothing else of the gateway.
"""

from gateway.runtime.answer import Answer, AnswerError, Approval, First, Replay
from gateway.runtime.call import Call
from gateway.runtime.client import AsyncOncegate
from gateway.runtime.effect import Effect, Standing, Submitted, Verdict
from gateway.runtime.errors import (
    BadCall,
    EffectBlocked,
    EffectDenied,
    EffectLimited,
    EffectOverruled,
    EffectStopped,
    EffectUnknown,
    NoAnswer,
    NotDone,
    OncegateError,
    Problem,
)
from gateway.runtime.recording import Recorded
from gateway.runtime.resend import Resend
from gateway.runtime.sync import Oncegate
from gateway.runtime.tool_loop import ToolLoop
from gateway.runtime.turn import Turn
from gateway.runtime.turn_calls import TurnCall, TurnResult
from gateway.runtime.wording import DEFAULT_INSTRUCTION

__all__ = [
    "DEFAULT_INSTRUCTION",
    "Answer",
    "AnswerError",
    "Approval",
    "AsyncOncegate",
    "BadCall",
    "Call",
    "Effect",
    "EffectBlocked",
    "EffectDenied",
    "EffectLimited",
    "EffectOverruled",
    "EffectStopped",
    "EffectUnknown",
    "First",
    "NoAnswer",
    "NotDone",
    "Oncegate",
    "OncegateError",
    "Problem",
    "Recorded",
    "Replay",
    "Resend",
    "Standing",
    "Submitted",
    "ToolLoop",
    "Turn",
    "TurnCall",
    "TurnResult",
    "Verdict",
]
