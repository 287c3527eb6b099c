from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.processes import redis_program


@pytest.fixture
def own_recording() -> Path:
    return Path(__file__).with_name("odd_conversations.jsonl")


@pytest.fixture
def real_recording() -> Path:
    shared = Path(os.environ.get("ONCEGATE_SHARED") or Path(__file__).resolve().parents[3] / "shared")
    path = shared / "data" / "airline_calls.jsonl"
    if not path.is_file():
        pytest.skip(f"there are no recorded calls at {path}")
    return path


@pytest.fixture
def real_redis() -> str:
    program = redis_program()
    if program is None:
        pytest.skip("there is no redis-server on PATH")
    return program
