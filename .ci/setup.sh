#!/bin/sh
# Makes .venv with the locked libraries and this project in it, and sees to a redis-server.
# Run by `make`; quiet and quick when there is nothing to do.
#   PYTHON=...        the Python to use (3.11 or newer)
#   WITHOUT_REDIS=1   go on without a redis-server: its tests are then skipped
#   WITHOUT_POSTGRES=1  go on without PostgreSQL, which is never required: without one its tests are skipped
set -eu
cd "$(dirname "$0")/.."

lock=tests/requirements.lock
stamp=.venv/.set-up
log=${TMPDIR:-/tmp}/oncegate-setup-$$.log

say() { printf '%s\n' "$*" >&2; }

fail() {
    printf "%s\n" "$@" >&2
    exit 1
}

quietly() { # run a command; show what it said only if it fails
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    for python in ${PYTHON:-python3.11 python3.12 python3.13 python3.14 python3 python}; do
        if new_enough "$python"; then
            printf '%s\n' "$python"
            return
        fi
    done
    fail "Python 3.11 or newer is needed${PYTHON:+, and PYTHON=$PYTHON is not}." \
        "Install one, or name it: make PYTHON=/path/to/python3"
}

redis_found() {
    for name in redis-server valkey-server; do
        major=$("$name" --version 2>/dev/null | sed -n 's/.*server v=\([0-9]*\)\..*/\1/p') || true
        if [ "${major:-0}" -ge 7 ]; then return 0; fi
    done
    return 1
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

install_redis() {
    if command -v brew >/dev/null 2>&1; then
        say "Installing redis with brew ..."
        quietly brew install redis
        return
    fi
    if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then return 1; fi
    for manager in apt-get dnf apk pacman; do
        if command -v "$manager" >/dev/null 2>&1; then
            say "Installing a redis-server with $manager ..."
            case $manager in
            apt-get)
                quietly as_root apt-get update || true # one broken source of many is no reason to give up
                quietly as_root env DEBIAN_FRONTEND=noninteractive \
                    apt-get install -y --no-install-recommends redis-server
                ;;
            dnf) quietly as_root dnf install -y valkey || quietly as_root dnf install -y redis ;;
            apk) quietly as_root apk add redis || quietly as_root apk add valkey ;;
            pacman) quietly as_root pacman -Sy --noconfirm valkey ;;
            esac
            return
        fi
    done
    return 1
}

# --- the virtual environment -------------------------------------------------------------------------

# The folder is part of it: scripts in a virtual environment that was moved or copied point elsewhere.
wanted=$({ pwd -P; cat "$lock" pyproject.toml; } | cksum)
if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ] || ! new_enough .venv/bin/python; then
    python=$(find_python)
    rm -f "$stamp"
    if [ ! -x .venv/bin/python ] || ! new_enough .venv/bin/python || ! grep -qF "$(pwd -P)/.venv" .venv/bin/activate; then
        say "Making .venv with $("$python" --version 2>&1) ..."
        rm -rf .venv
        quietly "$python" -m venv .venv ||
            fail "That Python cannot make virtual environments (on Debian and Ubuntu: apt-get install python3-venv)."
    fi
    say "Installing the locked libraries ..."
    pip() { quietly .venv/bin/python -m pip install --disable-pip-version-check --no-input "$@"; }
    pip --require-hashes -r "$lock" || fail "The libraries could not be installed; see above."
    # hatchling is among them, so that this builds with what is locked.
    pip --no-deps --no-build-isolation -e . || fail "The project itself could not be installed; see above."
    printf '%s\n' "$wanted" >"$stamp"
fi

# --- redis-server ------------------------------------------------------------------------------------

if [ -z "${WITHOUT_REDIS:-}" ] && ! redis_found; then
    install_redis || true
    redis_found || fail "A redis-server 7.0 or newer, or valkey-server, is needed on PATH. Install one, for example" \
        "  apt-get install redis-server | dnf install valkey | apk add redis | brew install redis" \
        "or set WITHOUT_REDIS=1 to go on without (its tests are then skipped)."
fi

# --- PostgreSQL, for the merchant SDK's tests -----------------------------------------------------------

postgres_found() {
    command -v initdb >/dev/null 2>&1 && return 0
    for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin; do
        if [ -x "$folder/initdb" ]; then return 0; fi
    done
    return 1
}

install_postgres() {
    if command -v brew >/dev/null 2>&1; then
        say "Installing PostgreSQL with brew ..."
        quietly brew install postgresql@17
        return
    fi
    if [ "$(id -u)" -ne 0 ] && ! sudo -n true 2>/dev/null; then return 1; fi
    for manager in apt-get dnf apk pacman; do
        if command -v "$manager" >/dev/null 2>&1; then
            say "Installing PostgreSQL with $manager ..."
            case $manager in
            apt-get)
                quietly as_root apt-get update || true
                quietly as_root env DEBIAN_FRONTEND=noninteractive \
                    apt-get install -y --no-install-recommends postgresql
                ;;
            dnf) quietly as_root dnf install -y postgresql-server ;;
            apk) quietly as_root apk add postgresql ;;
            pacman) quietly as_root pacman -Sy --noconfirm postgresql ;;
            esac
            return
        fi
    done
    return 1
}

if [ -z "${WITHOUT_POSTGRES:-}" ] && ! postgres_found; then
    install_postgres || true
    postgres_found || say "No PostgreSQL found or installed: the tests that need one will be skipped."
fi
