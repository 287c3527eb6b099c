"""Commands that ask a gateway: what they print of its answers, for people and for programs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from types import SimpleNamespace
from typing import Any
from urllib.error import HTTPError, URLError

import pytest

from gateway.cli import main
from gateway.commands import remote

CALL = {
    "effect_id": "ab" * 32,
    "tool": "place_order",
    "tool_call_id": "call_1",
    "conversation": "c-1",
    "first_at": "2026-11-29T10:00:00.120Z",
    "status": "succeeded",
    "error": None,
    "result": {"order": "MO-1", "paid": True, "note": None, "an": "it's"},
    "events": [
        {"seq": 2, "type": "effect.executing", "at": "2026-11-29T10:00:00.120Z", "effect_id": "ab", "again": True},
    ],
}


class Played:
    """A gateway that answers each path with what it was given, and keeps what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.bodies: list[bytes] = []
        self.refused: set[str] = set()
        played = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path = self.path.partition("?")[0]
                played.asked.append(f"{self.command} {path}")
                played.bodies.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
                answer = played.answers[path]
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(403 if path in played.refused else 200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def run(self, *arguments: str) -> int:
        return main([*arguments, "--url", f"http://127.0.0.1:{self.server.server_port}", "--key", "dev"])


@pytest.fixture
def played() -> Iterator[Played]:
    made = Played()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.mark.parametrize(
    ("arguments", "path", "answer", "none"),
    [
        (["tools", "list", "acme"], "/v1/companies/acme/tools", {"tools": []}, "company acme has no tools"),
        (["secrets", "list", "acme"], "/v1/companies/acme/secrets", {"secrets": []}, "company acme has no signing secret"),
        (["calls", "unknown", "acme"], "/v1/calls", {"calls": [], "cursor": None}, "company acme has no call whose outcome is not known"),
        (["events", "acme", "c-1"], "/v1/events", {"events": []}, "the log of company acme, conversation c-1 has no events"),
        (["events", "acme", "--after", "7"], "/v1/events", {"events": []}, "the log of company acme has no events behind 7"),
    ],
)  # fmt: skip
def test_an_empty_answer_is_none_of_what_and_stays_json_for_programs(played, capsys, arguments, path, answer, none):
    """Nothing printed looks like nothing done; and a company that was misspelt has nothing either."""
    played.answers[path] = answer
    assert played.run(*arguments) == 0
    assert capsys.readouterr().out == f"none: {none}\n"
    assert played.run(*arguments, "--json") == 0
    assert "none" not in capsys.readouterr().out


def test_p7_6_a_tail_shows_each_event_once_through_a_gateway_that_stops(played, capsys, monkeypatch):
    """7.6: the stream ends, the gateway is away, and it goes on behind the last event that it showed."""
    first = {"seq": 1, "type": "effect.renewed", "at": "2026-11-29T10:00:00.120Z", "effect_id": None}
    told = [_Stream([first]), _Stream([{**first, "seq": 2}])]
    asked: list[Any] = []

    def opened(request: Any, timeout: float) -> Any:
        asked.append(request.full_url.partition("after=")[2])
        if len(asked) == 2:
            raise URLError("refused")
        if not told:
            raise KeyboardInterrupt
        return told.pop(0)

    monkeypatch.setattr(remote, "build_opener", lambda *_: SimpleNamespace(open=opened))
    monkeypatch.setattr(remote, "AGAIN_S", 0)
    assert played.run("events", "acme", "c-1", "--tail", "--json") == 130
    printed = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in printed.out.splitlines()] == [1, 2]
    assert asked == ["0", "1", "1", "2"]
    assert "trying again" in printed.err


def _beyond(last: int) -> Any:
    body = {"code": "beyond_log", "message": f"The log has {last} events, fewer than were seen.", "last": last}
    return HTTPError("http://x", 409, "Conflict", {}, BytesIO(json.dumps(body).encode()))  # type: ignore[arg-type]


