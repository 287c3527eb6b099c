"""What the figures were made on."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from importlib import metadata
from pathlib import Path
from typing import Final

LIBRARIES: Final = (
    *("oncegate", "uvicorn", "httptools", "uvloop", "starlette", "aiohttp"),
    *("msgspec", "jsonschema-rs", "redis", "hiredis"),
)


def machine(redis_program: str) -> dict[str, str]:
    """Machine, system and versions, by name."""
    redis = subprocess.run([redis_program, "--version"], capture_output=True, text=True, check=False).stdout
    return {
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "cpu": _cpu_model(),
        "cpus": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "redis-server": redis.partition("v=")[2].split(" ")[0] or "unknown",
        **{name: _version(name) for name in LIBRARIES},
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
