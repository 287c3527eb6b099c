from __future__ import annotations

import pytest

from benchmarks.processes import redis_program


@pytest.fixture
def real_redis() -> str:
    program = redis_program()
    if program is None:
        pytest.skip("there is no redis-server on PATH")
    return program