def test_p7_6_a_tail_whose_log_began_anew_says_so_and_shows_it_from_its_start(played, capsys, monkeypatch):
    """7.6: what it has shown is lost, or expired; nothing that comes is passed over."""
    first = {"seq": 1, "type": "effect.renewed", "at": "2026-11-29T10:00:00.120Z", "effect_id": None}
    told: list[Any] = [_Stream([{**first, "seq": 6}, {**first, "seq": 7}]), _beyond(1), _Stream([first]), _beyond(0)]
    told.append(KeyboardInterrupt())
    asked: list[Any] = []

    def opened(request: Any, timeout: float) -> Any:
        asked.append(request.full_url.partition("after=")[2])
        answer = told.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(remote, "build_opener", lambda *_: SimpleNamespace(open=opened))
    monkeypatch.setattr(remote, "AGAIN_S", 0)
    assert played.run("events", "acme", "c-1", "--after", "5", "--tail", "--json") == 130
    printed = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in printed.out.splitlines()] == [6, 7, 1]
    assert asked == ["5", "7", "0", "1", "0"]
    assert "has 1 events, fewer than were seen" in printed.err
    assert printed.err.count("showing it from its start") == 2


def test_p7_6_a_tail_from_a_number_that_the_log_does_not_reach_is_refused(played, capsys, monkeypatch):
    """7.6: nothing was shown yet, so it is the number that is wrong."""

    def opened(request: Any, timeout: float) -> Any:
        raise _beyond(3)

    monkeypatch.setattr(remote, "build_opener", lambda *_: SimpleNamespace(open=opened))
    assert played.run("events", "acme", "c-1", "--after", "9", "--tail") == 1
    assert "409 beyond_log: The log has 3 events" in capsys.readouterr().err


class _Stream:
    def __init__(self, events: list[Any]) -> None:
        self._lines = [b": hello\n", *(b"data: " + json.dumps(each).encode() + b"\n" for each in events)]

    def __enter__(self) -> Any:
        return iter(self._lines)

    def __exit__(self, *_: Any) -> None:
        return


def test_an_empty_later_page_is_not_called_none(played, capsys):
    """Only an answer that is empty as a whole is."""
    pages = [{"calls": [CALL], "cursor": "0:1"}, {"calls": [], "cursor": None}]
    played.answers = _Pages(pages)
    assert played.run("calls", "unknown", "acme") == 0
    printed = capsys.readouterr().out
    assert "call_1" in printed
    assert "none" not in printed


class _Pages(dict):
    def __init__(self, pages: list[Any]) -> None:
        self._left = pages

    def __getitem__(self, path: str) -> Any:
        return self._left.pop(0)


def test_secrets_list_shows_the_ids_newest_first(played, capsys):
    """Ids to retire by; the values are not to be had."""
    played.answers["/v1/companies/acme/secrets"] = {"secrets": [{"id": "sec_2"}, {"id": "sec_1"}]}
    assert played.run("secrets", "list", "acme") == 0
    assert capsys.readouterr().out == "sec_2\nsec_1\n"
    assert played.asked == ["GET /v1/companies/acme/secrets"]


def test_p9_3_a_new_secret_is_labelled_and_stands_on_a_line_of_its_own(played, capsys):
    """9.3: shown once, so it must be plain which line is the secret, and what to do with it."""
    played.answers["/v1/companies/acme/secrets"] = {"id": "sec_1", "secret": "whsec_abc"}
    assert played.run("secrets", "add", "acme") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["id: sec_1", "secret (shown once):", "whsec_abc"]
    assert lines[3].startswith("next: ")
    assert played.run("secrets", "add", "acme", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"id": "sec_1", "secret": "whsec_abc"}


def test_a_result_is_printed_as_json(played, capsys):
    """What the merchant sent is JSON; `True` and `None` are nobody's."""
    played.answers["/v1/calls"] = {"calls": [CALL], "cursor": None}
    assert played.run("calls", "show", "acme", "c-1", "call_1") == 0
    printed = capsys.readouterr().out
    assert f"result: {json.dumps(CALL['result'])}\n" in printed
    assert "again true" in printed
    assert "True" not in printed
    assert "None" not in printed


def test_a_result_with_an_integer_of_any_length_is_shown(played, capsys):
    """A merchant's number is no reason to hide from an operator what became of a call."""
    big = "7" * 5_000
    text = json.dumps({"calls": [CALL | {"result": "BIG"}], "cursor": None}).replace('"BIG"', big)
    played.answers["/v1/calls"] = text.encode()
    assert played.run("calls", "show", "acme", "c-1", "call_1") == 0
    assert big in capsys.readouterr().out


def test_text_that_would_break_the_line_is_printed_as_json(played, capsys):
    """A merchant's words cannot forge a line or colour a terminal."""
    seen = {"seq": 3, "type": "effect.indeterminate", "at": "t", "effect_id": "ab", "seen": "a\n\x1b[31mb"}
    played.answers["/v1/events"] = {"events": [seen]}
    assert played.run("events", "acme", "c-1") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line.endswith(r'seen "a\n\u001b[31mb"')


