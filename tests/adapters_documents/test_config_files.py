"""Companies from TOML files: read strictly, every error of every file at once, secrets by reference only."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from gateway.adapters.config_files import Judges, read_merchants, read_merchants_folder, secret_problem
from gateway.adapters.schemas import Schemas
from gateway.core.addresses import check_url
from gateway.core.errors import ConfigError
from gateway.core.record import Mode
from gateway.core.requests import OnRepeat

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
JUDGES = Judges(check_url, Schemas().schema_problems)
CONFIG = Path(__file__).parents[2] / "config"

GOOD = """
[company]
name = "acme"
max_steps = "off"
overrides = { "sync_*" = true }

[[secrets]]
id = "new"
secret_env = "ACME_SECRET"

[[secrets]]
secret_file = "/run/secrets/acme"

[tools.place_order]
endpoint = "https://shop.example/tools"
idempotency = "safe_to_retry"
on_repeat = "run"
timeout_s = 3
hints = { destructiveHint = true }
parameters = '{"type": "object", "maxProperties": 12345678901234567890123}'

[tools."catalog.query"]
endpoint = "https://shop.example/tools"
parameters = { type = "object", properties = { q = { type = "string" } } }
"""


def read(texts: dict[str, str], environ: dict[str, str] | None = None, files: dict[str, str] | None = None) -> Any:
    def read_file(path: str) -> str:
        if path not in (files or {}):
            raise FileNotFoundError(2, "No such file or directory")
        return (files or {})[path]

    return read_merchants(texts, environ or {}, JUDGES, read_file)


def problems(text: str, **world: Any) -> list[str]:
    with pytest.raises(ConfigError) as wrong:
        read({"m.toml": text}, **world)
    return wrong.value.problems


def test_a_whole_company_is_read() -> None:
    (acme,) = read({"x.toml": GOOD}, {"ACME_SECRET": SECRET}, {"/run/secrets/acme": SECRET + "\n"})
    assert (acme.company, acme.file, acme.settings) == (
        "acme",
        "x.toml",
        {"max_steps": "off", "overrides": {"sync_*": True}},
    )
    assert [(secret.id, secret.value) for secret in acme.secrets] == [("new", SECRET), ("file-2", SECRET)]
    order = acme.tools["place_order"]
    assert (order.idempotency, order.on_repeat, order.timeout_s) == (Mode.SAFE_TO_RETRY, OnRepeat.RUN, 3.0)
    assert order.parameters["maxProperties"] == 12345678901234567890123
    assert acme.tools["catalog.query"].parameters["properties"] == {"q": {"type": "string"}}
    assert SECRET not in repr(acme)


def test_a_company_is_named_by_its_file_unless_it_says_otherwise() -> None:
    (acme,) = read({"config/merchants/acme.toml": ""})
    assert (acme.company, acme.tools, acme.secrets) == ("acme", {}, ())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = [", "m.toml: is not valid TOML: "),
        ("[compny]", "m.toml, compny: is not a known field; did you mean company?"),
        ("company = 1", "m.toml, company: must be a table"),
        ("[company]\nname = '*'", "m.toml, company.name: must not be *"),
        ("[company]\nname = 3", "m.toml, company.name: must be a string"),
        ("[company.policy]\ndefault_action = 'deny'", "m.toml, company.policy: stands in a table of its own: [policy]"),
        ("[company]\nmax_step = 3", "m.toml, company.max_step: is not a known field; did you mean max_steps?"),
        ("[company]\nmax_steps = '3'", "m.toml, company.max_steps: must be a"),
        ("[company]\noverrides = { x = 1 }", "m.toml, company.overrides.x: must be a boolean"),
        ("tools = 1", "m.toml, tools: must hold tables"),
        ("[tools]\nx = 1", "m.toml, tools.x: must be a table"),
        ("[tools.x]", "m.toml, tools.x.endpoint: is required"),
        ("[tools.x]\nendpoint = 'http://shop.example/'", "m.toml, tools.x.endpoint: The endpoint must be an https URL"),
        ("[tools.x]\nendpoint = 'https://10.1.1.1/'", "m.toml, tools.x.endpoint: The endpoint's address"),
        ("[tools.x]\nendpoint = 'https://a/'\nstatus_endpoint = 'x'", "m.toml, tools.x.status_endpoint: The endpoint"),
        ("[tools.x]\nendpoint = 'https://a.example/'\ntimeout = 3", "m.toml, tools.x.timeout: is not a known field; did you"),
        ("[tools.x]\nendpoint = 'https://a.example/'\ntimeout_s = '3'", "m.toml, tools.x.timeout_s: must be a number"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = '{'", "m.toml, tools.x.parameters: malformed JSON"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { type = 'array' }", "m.toml, tools.x.parameters.type: "),
        ("[tools.a.b]\nendpoint = 'https://a.example/'", 'm.toml, tools.a.b: is not a field of a tool; a name with dots'),
        ('[tools."a\\u0000"]\nendpoint = \'https://a.example/\'', 'm.toml, tools."a\\u0000": must not hold control'),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { properties = { day = { default = 2026-11-30 } } }", "m.toml, tools.x.parameters.properties.day.default: must be what JSON can say"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { enum = [{}, 07:30:00] }", "m.toml, tools.x.parameters.enum.1: must be what JSON can say"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { default = { 'a/b' = 2026-11-30T10:00:00Z } }", "m.toml, tools.x.parameters.default.a~1b: must be what JSON can say"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { default = { n = -inf } }", "m.toml, tools.x.parameters.default.n: must be what JSON can say"),
        ("[tools.x]\nendpoint = 'https://a.example/'\nparameters = { const = nan }", "m.toml, tools.x.parameters.const: must be what JSON can say"),
        ("secrets = 'x'", "m.toml, secrets: must be a list"),
        ("secrets = ['x']", "m.toml, secrets[1]: must be a table"),
        ("[[secrets]]", "m.toml, secrets[1]: needs secret_env or secret_file"),
        ("[[secrets]]\nsecret_env = 'A'\nsecret_file = 'B'", "m.toml, secrets[1]: needs secret_env or secret_file"),
        ("[[secrets]]\nsecret_env = 'A'", "m.toml, secrets[1].secret_env: the environment has no A"),
        ("[[secrets]]\nsecret_file = '/a'", "m.toml, secrets[1].secret_file: /a: cannot be read: No such file"),
        ("[[secrets]]\nsecret = 'A'\nsecret_env = 'GOOD'", "m.toml, secrets[1].secret: is not a known field"),
        ("[[secrets]]\nsecret_env = 'BAD'", "m.toml, secrets[1].secret_env: what it names must be whsec_"),
        ("[[secrets]]\nid = 'a'\nsecret_env = 'GOOD'\n[[secrets]]\nid = 'a'\nsecret_env = 'GOOD'", "m.toml, secrets[2].id: stands twice"),
    ],
)  # fmt: skip
def test_each_error_names_file_table_and_key(text: str, expected: str) -> None:
    found = problems(text, environ={"GOOD": SECRET, "BAD": "hunter2-CANARY"})
    assert found[0].startswith(expected)
    assert "CANARY" not in str(found)


def test_every_error_of_every_file_is_reported_at_once() -> None:
    texts = {
        "a.toml": "[compny]\n[tools.x]\nendpoint = 3\ntimeout = 1",
        "b.toml": "x = [",
        "c.toml": "[company]\nname = 'd'",
        "d.toml": "[[secrets]]\nsecret_env = 'A'",
    }
    with pytest.raises(ConfigError) as wrong:
        read(texts)
    assert [line.partition(": ")[0] for line in wrong.value.problems] == [
        "a.toml, compny",
        "a.toml, tools.x.endpoint",
        "a.toml, tools.x.timeout",
        "b.toml",
        "d.toml, secrets[1].secret_env",
        "d.toml, company.name",
    ]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "whsec_",
        "secret",
        base64.b64encode(b"k" * 32).decode(),
        "whsec_" + "A" * 20,
        "whsec_" + "A" * 120,
        "whsec_é",
    ],
)
def test_p9_3_an_unusable_secret_is_refused_without_being_shown(value: str) -> None:
    """9.3: the words hold nothing of it."""
    assert secret_problem(value) == "must be whsec_ and the base64 of 24 to 64 bytes"


def test_a_secrets_path_that_no_file_can_have_is_named_and_no_trace() -> None:
    with pytest.raises(ConfigError) as wrong:
        read_merchants({"m.toml": '[[secrets]]\nsecret_file = "/run/\\u0000"'}, {}, JUDGES)
    assert wrong.value.problems == ["m.toml, secrets[1].secret_file: /run/\0: cannot be read: no file has such a path"]


def test_a_folder_is_read_in_order_and_an_absent_one_is_empty(tmp_path: Path) -> None:
    assert read_merchants_folder(tmp_path / "absent", {}, JUDGES) == []
    for name in ("b.toml", "a.toml", "c.toml.example"):
        (tmp_path / name).write_text("[company]\n", encoding="utf-8")
    assert [each.company for each in read_merchants_folder(tmp_path, {}, JUDGES)] == ["a", "b"]
    (tmp_path / "d.toml").write_bytes(b"\xff")
    (tmp_path / "e.toml").write_text("zzz = 1", encoding="utf-8")
    with pytest.raises(ConfigError) as wrong:
        read_merchants_folder(tmp_path, {}, JUDGES)
    assert [line.removeprefix(str(tmp_path) + "/") for line in wrong.value.problems] == [
        "d.toml: cannot be read: it is not UTF-8",
        "e.toml, zzz: is not a known field",
    ]


def test_the_example_is_a_company_for_this_machine_only() -> None:
    """The example in config/merchants is read as it stands, given its secret; outside development it is refused."""
    text = (CONFIG / "merchants" / "demo-shop.toml.example").read_text("utf-8")
    on_this_machine = Judges(lambda url: check_url(url, allow_http=True, allow=_loopback()), Schemas().schema_problems)
    environ = {"ONCEGATE_SECRET_DEMO_SHOP": SECRET}
    (shop,) = read_merchants({"demo-shop.toml": text}, environ, on_this_machine)
    assert sorted(shop.tools) == ["place_order", "search_products"]
    assert shop.tools["place_order"].parameters["properties"]["address"]["x-sensitive"] is True
    with pytest.raises(ConfigError) as wrong:
        read_merchants({"demo-shop.toml": text}, environ, JUDGES)
    assert len(wrong.value.problems) == 2


def _loopback() -> Any:
    from gateway.core.addresses import LOOPBACK

    return LOOPBACK
