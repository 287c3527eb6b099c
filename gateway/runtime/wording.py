"""Every text the tool loop says to a model, in one place. Data only."""

from __future__ import annotations

from collections.abc import Mapping

DEFAULT_INSTRUCTION = "\n".join(
    (
        "Rules for using tools.",
        "- Call a tool that changes something (an order, a booking, a payment, a cancellation, an address) only after "
        "the customer has clearly confirmed that very action. Reading needs no confirmation.",
        "- Say that something was done only when a tool result says so. No result means that it was not done or is "
        "not known.",
        "- If an outcome is not known, do not call the tool again. Tell the customer that it may have happened and is "
        "being checked.",
        "- If a call is blocked or waits for an approval, do not call it again. Tell the customer what it waits for.",
        "- If a result is marked as a repeat, nothing new was done: report the first outcome, once.",
    )
)

STEP_LIMIT_NOTICE = (
    "The step limit of this turn is reached; no more tools can be called. Answer the customer now, in plain text. "
    "Say what was done, what was not, and what is not known."
)

STEP_LIMIT_REFUSAL = "Not run: the step limit of this turn is reached. Nothing was done."

UNREADABLE_NOTICE = (
    "Your last reply could not be read: {fault}. Nothing in it was run. Reply again, with text or with tool calls."
)

FAULT = "Not run: {fault}. Nothing was done. Correct the call, or tell the customer."

SAME_ID_NOTE = (
    "Another call in the same reply carried this call's id with other contents. That one was not run; "
    "if it is still wanted, ask for it again by itself."
)

REPEAT_MARK = " (Repeated call: nothing new was done.)"
"""What the gateway adds to the message of a replay."""

NO_TEXT = (
    "I could not finish this just now. Something may already be under way: please check before you ask for it again."
)

# Added to the gateway's own words, by what is known of the outcome. `refused` is a `not_sent` that no later try helps.
AFTER_PROBLEM: Mapping[str, str] = {
    "not_sent": "Nothing was done. Tell the customer that it did not go through; it may be tried again later.",
    "refused": "Nothing was done. Do not repeat this call unchanged.",
    "in_flight": (
        "The call is still running and its outcome is not known yet. Do not call it again; tell the customer that "
        "it is not finished."
    ),
    "unknown": (
        "It is not known whether this was done. Do not call it again; tell the customer that it may have happened "
        "and is being checked."
    ),
}
