"""Settings: precedence, strictness, and every wrong one named at once with its place."""

from __future__ import annotations

import re
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from gateway.core.errors import ConfigError
from gateway.core.registration import Declared
from gateway.service.declarations import read_tool
from gateway.settings import FIELDS, Settings, environment_name, load, read_settings

CONFIG = Path(__file__).parents[1] / "config"


def wrong(flags: dict[str, Any], environ: dict[str, str], text: str | None, **more: Any) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        load(flags, environ, text, **more)
    return raised.value.problems


def test_without_anything_the_defaults_hold() -> None:
    settings = load({}, {}, None)
    assert settings == Settings()
    assert (settings.ledger.url, settings.http.port, settings.stop.grace_s) == ("local:.oncegate", 8080, 30.0)
    assert settings.company_defaults.retention_s == 30 * 86_400


def test_k8_01_by_default_a_stop_waits_longer_than_a_call_may_run() -> None:
    """K8-01: a tool that states no time of its own ends within the grace, and so does its lease: nothing of it is cut."""
    settings = load({}, {}, None)
    declared = Declared("https://shop.example/tools")
    assert read_tool({"endpoint": declared.endpoint}).timeout_s == declared.timeout_s
    assert settings.stop.grace_s > declared.timeout_s + settings.calls.lease_margin_s


def test_a_flag_comes_before_the_environment_before_the_file_before_the_default() -> None:
    """api.md: the order of sources, setting by setting."""
    text = "[http]\nport = 1\nbatch_limit = 2\n[calls]\nmax_steps = 3\n"
    environ = {"ONCEGATE_HTTP_PORT": "4", "ONCEGATE_HTTP_BATCH_LIMIT": "5"}
    settings = load({"http.port": "6", "http.host": None}, environ, text)
    assert (settings.http.port, settings.http.batch_limit, settings.calls.max_steps) == (6, 5, 3)
    assert settings.http.host == "127.0.0.1"


def test_the_environment_speaks_text_for_every_kind_of_setting() -> None:
    environ = {
        "ONCEGATE_MERCHANTS_ALLOW_ADDRESSES": "10.0.0.0/8, fd00::/8",
        "ONCEGATE_MERCHANTS_ALLOW_HTTP": "true",
        "ONCEGATE_CALLS_MAX_STEPS": "off",
        "ONCEGATE_REGISTRATION_OVERRIDES": '{"sync_*": true}',
        "ONCEGATE_RETENTION_DAYS": "1.5",
    }
    settings = load({}, environ, None)
    assert settings.merchants.allow_addresses == (ip_network("10.0.0.0/8"), ip_network("fd00::/8"))
    assert settings.allow_http
    assert settings.registration.overrides == {"sync_*": True}
    assert (settings.company_defaults.max_steps, settings.company_defaults.retention_s) == (None, 1.5 * 86_400)


EVERY = {
    # setting: (in TOML, in the environment, as the tree has it)
    "dev": ("true", "true", True),
    "ledger.url": ('"redis://10.0.0.5"', "redis://10.0.0.5", "redis://10.0.0.5"),
    "ledger.wait_replicas": ("2", "2", 2),
    "ledger.wait_fsync": ("true", "1", True),
    "ledger.wait_timeout_s": ("0.5", "0.5", 0.5),
    "ledger.allow_unsafe": ("true", "true", True),
    "ledger.connections": ("7", "7", 7),
    "ledger.connect_timeout_s": ("3", "3", 3.0),
    "ledger.command_timeout_s": ("4.5", "4.5", 4.5),
    "http.host": ('"::1"', "::1", "::1"),
    "http.port": ("9090", "9090", 9090),
    "http.body_limit_bytes": ("2048", "2048", 2048),
    "http.batch_limit": ("9", "9", 9),
    "merchants.allow_http": ("true", "true", True),
    "merchants.allow_addresses": (
        '["10.1.0.0/16", "fd00::/8"]',
        "10.1.0.0/16, fd00::/8",
        (ip_network("10.1.0.0/16"), ip_network("fd00::/8")),
    ),
    "merchants.keepalive_s": ("0", "0", 0.0),
    "merchants.result_cap_bytes": ("4096", "4096", 4096),
    "calls.lease_margin_s": ("6", "6", 6.0),
    "calls.wait_margin_s": ("2.5", "2.5", 2.5),
    "calls.repeat_window_s": ("0", "0", 0.0),
    "calls.max_steps": ('"off"', "off", "off"),
    "asking.first_s": ("2.5", "2.5", 2.5),
    "effects.lease_s": ("90", "90", 90.0),
    "asking.longest_s": ("30", "30", 30.0),
    "asking.at_once": ("4", "4", 4),
    "events.seal_after_s": ("9", "9", 9.0),
    "retention.days": ("60", "60", 60.0),
    "registration.on_finding": ('"refuse"', "refuse", "refuse"),
    "registration.heuristic": ('"platform"', "platform", "platform"),
    "registration.overrides": ('{ "sync_*" = true }', '{"sync_*": true}', {"sync_*": True}),
    "stop.grace_s": ("45", "45", 45.0),
}
ON_A_REDIS = {"ledger.wait_replicas", "ledger.wait_fsync"}
"""Settings that contradict the default ledger."""


