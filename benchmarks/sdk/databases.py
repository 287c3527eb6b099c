"""Private database servers from the system's packages: a folder of their own, a Unix socket, no network."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PLACES: Final = ("/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql*/bin")
_READY_WITHIN_S: Final = 60.0
_LAST_LINES: Final = 15


class NoServer(Exception):
    """The system has no such server. Says which."""


class DoesNotStart(NoServer):
    """There is one, and it does not start. Says which and why."""


def postgres_bin() -> Path | None:
    """The folder of `postgres` and `initdb`: on PATH, or where packages put it."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found and shutil.which("postgres") else []
    for place in _PLACES:
        folders += sorted(Path("/").glob(place[1:]), reverse=True)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def mariadb_programs() -> tuple[str, str] | None:
    """`mariadb-install-db` and `mariadbd`, or None."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin"
    install, server = shutil.which("mariadb-install-db", path=path), shutil.which("mariadbd", path=path)
    return (install, server) if install and server else None


@contextmanager
def private_postgres(*options: str) -> Iterator[str]:
    """A PostgreSQL for the `with` block, as a connection string. `options` are settings such as `fsync=off`.

    Raises NoServer.
    """
    programs = postgres_bin()
    if programs is None:
        raise NoServer("there is no postgres and initdb on this system")
    with _folder() as (folder, user):
        data = folder / "data"
        _run([programs / "initdb", "-D", data, "-A", "trust", "-U", "shop", "--no-sync", "-E", "UTF8"], user, folder)
        settings = ("listen_addresses=", f"unix_socket_directories={folder}", "max_connections=200", *options)
        command = [programs / "postgres", "-D", data, *(part for setting in settings for part in ("-c", setting))]
        with _running(command, user, folder, "accept connections"):
            yield f"host={folder} user=shop dbname=postgres"


@contextmanager
def private_mariadb() -> Iterator[str]:
    """A MariaDB for the `with` block, as the path of its socket; user `root` has no password. Raises NoServer."""
    programs = mariadb_programs()
    if programs is None:
        raise NoServer("there is no mariadbd on this system")
    install, server = programs
    with _folder() as (folder, user):
        data, socket = folder / "data", folder / "s"
        makes = ["--no-defaults", f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        # A temporary folder of its own: a server that starts clears the one it is given, which another may be using.
        _run([install, *makes, f"--tmpdir={folder}"], user, folder)
        runs = ["--no-defaults", f"--datadir={data}", f"--socket={socket}", "--skip-networking", f"--tmpdir={folder}"]
        lasts = ["--innodb-flush-log-at-trx-commit=0", f"--pid-file={folder}/pid", "--skip-grant-tables"]
        with _running([server, *runs, *lasts], user, folder, "ready for connections"):
            yield str(socket)


@contextmanager
def _folder() -> Iterator[tuple[Path, str | None]]:
    """A short temporary path (a socket's name has 107 bytes), owned by whoever the server will run as."""
    folder = Path(tempfile.mkdtemp(prefix="oncegate-db-"))
    user = None
    try:
        if os.getuid() == 0:
            # Neither server runs as root.
            names = {entry.pw_name for entry in pwd.getpwall()}
            user = next((name for name in ("postgres", "mysql", "nobody") if name in names), None)
            if user is None:
                raise NoServer("a database server does not run as root, and there is no user for it")
            shutil.chown(folder, user)
        yield folder, user
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _running(command: Sequence[object], user: str | None, folder: Path, says: str) -> Iterator[None]:
    """The server, from when its log `says` that it listens."""
    log = folder / "log"
    with log.open("ab") as out:
        process = subprocess.Popen(list(map(str, command)), stdout=out, stderr=out, user=user, cwd=folder)
    try:
        deadline = time.monotonic() + _READY_WITHIN_S
        while says not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise DoesNotStart(f"{command[0]} did not start:\n{_tail(log)}")
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        if process.poll() is None:
            process.kill()
            process.wait()


def _run(command: Sequence[object], user: str | None, folder: Path) -> None:
    done = subprocess.run(list(map(str, command)), capture_output=True, user=user, cwd=folder, text=True, check=False)
    if done.returncode != 0:
        raise DoesNotStart(f"{command[0]} failed:\n{(done.stderr or done.stdout)[-2000:]}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
