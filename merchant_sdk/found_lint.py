"""What is remarked on a tool when it is defined: by the lint that was handed in, or by those installed beside the shop.

The SDK has no rules of its own and imports none. A package that has some says so with an entry point of the group
`oncegate.lint`, looked for when the first tool is defined and not before. A shop starts whatever becomes of them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

GROUP: Final = "oncegate.lint"

Lint = Callable[[dict[str, Any]], Sequence[str]]
"""Remarks on one tool's registration, in words."""

Choice = Lint | Literal["installed"] | None

_log = logging.getLogger("merchant_sdk")


class ToolRemark(UserWarning):
    """What a lint says of a tool; the message begins with the tool's name."""


def remarks_on(registration: dict[str, Any], lint: Choice) -> list[str]:
    """Raises what a lint that was handed in raises; of an installed one that fails the log has a line."""
    if lint is None:
        return []
    if lint != "installed":
        return list(lint(registration))
    found: list[str] = []
    for name, each in _installed():
        try:
            found += [str(remark) for remark in each(registration)]
        except Exception as error:
            _log.warning("the lint %s failed on %s: %s", name, registration["name"], type(error).__name__)
    return found


@functools.cache
def _installed() -> tuple[tuple[str, Lint], ...]:
    """Every lint that can be loaded, by name."""
    from importlib.metadata import entry_points  # 20 ms that a shop without tools does without

    found: list[tuple[str, Lint]] = []
    try:
        for point in entry_points(group=GROUP):
            try:
                found.append((point.name, point.load()))
            except ImportError:  # not there, or not with all that it needs
                _log.debug("the lint %s cannot be loaded", point.name, exc_info=True)
            except Exception as error:
                _log.warning("the lint %s cannot be loaded: %s", point.name, type(error).__name__)
    except Exception as error:  # a package whose own description cannot be read
        _log.warning("installed lints cannot be looked for: %s", type(error).__name__)
    return tuple(found)