def value_of(settings: Settings, path: str) -> object:
    found: Any = settings
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("source", ["file", "environment"])
def test_every_setting_can_be_set_from_the_file_and_from_the_environment(source: str) -> None:
    """Each alone and all together, none at its default; a setting that is missing here fails the test."""
    assert set(EVERY) == set(FIELDS)
    somewhere = {"ledger.url": "redis://127.0.0.1"}
    tables: dict[str, list[str]] = {}
    environ = {}
    for path, (toml, text, _) in EVERY.items():
        section, _, key = path.rpartition(".")
        tables.setdefault(section, []).append(f"{key} = {toml}")
        environ[environment_name(path)] = text
        alone = f"[{section}]\n{key} = {toml}\n" if section else f"{key} = {toml}\n"
        flags = somewhere if path in ON_A_REDIS else {}
        read = load(flags, {}, alone) if source == "file" else load(flags, {environment_name(path): text}, None)
        assert value_of(read, path) == EVERY[path][2] != value_of(Settings(), path), path
    whole = "\n".join(
        line for section, lines in sorted(tables.items()) for line in (*([f"[{section}]"] if section else []), *lines)
    )
    settings = load({}, {}, whole) if source == "file" else load({}, environ, None)
    assert {path: value_of(settings, path) for path in EVERY} == {path: right for path, (_, _, right) in EVERY.items()}


@pytest.mark.parametrize("wrong_value", ['["10.0.0.1/8"]', "[1]", '["shop.example"]', '"10.0.0.0/8"', "[true]", "[[]]"])
def test_what_is_no_list_of_networks_is_refused_in_the_file(wrong_value: str) -> None:
    """A number would be read as an address by Python, and a wall with it."""
    (line,) = wrong({}, {}, f"[merchants]\nallow_addresses = {wrong_value}\n")
    assert line.startswith("config/gateway.toml, merchants.allow_addresses: must be networks such as")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ONCEGATE_CALS_MAX", "ONCEGATE_CALLS_MAX_STEPS"),
        ("ONCEGATE_PORT", "ONCEGATE_HTTP_PORT"),
        ("ONCEGATE_LEDGER", "ONCEGATE_LEDGER_URL"),
        ("ONCEGATE_MAX_STEPS", "ONCEGATE_CALLS_MAX_STEPS"),
        ("ONCEGATE_LEDGER_URL_FIEL", "ONCEGATE_LEDGER_URL_FILE"),
        ("ONCEGATE_QUX", None),
    ],
)
def test_a_misspelt_variable_is_told_the_nearest_name_by_its_letters(name: str, meant: str | None) -> None:
    """The prefix that all of them share counts for nothing."""
    (line,) = wrong({}, {name: "1"}, None)
    assert line == f"{name}: is not a setting" + (f"; did you mean {meant}?" if meant else "")


