"""One short line for each refused request, and none of what it held (9.3, 9.4)."""

from __future__ import annotations

import logging
import traceback
from pathlib import PurePath
from typing import Final

from gateway.core.errors import GatewayError, InternalFault
from gateway.web.head import Head

_log: Final = logging.getLogger("gateway.web")


def log_refusal(error: GatewayError, head: Head) -> None:
    """`401 unauthenticated POST /v1/calls request=…`: the route's template, never the path, a body or a key."""
    level = logging.INFO if error.status < 500 else logging.WARNING
    _log.log(level, "%d %s %s %s request=%s", error.status, error.code, head.method, head.route, head.request_id)


def internal_fault(fault: Exception, request_id: str) -> InternalFault:
    """What the caller is told of an unexpected exception, once it is logged: its type and place.

    Its message stays out of the log, for it may quote a key or a body; its frames are there at debug level only.
    """
    frames = traceback.extract_tb(fault.__traceback__)
    where = f"{PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "unknown place"
    _log.error("500 internal %s at %s request=%s", type(fault).__name__, where, request_id)
    if _log.isEnabledFor(logging.DEBUG):
        places = " < ".join(f"{PurePath(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
        _log.debug("request=%s came by %s", request_id, places)
    return InternalFault()
