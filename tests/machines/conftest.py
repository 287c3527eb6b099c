"""How long the state machines search: a few seconds in `make test`; ONCEGATE_MACHINE_EXAMPLES asks for more, and
`make test-full` takes a few minutes."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "machines",
    max_examples=int(os.environ.get("ONCEGATE_MACHINE_EXAMPLES", "250")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