def test_a_call_that_is_not_recorded_is_told_with_the_reasons(played, capsys):
    """Without the reasons one looks for a bug."""
    played.answers["/v1/calls"] = {"calls": [], "cursor": None}
    played.answers["/v1/events"] = {"events": []}
    assert played.run("calls", "show", "acme", "c-1", "call_9") == 1
    said = capsys.readouterr().out
    assert "read-only calls are not" in said
    assert said.startswith("no call call_9 is recorded in conversation c-1 of company acme ")
    assert "oncegate events" in said


DENIAL = {
    "seq": 5,
    "type": "effect.denied",
    "at": "2026-11-29T10:00:00.120Z",
    "effect_id": None,
    "code": "prior_outcome_unknown",
    "tool_call_id": "call_2",
    "turn": "t-1",
    "first": "ab" * 32,
}
LOST = [
    {"seq": 1, "type": "effect.executing", "at": "t1", "effect_id": "ab" * 32, "lease_s": 15.0},
    {"seq": 2, "type": "effect.indeterminate", "at": "t2", "effect_id": "ab" * 32, "reason": "timed_out"},
    {"seq": 3, "type": "effect.executing", "at": "t3", "effect_id": "cd" * 32, "lease_s": 15.0},
]


def test_p7_6_a_call_is_told_in_words_with_what_can_be_done_now(played, capsys):
    """7.6: for people a line an event; for programs the same beside the record."""
    call = {**CALL, "status": "indeterminate", "result": None, "events": LOST[:2]}
    played.answers["/v1/calls"] = {"calls": [call], "cursor": None}
    assert played.run("calls", "show", "acme", "c-1", "call_1") == 0
    said = capsys.readouterr().out
    assert "Not known whether it was done: the merchant did not answer in time." in said
    assert "now: It is not sent again by itself." in said
    played.answers["/v1/calls"] = {"calls": [call], "cursor": None}
    assert played.run("calls", "show", "acme", "c-1", "call_1", "--json") == 0
    (shown,) = json.loads(capsys.readouterr().out)["calls"]
    assert shown["explained"]["status"] == "indeterminate"
    assert len(shown["explained"]["story"]) == len(shown["events"]) == 2


@pytest.mark.parametrize(("turn", "status"), [((), 0), (("--turn", "t-1"), 0), (("--turn", "t-2"), 1)])
def test_p4_7_a_denied_call_is_told_from_the_log(played, capsys, turn, status):
    """4.7: it has no record, but the log knows why, and of which first call."""
    played.answers["/v1/calls"] = {"calls": [], "cursor": None}
    played.answers["/v1/events"] = {"events": [{**DENIAL, "tool_call_id": "other"}, DENIAL]}
    assert played.run("calls", "show", "acme", "c-1", "call_2", *turn) == status
    said = capsys.readouterr().out
    assert ("denied, not recorded" in said) == (status == 0)
    assert (f"--effect {'ab' * 32}" in said) == (status == 0)


GIVEN_BACK = [
    {"seq": 1, "type": "effect.proposed", "at": "t1", "effect_id": "ab" * 32, "tool_call_id": "call_1", "turn": "t-1"},
    {"seq": 2, "type": "effect.executing", "at": "t2", "effect_id": "ab" * 32, "lease_s": 15.0},
    {"seq": 3, "type": "effect.released", "at": "t3", "effect_id": "ab" * 32, "reason": "connect_failed"},
]


@pytest.mark.parametrize(
    ("last", "turn", "status"),
    [
        (GIVEN_BACK[2], (), 0),
        (GIVEN_BACK[2], ("--turn", "t-1"), 0),
        (GIVEN_BACK[2], ("--turn", "t-2"), 1),
        ({**GIVEN_BACK[2], "type": "effect.resolved", "outcome": "absent", "by": "op"}, (), 0),
        ({**GIVEN_BACK[2], "type": "effect.succeeded"}, (), 1),
    ],
)
def test_p7_6_a_call_that_was_given_back_is_told_by_its_id(played, capsys, last, turn, status):
    """7.6: that the merchant could not be reached is the first thing a newcomer looks for. One whose record has ended is
    not told as if it stood."""
    played.answers["/v1/calls"] = {"calls": [], "cursor": None}
    played.answers["/v1/events"] = {"events": [*GIVEN_BACK[:2], last]}
    assert played.run("calls", "show", "acme", "c-1", "call_1", *turn) == status
    said = capsys.readouterr().out
    assert (f"effect {'ab' * 32}  absent" in said) == (status == 0)
    assert ("now: Nothing stands: the same request, ids unchanged, runs as new." in said) == (status == 0)
    assert played.run("calls", "show", "acme", "c-1", "call_1", *turn, "--json") == 0
    assert [each["effect_id"] for each in json.loads(capsys.readouterr().out)["gone"]] == ["ab" * 32] * (1 - status)


