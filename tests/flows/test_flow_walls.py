"""Keys, roles, tenants, addresses and secrets, on a gateway that is not in --dev."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import trustme
from flow_client import Api, of_requests
from flow_merchant import Connection, RawMerchant, Request, reply
from flow_processes import GatewayProcess, RedisProcess, clean_environment

from benchmarks.processes import free_port

NewMerchant = Callable[..., Awaitable[RawMerchant]]
Eventually = Callable[[Callable[[], Any]], Awaitable[Any]]
Heard = Callable[[], Awaitable[list[str]]]


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
    callers = {role: api.by(key, url=lambda: walled.url) for role, key in keys.items()}
    for each in callers.values():  # the gateway may have looked between the minting of two of them
        await eventually(partial(_is_known, each))
    return callers["operator"]


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
    gateway: GatewayProcess, header: bytes, heard: Heard
) -> None:
    """K6-07, 9.4: never a trace, whatever the bytes."""
    answer = await raw_exchange(
        gateway, b"GET /v1/events?company=x HTTP/1.1\r\nHost: x\r\nAuthorization: " + header + b"\r\n\r\n"
    )
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    (line,) = of_requests(await heard())
    assert len(line) < 200
    assert " 401 unauthenticated " in line


async def test_k6_07_a_megabyte_for_a_key_is_refused_unread_and_leaves_one_line_at_most(
    api: Api, gateway: GatewayProcess, heard: Heard
) -> None:
    """K6-07, 9.4: more than a head may hold; the gateway hangs up, in bounded time and memory, and goes on."""
    before = await api.metric("process_resident_memory_bytes")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(b"GET /v1/events?company=x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ")
        for _ in range(64):
            writer.write(b"A" * 16_384)
            await writer.drain()
        answer = await reader.read()
    except OSError:  # it has hung up already
        answer = b""
    writer.close()
    await asyncio.gather(writer.wait_closed(), return_exceptions=True)
    assert answer == b"" or answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 401 ", b"HTTP/1.1 400 ")), answer
    assert (await api.send("GET", "/livez")).status == 200
    assert await api.metric("process_resident_memory_bytes") < before + 16 * 1024 * 1024
    lines = of_requests(await heard())
    assert len(lines) <= 1
    assert all(len(line) < 200 for line in lines)


async def test_k6_07_two_keys_are_401(api: Api, gateway: GatewayProcess) -> None:
    """K6-07, 9.4: nobody guesses which was meant."""
    twice = b"Authorization: Bearer dev\r\n" * 2
    answer = await raw_exchange(gateway, b"GET /v1/events?company=x HTTP/1.1\r\nHost: x\r\n" + twice + b"\r\n")
    assert answer.startswith(b"HTTP/1.1 401 "), answer


async def test_p9_1_what_a_shop_leaves_on_a_connection_is_not_read_as_another_companys_answer(
    api: Api, merchant: RawMerchant
) -> None:
    """9.1: one host serves two companies, and one of them answers twice. The second answer comes when the next request
    is on its way, so nothing but a connection of its own keeps it from the other company."""
    other = api.by(company=f"{api.company}b")
    asked = asyncio.Event()

    async def twice(request: Request, connection: Connection) -> bytes | None:
        if request.json["context"]["company"] == other.company:
            asked.set()
            return reply({"mine": True})
        await connection.write(reply({"first": True}))
        await asked.wait()
        return reply({"planted": True})

    merchant.behave = twice
    for each in (api, other):
        await each.register("place_order", merchant.url)
    assert (await api.call("p1")).json["result"] == {"first": True}
    answer = asyncio.create_task(other.call("p2"))
    done, _ = await asyncio.wait({answer}, timeout=30)
    asked.set()
    assert done, "the request waits behind the other company's"
    assert answer.result().json["result"] == {"mine": True}
    assert merchant.connections == 2


URL_SECRET, URL_PASSWORD, CARD = "SECRET1urlkey", "SECRETpassword", "4111111111111111"


async def test_k6_10_secrets_are_in_no_log_event_metric_answer_or_listing(
    api: Api,
    merchant: RawMerchant,
    new_merchant: NewMerchant,
    gateway: GatewayProcess,
    gateways: list[GatewayProcess],
    keys: dict[str, str],
    eventually: Eventually,
) -> None:
    """K6-10, 9.3: failures of every kind, at debug level, with a key in the URL, a card in the arguments, and an API
    key that was made as any other."""
    api = api.by(keys["operator"])
    await eventually(partial(_is_known, api))
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
    untrusted = await new_merchant(tls=context_of(trustme.CA().issue_cert("127.0.0.1")))
    await attempt("untrusted", untrusted.url)
    path = f"/v1/companies/{api.company}/tools/pay_order"
    for base in (
        "https://no-such-host.invalid/x",
        f"http://u:{URL_PASSWORD}@127.0.0.1/x",
        f"http://{URL_PASSWORD}@[::1/x",
    ):
        for field in ("endpoint", "status_endpoint"):
            body = {"endpoint": merchant.url, field: f"{base}?key={URL_SECRET}", "parameters": card}
            refused = await api.send("PUT", path, body)
            assert refused.status in (400, 422), (base, refused.raw)
            pages.append(refused.raw)
    assert URL_SECRET in merchant.requests[0].target, "the merchant does get it"
    company = f"/v1/companies/{api.company}"
    listings = (company, f"{company}/secrets", f"{company}/tools", f"{company}/tools/pay_order", "/metrics")
    pages.extend([(await api.send("GET", path)).raw for path in listings])
    pages.append((await api.send("GET", "/v1/events", company=api.company)).raw)
    pages.append(json.dumps(await api.unknown()).encode())
    pages.append("\n".join(line for each in gateways for line in each.said).encode())
    assert len(gateway.said) > 10, "it does log at this level"
    for secret in (URL_SECRET, URL_PASSWORD, CARD, made, made.removeprefix("whsec_"), keys["operator"], "Bearer "):
        assert not [page for page in pages if secret.encode() in page], secret


def context_of(certificate: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


AUTHORITY = trustme.CA()
GONE = datetime(2020, 1, 1, tzinfo=UTC)
CERTIFICATES = {
    "expired": lambda: AUTHORITY.issue_cert("127.0.0.1", not_before=GONE - timedelta(days=365), not_after=GONE),
    "of another name": lambda: AUTHORITY.issue_cert("shop.example"),
    "of nobody known": lambda: trustme.CA().issue_cert("127.0.0.1"),
}


@pytest.fixture
async def trusting(
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    api: Api,
    keys: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Api:
    """At a gateway without --dev, on a machine that trusts the tests' own authority."""
    (tmp_path / "authority.pem").write_bytes(AUTHORITY.cert_pem.bytes())
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    settings = {"MERCHANTS_ALLOW_ADDRESSES": "127.0.0.1/32"}
    process = start_gateway(redis_process.url, dev=False, settings=settings)
    return api.by(keys["operator"], url=lambda: process.url)


