"""Oncegate: every side-effecting tool call happens once."""

__version__ = "0.1.0"
