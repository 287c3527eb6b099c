"""Whether a folder is on a network filesystem, where neither locks nor syncs may hold. Known on Linux only."""

from __future__ import annotations

from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
_NETWORK: Final = frozenset(
    (
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    )
)
_NETWORK_FUSE: Final = ("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.gcsfuse", "fuse.rclone")


def network_filesystem(folder: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind, such as "nfs4"; None where it is none, or nobody says. `mounts` is in the form of fstab(5)."""
    try:
        lines = mounts.read_text("utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    path = folder.expanduser().absolute().resolve()
    found: tuple[int, str] = (-1, "")
    for line in lines:
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = Path(_unescaped(fields[1]))
        # The last of equals hides those before it.
        if path.is_relative_to(point) and len(point.parts) >= found[0]:
            found = (len(point.parts), fields[2])
    kind = found[1]
    return kind if kind in _NETWORK or kind.startswith(_NETWORK_FUSE) else None


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text