@pytest.mark.parametrize("certificate", CERTIFICATES.values(), ids=CERTIFICATES)
async def test_k3_13_an_expired_or_foreign_certificate_is_never_bypassed_without_dev(
    trusting: Api, new_merchant: NewMerchant, certificate: Callable[[], trustme.LeafCert]
) -> None:
    """K3-13, 9.2, 5: not sent, and the refusal does not say what was found there; no record is left, and the same id
    runs once the merchant shows a good one."""
    broken = await new_merchant(tls=context_of(certificate()))
    await trusting.register("place_order", broken.url)
    refused = await trusting.call("p3")
    assert (refused.status, refused.code, refused.json["outcome"]) == (502, "merchant_unreachable", "not_sent")
    assert "certificate is not valid" in refused.json["message"]
    assert b"127.0.0.1" not in refused.raw
    assert await trusting.stored("p3") == []
    mended = await new_merchant(tls=context_of(AUTHORITY.issue_cert("127.0.0.1")))
    await trusting.register("place_order", mended.url)
    assert (await trusting.call("p3")).decision == "proceed"
    assert (broken.hits, mended.hits) == (0, 1)


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1", "https://127.0.0.1", "http://localhost", "https://localhost", "https://[::ffff:127.0.0.1]"])  # fmt: skip
async def test_k6_01_k6_02_inside_addresses_are_refused_again_at_the_call(
    api: Api,
    redis_process: RedisProcess,
    start_gateway: Callable[..., GatewayProcess],
    keys: dict[str, str],
    merchant: RawMerchant,
    endpoint: str,
) -> None:
    """K6-01, K6-02, 9.2: what a laxer gateway let into the same ledger, by address or by a name that leads inside, is
    judged anew by the one that would dial it. No connection reaches it, and no record is left."""
    port = merchant.url.rpartition(":")[2]
    await api.register("place_order", f"{endpoint}:{port}")
    await api.register("get_menu", f"{endpoint}:{port}")
    strict = start_gateway(redis_process.url, dev=False)
    caller = api.by(keys["operator"], url=lambda: strict.url)
    for tool in ("place_order", "get_menu"):
        refused = await caller.call("k6", tool)
        assert (refused.status, refused.code, refused.json["outcome"]) == (502, "merchant_unreachable", "not_sent")
        told = refused.raw.replace(refused.headers["request-id"].encode(), b"")  # digits at random, as a port's are
        for inside in (b"127.0.0.1", b"localhost", b"loopback", b"private", port.removesuffix("/tools").encode()):
            assert inside not in told, inside
    assert merchant.connections == 0
    assert await caller.stored("k6") == []
    assert await caller.unknown() == []


