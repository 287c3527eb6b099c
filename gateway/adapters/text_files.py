"""Configuration files as text: bounded, UTF-8, and what is wrong with them in words."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MAX_FILE_BYTES: Final = 4_194_304


def read_text(path: str | Path) -> str:
    """A configuration or secret file. Raises OSError, UnicodeDecodeError; one that is too large is an OSError, and so
    is a path that no file can have."""
    try:
        file = Path(path).open("rb")  # noqa: SIM115
    except ValueError:
        raise OSError(22, "no file has such a path") from None
    with file:
        data = file.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise OSError(27, f"has over {MAX_FILE_BYTES:,} bytes")
    return data.decode("utf-8")


def unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Why `read_text` failed; nothing of the text is in it."""
    return "cannot be read: " + (str(error.strerror) if isinstance(error, OSError) else "it is not UTF-8")
