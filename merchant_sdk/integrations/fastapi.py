"""FastAPI is Starlette here: see `integrations.starlette`.

A dependency with `yield` ends after FastAPI has made its reply, so a commit there comes too late, unless
`install` holds the reply back: with it a teardown that fails to commit is a 500, and one that only closes the
session after writes is a ReplyBeforeCommit (where the engine is tracked).
"""

from __future__ import annotations

from merchant_sdk.integrations.starlette import PATH, install, signed_call

__all__ = ["PATH", "install", "signed_call"]
