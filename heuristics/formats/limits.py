"""How much is read of one source. Above, a clear line; below, time and memory grow with the size alone."""

from __future__ import annotations

from typing import Final

__all__ = [
    "MAX_BYTES",
    "MAX_DEPTH",
    "MAX_PYTHON_BYTES",
    "MAX_TOML_BYTES",
    "MAX_VALUES",
    "MAX_YAML_ALIASED",
    "MAX_YAML_BYTES",
    "MAX_YAML_VALUES",
]

MAX_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 128
"""Nesting of objects and lists, whatever the syntax: what reads a schema part by part must not run out of stack."""
MAX_VALUES: Final = 5_000_000
"""Values in a JSON document, counted by its separators: a short text can otherwise fill any memory."""

# The readers of these are far slower than the one of JSON.
MAX_YAML_BYTES: Final = 16 << 20
MAX_YAML_VALUES: Final = 1_000_000
MAX_YAML_ALIASED: Final = 100_000
"""Values that aliases repeat: nine lines of YAML can otherwise stand for a billion."""
MAX_TOML_BYTES: Final = 2 << 20
MAX_PYTHON_BYTES: Final = 2 << 20