async def test_k4_05_k6_12_a_merchants_key_sees_what_became_of_its_calls_but_no_result(
    operator: Api, keys: dict[str, str], merchant: RawMerchant
) -> None:
    """K4-05, K6-12, 9.1: a key that may not call reads no stored result nor a refusal's body, in a look-up, a listing
    or the events; those who may call, and operators, do."""
    runtime, owner, all_seeing = (operator.by(keys[role], company=COMPANY) for role in ("runtime", "merchant", "operator"))  # fmt: skip
    for tool in ("create_order", "cancel_order", "pay_order"):
        await owner.register(tool, merchant.url)
    place = {"conversation": f"results-{uuid4().hex}"}
    secret = f"SECRET{uuid4().hex}"
    merchant.answers(
        reply({"order": secret}), reply({"error": secret}, status=422), reply({"order": secret}, status=500)
    )
    made = await runtime.call("r1", "create_order", **place)
    failed = await runtime.call("r2", "cancel_order", **place)
    lost = await runtime.call("r3", "pay_order", **place)
    assert [a.json["status"] for a in (made, failed, lost)] == ["succeeded", "failed", "indeterminate"]
    for reader in (runtime, all_seeing):
        assert (await reader.stored("r1", **place))[0]["result"] == {"order": secret}
        assert secret in str((await reader.stored("r2", **place))[0]["error"])
    seen = [*await owner.stored("r1", **place), *await owner.stored("r2", **place), *await owner.stored("r3", **place)]
    assert [row["status"] for row in seen] == ["succeeded", "failed", "indeterminate"]
    assert [row["effect_id"] for row in seen] == [a.json["effect_id"] for a in (made, failed, lost)]
    assert [row["result"] for row in seen] == [None, None, None]
    assert seen[1]["error"]["code"] == "merchant_refused"
    unknown = [row for row in await owner.unknown() if row["tool_call_id"] == "r3"]
    assert lost.json["effect_id"] in [row["effect_id"] for row in unknown]
    query = {"company": COMPANY, "conversation": place["conversation"]}
    pages = [*seen, *unknown, (await owner.send("GET", "/v1/events", **query)).json]
    assert secret in json.dumps((await runtime.send("GET", "/v1/events", **query)).json), "what the 500 said"
    assert secret not in json.dumps(pages)
    for answer in (await owner.call("r1", "create_order", **place), await owner.call("new", "create_order", **place)):
        assert (answer.status, answer.code) == (403, "forbidden")
        assert secret.encode() not in answer.raw
    assert merchant.hits == 3


async def _is_known(api: Api) -> bool:
    return (await api.send("GET", f"/v1/companies/{api.company}/tools")).status != 401


async def raw_exchange(gateway: GatewayProcess, request: bytes) -> bytes:
    """Bytes out, the first bytes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    try:
        writer.write(request)
        return await reader.read(65_536)
    finally:
        writer.close()
        await writer.wait_closed()
