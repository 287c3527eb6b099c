"""What holds for all tests: which examples Hypothesis tries, and where temporary folders are.

The examples are the same ones in every run (`make test`), or new ones (`make test-full`).

A test fails because of what was changed, not because the examples were luckier last time. With the example that failed
stands a line that tries it again, `@reproduce_failure(...)`. For a search in one file, as `make test-full` does it:
`python -m pytest --hypothesis-profile=new-examples tests/core/test_identity.py`.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

# The path of a socket has 107 bytes, on BSD and macOS 103. Those of the servers that tests start are in their temporary
# folders, whose own names take up to 80 of them.
if len(tempfile.gettempdir()) > 16 and os.access("/tmp", os.W_OK):
    os.environ["TMPDIR"] = tempfile.tempdir = "/tmp"

# How fast the machine is says nothing of what is tested: no example has a time limit, none is refused as too slow.
_ANY_MACHINE: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("same-examples", derandomize=True, **_ANY_MACHINE)
settings.register_profile("new-examples", derandomize=False, **_ANY_MACHINE)
settings.load_profile("same-examples")


# Hypothesis draws from the constants of every module that happens to be loaded: other ones when a test runs alone, on
# another worker or in another folder. Examples that are to be the same do without.
_of_what_is_loaded = providers._get_local_constants
_NONE = providers._local_constants


def _local_constants() -> Any:
    return _NONE if settings.default.derandomize else _of_what_is_loaded()


providers._get_local_constants = _local_constants
