"""`oncegate approvals`: what it asks of a gateway, and what it prints for people and for programs (7.4)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from gateway.cli import main

NAME = "apr_" + "0" * 68
SHOWN = (
    (
        '{"id": "NAME", "status": "pending", "because": "policy", "rule": "large-orders", "bundle_version": "b", "by": null, '
        '"approvers": ["operator", "anna"], "message": "Is this order wanted?", "requested_at": "2026-11-29T10:00:00Z", '
        '"expires_at": "2026-11-29T10:15:00Z", "company": "acme", "conversation": "c-42", "turn": "t-7", "step": 1, '
        '"effect_id": "EFFECT", "kind": "tool_call", "tool": "place_order", "tool_version": 1, "tool_call_id": "call_9f", '
        '"arguments": {"total": 24000000000000000001.10, "note": "\\u001b[2J\\u202e"}, "repeat_of": []}'
    )
    .replace("NAME", NAME)
    .replace("EFFECT", "ab" * 32)
)


class Played:
    def __init__(self) -> None:
        self.answers: dict[str, list[str]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        played = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path, _, query = self.path.partition("?")
                raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                played.asked.append((self.command, path, json.loads(raw) if raw else query))
                answers = played.answers[path]
                body = (answers.pop(0) if len(answers) > 1 else answers[0]).encode()
                self.send_response(409 if b'"code"' in body and b'"error"' not in body else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def run(self, *arguments: str) -> int:
        url = f"http://127.0.0.1:{self.server.server_port}"
        return main(["approvals", *arguments, "--url", url, "--key", "dev"])


@pytest.fixture
def played() -> Iterator[Played]:
    made = Played()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_p7_4_what_is_open_is_listed_to_its_last_page(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    """7.4: over all conversations; an empty page before the end is not the end."""
    pages = ['{"approvals": [], "cursor": "0:1"}', f'{{"approvals": [{SHOWN}], "cursor": null}}']
    played.answers["/v1/approvals"] = [*pages]
    assert played.run("list", "acme") == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"{NAME}  2026-11-29T10:15:00Z  c-42  place_order"
    assert second.strip().endswith("(rule large-orders; for operator, anna)")
    assert [query for _, _, query in played.asked] == ["company=acme&limit=100", "company=acme&limit=100&cursor=0%3A1"]


def test_p7_4_nothing_open_is_said(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    played.answers["/v1/approvals"] = ['{"approvals": [], "cursor": null}']
    assert played.run("list", "acme") == 0
    assert capsys.readouterr().out == "none\n"
    assert played.run("list", "acme", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"approvals": [], "cursor": None}


def test_p7_4_one_is_shown_with_its_call_every_digit_and_no_terminal_steered(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    """7.4, 2.10, 9.3: what is approved is an amount; what a model wrote is shown escaped."""
    played.answers[f"/v1/approvals/{NAME}"] = [SHOWN]
    assert played.run("show", NAME) == 0
    text = capsys.readouterr().out
    for part in ("pending", "24000000000000000001.10", "call_9f", "Is this order wanted?", "operator, anna", "lapses"):
        assert part in text
    assert all(line.isprintable() for line in text.splitlines())
    assert played.run("show", NAME, "--json") == 0
    assert "24000000000000000001.10" in capsys.readouterr().out


@pytest.mark.parametrize("act", ["grant", "deny"])
def test_p7_4_a_decision_is_sent_and_what_came_of_it_told(
    played: Played, capsys: pytest.CaptureFixture[str], act: str
) -> None:
    """7.4: no name goes out: the key says who decides."""
    said = {"grant": ("granted", "succeeded", '{"order": 24000000000000000001}'), "deny": ("denied", "denied", "null")}
    decision, status, result = said[act]
    answer = f'{{"id": "{NAME}", "decision": "{decision}", "by": "ops", "status": "{status}", "result": {result}}}'
    played.answers[f"/v1/approvals/{NAME}/{act}"] = [answer]
    assert played.run(act, NAME, "--rationale", "seen", "--customer-message", "yes") == 0
    text = capsys.readouterr().out
    assert text.startswith(f"{decision} by ops; the call stands as {status}")
    assert ("24000000000000000001" in text) is (act == "grant")
    assert played.asked == [("POST", f"/v1/approvals/{NAME}/{act}", {"rationale": "seen", "customer_message": "yes"})]
    assert played.run(act, NAME, "--json") == 0
    assert json.loads(capsys.readouterr().out)["decision"] == decision
    assert played.asked[-1][2] == {}


def test_p7_4_a_decision_that_came_too_late_is_exit_status_1(
    played: Played, capsys: pytest.CaptureFixture[str]
) -> None:
    played.answers[f"/v1/approvals/{NAME}/grant"] = ['{"code": "approval_decided", "message": "It lapsed."}']
    assert played.run("grant", NAME) == 1
    assert "409 approval_decided: It lapsed." in capsys.readouterr().err


def test_p7_2_a_grant_that_waits_for_its_runtime_says_so(played: Played, capsys: pytest.CaptureFixture[str]) -> None:
    answer = f'{{"id": "{NAME}", "decision": "granted", "by": "ops", "status": "awaiting_approval"}}'
    played.answers[f"/v1/approvals/{NAME}/grant"] = [answer]
    assert played.run("grant", NAME) == 0
    assert "submits it again" in capsys.readouterr().out


@pytest.mark.parametrize("action", [[], ["grant"], ["deny"]])
def test_help_has_examples(action: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["approvals", *action, "--help"])
    assert ended.value.code == 0
    examples = capsys.readouterr().out.partition("examples:")[2]
    assert " ".join(["oncegate approvals", *(action or ["list"])]) in examples