def test_every_wrong_setting_is_reported_at_once_with_its_place_and_what_is_accepted() -> None:
    text = """
dvv = true
stop = 3
[http]
port = "8080"
prt = 1
[htpp]
x = 1
[ledger]
wait_replicas = -1
[merchants]
allow_addresses = ["10.0.0.1/8"]
[calls]
lease_margin_s = nan
max_steps = 0
"""
    environ = {"ONCEGATE_LEDGER_ULR": "x", "ONCEGATE_RETENTION_DAYS": "0.5", "ONCEGATE_HTTP_BODY_LIMIT_BYTES": ""}
    assert wrong({"http.batch_limit": 0}, environ, text) == sorted(
        [
            "--batch-limit (http.batch_limit): must be calls in one batch, from 1 to 1000",
            "ONCEGATE_HTTP_BODY_LIMIT_BYTES: must be bytes from 1024 to 67108864",
            "ONCEGATE_LEDGER_ULR: is not a setting; did you mean ONCEGATE_LEDGER_URL?",
            "ONCEGATE_RETENTION_DAYS: must be days from 1 to 3650",
            "config/gateway.toml, calls.lease_margin_s: must be seconds from 1 to 60",
            'config/gateway.toml, calls.max_steps: must be a whole number from 1 to 1000, or "off"',
            "config/gateway.toml, dvv: is not a setting; did you mean dev?",
            "config/gateway.toml, htpp: is not a setting; did you mean http?",
            "config/gateway.toml, http.port: must be a whole number from 0 (any free one) to 65535",
            "config/gateway.toml, http.prt: is not a setting; did you mean http.port?",
            "config/gateway.toml, ledger.wait_replicas: must be a whole number from 0 (none) to 16",
            'config/gateway.toml, merchants.allow_addresses: must be networks such as ["10.1.0.0/16"]; '
            "in the environment, separated by commas",
            "config/gateway.toml, stop: must be a table: [stop]",
        ]
    )


@pytest.mark.parametrize(
    ("flags", "environ", "text", "expected"),
    [
        (
            {},
            {"ONCEGATE_LEDGER_WAIT_FSYNC": "1"},
            None,
            "ONCEGATE_LEDGER_WAIT_FSYNC: ledger.url names the embedded ledger: it has no replicas",
        ),
        (
            {"ledger.url": "memory"},
            {},
            "[ledger]\nwait_replicas = 1",
            "config/gateway.toml, ledger.wait_replicas and --ledger (ledger.url): ledger.url names the memory ledger",
        ),
        (
            {"ledger.url": "redis://127.0.0.1"},
            {"ONCEGATE_LEDGER_WAIT_REPLICAS": "1", "ONCEGATE_LEDGER_COMMAND_TIMEOUT_S": "1"},
            None,
            "ONCEGATE_LEDGER_WAIT_REPLICAS and ONCEGATE_LEDGER_COMMAND_TIMEOUT_S: ledger.wait_timeout_s must be below",
        ),
        ({}, {}, "x = [", "config/gateway.toml: is not valid TOML"),
        ({}, {}, "[calls]\nlease_margin_s = 1979-05-27", "config/gateway.toml, calls.lease_margin_s: must be seconds"),
        ({}, {}, "[http]\nport = true", "config/gateway.toml, http.port: must be a whole number"),
        ({}, {}, "dev = 1", "config/gateway.toml, dev: must be true or false"),
        ({}, {"ONCEGATE_REGISTRATION_OVERRIDES": "{"}, None, "ONCEGATE_REGISTRATION_OVERRIDES: must be tool names"),
        ({"http.prt": 1}, {}, None, "--prt (http.prt): is not a setting; did you mean http.port?"),
        ({"stop.grace_s": 10}, {}, None, "--grace-s (stop.grace_s): must be seconds from 15 to 600"),
        (
            {"dev": True, "http.host": "0.0.0.0"},
            {},
            None,
            "--dev (dev) and --host (http.host): dev accepts the key dev",
        ),
    ],
)
def test_each_wrong_setting_has_its_line(
    flags: dict[str, Any], environ: dict[str, str], text: str | None, expected: str
) -> None:
    (line,) = wrong(flags, environ, text)
    assert line.startswith(expected)


def test_wait_replicas_of_zero_says_nothing_new_and_is_accepted() -> None:
    assert load({}, {}, "[ledger]\nwait_replicas = 0\n").ledger.wait_replicas == 0


def test_dev_means_this_machine_and_plain_http() -> None:
    settings = load({"dev": True, "http.host": "localhost"}, {}, None)
    assert settings.allow_http
    assert ip_network("127.0.0.0/8") in settings.allow_networks
    assert not load({}, {}, None).allow_networks


