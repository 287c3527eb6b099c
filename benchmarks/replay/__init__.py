"""Recorded calls through a real gateway: every write once, every answer the recorded one."""