@pytest.mark.parametrize(("text", "said"), [(None, "cannot be read: No such file"), ("{", "is not valid JSON: ")])
def test_a_registration_that_cannot_be_read_is_told_as_one(played, capsys, tmp_path, text, said):
    """Nothing is asked of a gateway."""
    file = tmp_path / "tool.json"
    if text is not None:
        file.write_text(text)
    assert played.run("tools", "put", "acme", "place_order", str(file)) == 1
    assert capsys.readouterr().err.startswith(f"oncegate: {file}: {said}")
    assert played.asked == []


def test_p7_5_a_call_that_came_too_often_is_told_from_the_log(played, capsys):
    """7.5: it leaves no claim, and is no riddle for that."""
    limited = {**DENIAL, "type": "effect.rate_limited", "code": None, "first": None, "retry_after_s": 60}
    played.answers["/v1/calls"] = {"calls": [], "cursor": None}
    played.answers["/v1/events"] = {"events": [limited]}
    assert played.run("calls", "show", "acme", "c-1", "call_2") == 0
    said = capsys.readouterr().out
    assert said.startswith("call_2  rate_limited, not recorded\n")
    assert "Too many calls for now" in said


def test_an_effect_is_told_from_the_events_of_its_conversation(played, capsys):
    """By how its id begins: logs and metrics show no more."""
    played.answers["/v1/events"] = {"events": LOST}
    assert played.run("calls", "show", "acme", "c-1", "--effect", "ABAB") == 0
    said = capsys.readouterr().out
    assert f"effect {'ab' * 32}  indeterminate" in said
    assert "cdcd" not in said
    assert played.run("calls", "show", "acme", "c-1", "--effect", "ef", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"effects": []}
    assert played.run("calls", "show", "acme", "c-1", "--effect", "ef") == 1


HELD = [{"seq": 1, "type": "effect.awaiting_approval", "at": "t1", "effect_id": "ab" * 32, "because": "policy"}]
APPROVAL = {"effect_id": "ab" * 32, "id": "apr_1", "approvers": ["operator"], "expires_at": "2026-11-29T10:15:00.120Z"}


@pytest.mark.parametrize(
    ("conversation", "typed"), [("c-1", "c-1"), ("c 1; rm", "'c 1; rm'"), ("c\n1", "CONVERSATION")]
)
def test_p7_6_advice_names_the_call_that_it_is_about(played, capsys, conversation, typed):
    """7.6: to be pasted as it is; a name that a shell would read otherwise is quoted, one that cannot be typed left out."""
    call = {**CALL, "status": "indeterminate", "result": None, "events": LOST[:2]}
    played.answers["/v1/calls"] = {"calls": [call], "cursor": None}
    assert played.run("calls", "show", "acme", conversation, "call_1") == 0
    ways = "(--succeeded JSON | --failed CODE --message TEXT | --absent) --note WHY"
    assert f"oncegate calls resolve acme {typed} {'ab' * 32} {ways}\n" in capsys.readouterr().out
    played.answers["/v1/calls"] = {"calls": [], "cursor": None}
    played.answers["/v1/events"] = {"events": [DENIAL]}
    assert played.run("calls", "show", "acme", conversation, "call_2", "--json") == 0
    (denied,) = json.loads(capsys.readouterr().out)["denied"]
    assert denied["explained"]["now"] == [f"Settle the first: oncegate calls show acme {typed} --effect {'ab' * 32}"]


def test_p7_4_a_held_call_says_where_it_is_decided(played, capsys):
    """7.4: an approval's name is in no event. A key that may not ask for it is told the rest."""
    played.answers["/v1/events"] = {"events": HELD}
    played.answers["/v1/approvals"] = {"approvals": [{**APPROVAL, "effect_id": "cd" * 32}, APPROVAL], "cursor": None}
    assert played.run("calls", "show", "acme", "c-1", "--effect", "ab") == 0
    said = capsys.readouterr().out
    assert (
        "now: It waits for operator until 2026-11-29T10:15:00.120Z: oncegate approvals grant apr_1 lets it run" in said
    )
    played.answers["/v1/approvals"] = b"no JSON"
    played.refused.add("/v1/approvals")
    assert played.run("calls", "show", "acme", "c-1", "--effect", "ab") == 0
    said = capsys.readouterr().out
    assert "now: Nothing is sent while it is held" in said
    assert "approvals grant" not in said