def test_p9_3_a_ledgers_password_is_in_no_error_and_no_repr() -> None:
    """9.3: secrets appear in no error."""
    url = "redis://user:hunter2@ledger.example:6379/0"
    settings = load({}, {"ONCEGATE_LEDGER_URL": url}, None)
    assert settings.ledger.url == url
    assert "hunter2" not in repr(settings)
    for environ in ({"ONCEGATE_LEDGER_URL": "redis://:hunter2@"}, {"ONCEGATE_LEDGER_URL": "hunter2"}):
        (line,) = wrong({}, environ, None)
        assert line.startswith("ONCEGATE_LEDGER_URL: must be a redis://, rediss://, unix://, redis+sentinel:// or ")
        assert "hunter2" not in line


def test_a_secret_setting_may_come_from_a_file_that_the_environment_names() -> None:
    """api.md: `_FILE` variants for secrets."""
    files = {"/run/secrets/ledger": "redis://:hunter2@ledger.example/0\n"}
    settings = load({}, {"ONCEGATE_LEDGER_URL_FILE": "/run/secrets/ledger"}, None, read_file=files.__getitem__)
    assert settings.ledger.url == "redis://:hunter2@ledger.example/0"
    both = {"ONCEGATE_LEDGER_URL": "memory", "ONCEGATE_LEDGER_URL_FILE": "/run/secrets/ledger"}
    assert wrong({}, both, None) == [
        "ONCEGATE_LEDGER_URL_FILE: stands beside ONCEGATE_LEDGER_URL; only one of them may be set"
    ]
    assert wrong({}, {"ONCEGATE_LEDGER_URL_FILE": "/absent"}, None) == [
        "ONCEGATE_LEDGER_URL_FILE: the file that it names cannot be read"
    ]
    assert wrong({}, {"ONCEGATE_HTTP_PORT_FILE": "/x"}, None)[0].startswith("ONCEGATE_HTTP_PORT_FILE: is not a setting")


def test_names_of_clients_and_merchants_secrets_are_none_of_the_gateways() -> None:
    environ = {"ONCEGATE_URL": "x", "ONCEGATE_KEY": "x", "ONCEGATE_SECRET_ACME": "x", "HOME": "/", "PORT": "1"}
    assert load({}, environ, None) == Settings()


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().http.port = 1


def test_the_shipped_file_names_every_setting_with_its_default(tmp_path: Path) -> None:
    """config/gateway.toml: nothing set as it stands, and each commented line is a setting's default."""
    shipped = (CONFIG / "gateway.toml").read_text("utf-8")
    assert load({}, {}, shipped) == Settings()
    opened = re.sub(r"^# (\w+ = )", r"\1", shipped, flags=re.MULTILINE)
    assert load({}, {}, opened) == Settings()
    named = {line.partition(" = ")[0] for line in re.findall(r"^# (\w+ = .*)$", shipped, flags=re.MULTILINE)}
    assert named == {path.rpartition(".")[2] for path in FIELDS}


def test_a_folder_is_read_and_one_without_the_file_has_defaults(tmp_path: Path) -> None:
    assert read_settings({}, {}, tmp_path) == Settings()
    (tmp_path / "gateway.toml").write_text("[http]\nport = 9\n", encoding="utf-8")
    assert read_settings({}, {}, tmp_path).http.port == 9
    (tmp_path / "url").write_text("memory\n", encoding="utf-8")
    assert read_settings({}, {"ONCEGATE_LEDGER_URL_FILE": str(tmp_path / "url")}, tmp_path).ledger.url == "memory"
    (tmp_path / "gateway.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"gateway\.toml: cannot be read"):
        read_settings({}, {}, tmp_path)


def test_a_settings_variable_follows_its_path() -> None:
    """api.md: `ledger.wait_replicas` is `ONCEGATE_LEDGER_WAIT_REPLICAS`."""
    assert environment_name("ledger.wait_replicas") == "ONCEGATE_LEDGER_WAIT_REPLICAS"
    assert len({environment_name(path) for path in FIELDS}) == len(FIELDS)


def test_a_variable_that_is_too_deep_is_a_wrong_setting_and_no_fault() -> None:
    """9.4: said like any other."""
    (said,) = wrong({}, {"ONCEGATE_REGISTRATION_OVERRIDES": "[" * 100_000}, "")
    assert said.startswith("ONCEGATE_REGISTRATION_OVERRIDES: must be ")
