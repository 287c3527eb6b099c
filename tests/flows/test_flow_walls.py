"""Keys, roles, tenants, addresses and secrets, on a gateway that is not in --dev."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import trustme
from flow_client import Api
from flow_merchant import RawMerchant, reply
from flow_processes import GatewayProcess, RedisProcess, clean_environment

NewMerchant = Callable[..., Awaitable[RawMerchant]]
Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]


COMPANY = f"walls-{uuid4().hex[:12]}"
"""The company that the runtime's and the merchant's keys are for, and no other."""


@pytest.fixture(scope="module")
def walled(redis_process: RedisProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway without --dev, on the shared Redis; merchants on this one address of loopback are allowed."""
    settings = {"MERCHANTS_ALLOW_ADDRESSES": "127.0.0.1/32"}
    process = GatewayProcess(tmp_path_factory.mktemp("gw"), redis_process.url, dev=False, settings=settings)
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="module")
def keys(redis_process: RedisProcess) -> dict[str, str]:
    """A key of each role, made as an operator makes them, beside running gateways."""
    minting = {
        role: subprocess.Popen(
            [
                *(sys.executable, "-m", "gateway.cli", "keys", "create", "--role", role, "--company", company),
                *("--principal", f"the-{role}", "--ledger", redis_process.url, "--json"),
            ],
            env=clean_environment(),
            stdout=subprocess.PIPE,
        )
        for role, company in (("runtime", COMPANY), ("merchant", COMPANY), ("operator", "*"))
    }
    said = {role: process.communicate(timeout=60)[0] for role, process in minting.items()}
    return {role: str(json.loads(text)["key"]) for role, text in said.items()}


@pytest.fixture
async def operator(api: Api, walled: GatewayProcess, keys: dict[str, str], eventually: Eventually) -> Api:
    """For a company of the test's own, with a key for all."""
    caller = api.by(keys["operator"], url=lambda: walled.url)
    await eventually(lambda: _is_known(caller))
    return caller


async def test_p9_1_each_role_may_do_its_own_and_no_more(
    operator: Api, keys: dict[str, str], merchant: RawMerchant
) -> None:
    """9.1, K6-12: minted keys work at a running gateway; a merchant's key cannot call, a runtime's cannot register;
    the dev key and no key are nobody's."""
    runtime, owner = (operator.by(keys[role], company=COMPANY) for role in ("runtime", "merchant"))
    company = f"/v1/companies/{COMPANY}"
    await owner.register("create_order", merchant.url)
    assert (await runtime.call("r1", "create_order")).decision == "proceed"
    assert (await owner.call("r2", "create_order")).status == 403
    assert (await owner.stored("r1"))[0]["status"] == "succeeded", "what its own server did"
    tool = {"endpoint": merchant.url}
    assert (await runtime.send("PUT", f"{company}/tools/drop_order", tool)).status == 403
    assert (await runtime.send("POST", f"{company}/secrets")).status == 403
    for nobody in ("dev", "og_r_" + "x" * 43, ""):
        for path in (f"{company}/tools", f"/v1/calls?company={COMPANY}&conversation=c-1&tool_call_id=r1"):
            assert (await runtime.by(nobody).send("GET", path)).status == 401
    assert merchant.hits == 1


async def test_k6_12_p9_1_the_key_decides_the_company_whatever_the_body_says(
    operator: Api, keys: dict[str, str], merchant: RawMerchant
) -> None:
    """K6-12, 9.1: another company is refused in the same words whether or not it exists."""
    await operator.register("create_order", merchant.url)
    assert (await operator.call("r1", "create_order")).decision == "proceed"
    said = set()
    for role in ("runtime", "merchant"):
        for company in (operator.company, "no-such-company"):
            foreign = operator.by(keys[role], company=company)
            for answer in (
                await foreign.call("call_0", "create_order"),
                await foreign.call("r1", "create_order"),
                await foreign.send("GET", "/v1/calls", company=company, conversation="c-1", tool_call_id="r1"),
                await foreign.send("GET", "/v1/calls", company=company, status="indeterminate"),
                await foreign.send("GET", "/v1/events", company=company, conversation="c-1"),
                await foreign.send("GET", "/v1/events", company=company),
                await foreign.send("GET", f"/v1/companies/{company}/tools"),
                await foreign.send("PUT", f"/v1/companies/{company}", {"max_steps": 1}),
                await foreign.send("DELETE", f"/v1/companies/{company}/tools/create_order"),
                await foreign.send("POST", f"/v1/companies/{company}/secrets"),
            ):
                assert (answer.status, answer.code) == (403, "forbidden")
                said.add(answer.json["message"])
    assert len(said) == 1
    assert merchant.hits == 1
    batch = {"calls": [{"company": operator.company, "conversation": "c-1", "tool": "create_order", "arguments": {}}]}
    answered = await operator.by(keys["runtime"]).send("POST", "/v1/calls/batch", batch)
    assert [entry["code"] for entry in answered.json["answers"]] == ["forbidden"]


INSIDE = [
    "http://10.0.0.7/", "https://10.0.0.7/x", "https://169.254.169.254/latest/meta-data", "https://192.168.1.1/",
    "https://[::1]/", "https://[fd00::1]/", "https://[::ffff:169.254.169.254]/", "https://[::ffff:7f00:2]/",
    "https://[64:ff9b::a9fe:a9fe]/", "https://0.0.0.0/", "https://2130706433/", "https://0177.0.0.1/",
    "https://0x7f000001/", "https://127.1/", "https://127.0.0.2/", "https://localhost./",
    "https://metadata.google.internal/", "http://8.8.8.8/", "gopher://8.8.8.8/", "file:///etc/passwd",
    "https://user:hunter2@8.8.8.8/",
]  # fmt: skip