@pytest.mark.parametrize("named", [(), ("call_1", "--effect", "ab")])
def test_a_call_is_shown_by_one_of_its_names(played, capsys, named):
    """Neither or both: said in one line."""
    assert played.run("calls", "show", "acme", "c-1", *named) == 1
    assert "--effect" in capsys.readouterr().err


RESOLVE = "/v1/effects/" + "ab" * 32 + "/resolve"


@pytest.mark.parametrize(
    ("arguments", "body"),
    [
        (
            ["--succeeded", '{"n": 12345678901234567890.10}', "--evidence", "the shop's list"],
            b'"evidence": "the shop\'s list", "outcome": "succeeded", "result": {"n": 12345678901234567890.10}}',
        ),
        (
            ["--failed", "card_declined", "--message", "No."],
            b'"outcome": "failed", "error": {"code": "card_declined", "message": "No."}}',
        ),
        (["--absent"], b'"outcome": "absent"}'),
    ],
)
def test_p5_5_calls_resolve_says_how_it_ended(played, capsys, arguments, body):
    """5.5: a result as it was typed, digit for digit; one line for people, the record for programs."""
    played.answers[RESOLVE] = {**CALL, "status": "succeeded"}
    command = ["calls", "resolve", "acme", "c-1", "ab" * 32, "--note", "seen", *arguments]
    assert played.run(*command) == 0
    assert capsys.readouterr().out == f"place_order  call_1  succeeded  (effect {'ab' * 32})\n"
    assert played.run(*command, "--json") == 0
    assert json.loads(capsys.readouterr().out)["effect_id"] == "ab" * 32
    assert played.asked == [f"POST {RESOLVE}"] * 2
    assert played.bodies[0] == b'{"company": "acme", "conversation": "c-1", "note": "seen", ' + body
    json.loads(played.bodies[0])


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (["--note", "seen"], 2),
        (["--absent"], 2),
        (["--absent", "--succeeded", "1", "--note", "n"], 2),
        (["--succeeded", "MO-1", "--note", "n"], 2),
        (["--failed", "declined", "--note", "n"], 1),
        (["--absent", "--message", "m", "--note", "n"], 1),
    ],
)
def test_p5_5_calls_resolve_asks_nothing_of_a_gateway_unless_all_is_said(played, capsys, arguments, status):
    """5.5"""
    try:
        found = played.run("calls", "resolve", "acme", "c-1", "ab" * 32, *arguments)
    except SystemExit as stopped:
        found = stopped.code
    assert found == status
    assert capsys.readouterr().err
    assert played.asked == []


def test_p5_5_an_effect_is_resolved_by_how_its_id_begins(played, capsys):
    """5.5: the one of its conversation, and never a guess between two."""
    played.answers["/v1/events"] = {"events": [*LOST, {**LOST[0], "effect_id": "ab" * 4 + "cd" * 28}]}
    played.answers[RESOLVE] = {**CALL, "status": "succeeded"}
    command = ["calls", "resolve", "acme", "c-1", "--absent", "--note", "seen"]
    assert played.run(*command, "ABAB" * 3) == 0
    assert played.asked == ["GET /v1/events", f"POST {RESOLVE}"]
    capsys.readouterr()
    for beginning, said in (("abab", "6 digits"), ("ababab", "2 effects begin with"), ("ef" * 4, "no effect of this")):
        assert played.run(*command, beginning) == 1
        assert said in capsys.readouterr().err
    assert f"POST {RESOLVE}" not in played.asked[2:]


def test_p5_5_calls_resolve_shows_examples(capsys):
    """5.5: one for each way in which a call can have ended."""
    with pytest.raises(SystemExit):
        main(["calls", "resolve", "--help"])
    said = capsys.readouterr().out
    for way in ("--succeeded '{", "--failed card_declined --message", "--absent --note"):
        assert f"EFFECT {way}" in said


@pytest.mark.parametrize("url", ["http://a..b", f"http://{'a' * 64}.example", "http://[::1", "http://h:99999"])
def test_an_address_that_no_gateway_can_have_is_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    assert main(["tools", "list", "acme", "--url", url, "--key", "k"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("oncegate: ")
    assert url in line