@pytest.mark.parametrize("endpoint", INSIDE)
async def test_k6_01_k6_02_k6_05_inside_addresses_are_refused_at_registration(operator: Api, endpoint: str) -> None:
    """K6-01, K6-02, K6-05, 9.2: in every disguise, in words that repeat nothing and tell nothing."""
    refused = await operator.send("PUT", f"/v1/companies/{operator.company}/tools/create_order", {"endpoint": endpoint})
    assert (refused.status, refused.code) == (422, "registration_refused")
    host = endpoint.split("//")[1].strip("/")
    assert host.encode() not in refused.raw
    assert b"hunter2" not in refused.raw


@pytest.mark.parametrize(
    "header",
    [
        b"Bearer caf\xe9",
        b"Bearer \xff",
        b"Bearer",
        b"Bearer ",
        b"Basic ZGV2",
        b"bearer\tdev",
        b"Bearer " + b"A" * 9_000,
    ],
)
async def test_k6_07_odd_bytes_in_a_key_are_401_and_one_short_line(
    gateway: GatewayProcess, header: bytes, eventually: Eventually
) -> None:
    """K6-07, 9.4: never a trace, whatever the bytes."""
    said = len(gateway.said)
    answer = await raw_exchange(
        gateway, b"GET /v1/events?company=x HTTP/1.1\r\nHost: x\r\nAuthorization: " + header + b"\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    await eventually(lambda: len(gateway.said) > said)
    (line,) = gateway.said[said:]
    assert len(line) < 200
    assert "401" in line


async def test_k6_07_two_keys_are_401(api: Api, gateway: GatewayProcess) -> None:
    """K6-07, 9.4: nobody guesses which was meant."""
    twice = b"Authorization: Bearer dev\r\n" * 2
    answer = await raw_exchange(gateway, b"GET /v1/events?company=x HTTP/1.1\r\nHost: x\r\n" + twice + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 401 "), answer


URL_SECRET, CARD = "SECRET1urlkey", "4111111111111111"


async def test_k6_10_secrets_are_in_no_log_event_metric_answer_or_listing(
    api: Api, merchant: RawMerchant, gateway: GatewayProcess, gateways: list[GatewayProcess]
) -> None:
    """K6-10, 9.3: failures of every kind, at debug level, with a key in the URL and a card in the arguments."""
    made = (await api.send("POST", f"/v1/companies/{api.company}/secrets")).json["secret"]
    card = {"type": "object", "properties": {"card": {"type": "string", "maxLength": 20, "x-sensitive": True}}}
    pages: list[bytes] = []

    async def attempt(name: str, base: str) -> None:
        endpoint = f"{base}?key={URL_SECRET}"
        pages.append((await api.register("pay_order", endpoint, timeout_s=0.3, parameters=card)).raw)
        calls = [(name, CARD), (name, CARD), (f"{name}-2", CARD), (f"{name}-3", CARD * 3), (f"{name}-4", [CARD])]
        pages.extend([(await api.call(id_, "pay_order", {"card": sent}, conversation=name)).raw for id_, sent in calls])
        pages.append(json.dumps([await api.stored(name, name), await api.events(name)]).encode())

    for name, answer in (
        ("500", reply({"e": 1}, status=500)),
        ("junk", reply(b"{]", "Content-Type: application/json")),
    ):
        merchant.answers(answer)
        await attempt(name, merchant.url)
    merchant.waits_for(asyncio.Event())
    await attempt("timeout", merchant.url)
    await attempt("refused", f"http://127.0.0.1:{free_port()}/tools")
    await attempt("no-tls", merchant.url.replace("http:", "https:"))
    assert URL_SECRET in merchant.requests[0].target, "the merchant does get it"
    company = f"/v1/companies/{api.company}"
    listings = (company, f"{company}/secrets", f"{company}/tools", f"{company}/tools/pay_order", "/metrics")
    pages.extend([(await api.send("GET", path)).raw for path in listings])
    pages.append((await api.send("GET", "/v1/events", company=api.company)).raw)
    pages.append(json.dumps(await api.unknown()).encode())
    pages.append("\n".join(line for each in gateways for line in each.said).encode())
    assert len(gateway.said) > 10, "it does log at this level"
    for secret in (URL_SECRET, CARD, made, made.removeprefix("whsec_"), "Bearer dev"):
        assert not [page for page in pages if secret.encode() in page], secret


async def test_k3_13_an_expired_or_foreign_certificate_is_never_bypassed_without_dev(
    operator: Api, new_merchant: NewMerchant
) -> None:
    """K3-13, 9.2: nor does the refusal say what was found there."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("shop.example").configure_cert(context)
    broken = await new_merchant(tls=context)
    await operator.register("place_order", broken.url)
    refused = await operator.call("p3")
    assert (refused.status, refused.code) == (502, "merchant_unreachable")
    assert b"127.0.0.1" not in refused.raw
    assert broken.hits == 0


async def _is_known(api: Api) -> bool:
    return (await api.send("GET", f"/v1/companies/{api.company}/tools")).status == 200


async def raw_exchange(gateway: GatewayProcess, request: bytes) -> bytes:
    """Bytes out, the first bytes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(request)
        return await reader.read(65_536)
    finally:
        writer.close()
        await writer.wait_closed()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
