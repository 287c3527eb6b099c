"""`oncegate events verify` and `export`, against a gateway that plays whole logs (promise 7.6)."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

import pytest

from gateway.cli import main
from gateway.core.conversation import EventLog
from gateway.core.event_chain import after, start_of

AT = "2026-05-04T12:00:%02d.000Z"


def log_of(number: int, *, first: int = 1) -> list[dict[str, Any]]:
    return [
        {"seq": seq, "type": "effect.renewed", "at": AT % seq, "effect_id": None, "lease_s": seq / 4}
        for seq in range(first, first + number)
    ]


class LogServer:
    """Event logs, their seals and a feed, a page at a time; `away_after` answers it is gone."""

    def __init__(self) -> None:
        self.logs: dict[str | None, list[dict[str, Any]]] = {None: []}
        self.seals: dict[str | None, tuple[int, str]] = {}
        self.page = 3
        self.away_after = 1_000
        self.asked_since: str | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path, _, query = self.path.partition("?")
                server.away_after -= 1
                status, answer = (503, {"code": "stopping", "message": "gone"})
                if server.away_after >= 0:
                    status, answer = 200, server.answer(path, dict(parse_qsl(query)))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True

    def put(self, conversation: str | None, number: int, sealed: int) -> str:
        self.logs[conversation] = log_of(number)
        head = start_of(EventLog("acme", conversation or "").digest)
        for event in self.logs[conversation][:sealed]:
            head = after(head, event)
        self.seals[conversation] = (sealed, head.hex())
        return head.hex()

    def answer(self, path: str, query: dict[str, str]) -> Any:
        conversation = query.get("conversation")
        if path == "/v1/events/seal":
            sealed, head = self.seals.get(conversation, (0, ""))
            return {"sealed": sealed, "head": head or None, "at": None}
        if path == "/v1/events":
            behind, log = int(query["after"]), self.logs.get(conversation, [])
            return {"events": [e for e in log if e["seq"] > behind], "last": len(log)}
        self.asked_since = query.get("since")
        start = int(query.get("cursor", "0-0").partition("-")[0])
        told = [{**e, "conversation": c} for c, (sealed, _) in self.seals.items() for e in self.logs[c][:sealed]]
        return {
            "events": told[start : start + self.page],
            "cursor": f"{min(len(told), start + self.page)}-0",
            "more": start + self.page < len(told),
        }

    def run(self, *arguments: str) -> int:
        return main(["events", *arguments, "--url", f"http://127.0.0.1:{self.server.server_port}", "--key", "dev"])


@pytest.fixture
def logs() -> Iterator[LogServer]:
    made = LogServer()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def test_p7_6_verify_says_the_head_and_what_is_not_sealed_yet(logs, capsys):
    """7.6"""
    head = logs.put("c-1", 7, 5)
    assert logs.run("verify", "acme", "c-1") == 0
    assert capsys.readouterr().out == f"acme c-1: 5 sealed, 2 not yet; head {head}\n"
    assert logs.run("verify", "acme", "c-1", "--json", "--expect", head) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["sealed"], said["unsealed"], said["head"], said["wrong"]) == (5, 2, head, [])


@pytest.mark.parametrize("name", [("acme", "c-11"), ("acne",)])
def test_p7_6_verify_of_a_log_that_is_not_there_assures_of_nothing(logs, capsys, name):
    """7.6: its name may be misspelt, or all of it be gone."""
    assert logs.run("verify", *name) == 2
    assert f"{' '.join(name)} has no events" in capsys.readouterr().err


def test_p7_6_verify_of_a_company_holds_every_log_that_its_feed_names(logs, capsys):
    """7.6"""
    logs.put(None, 2, 2)
    logs.put("c-1", 7, 5)
    logs.put("c-2", 4, 4)
    assert logs.run("verify", "acme") == 0
    assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == ["acme", "acme c-1", "acme c-2"]
    logs.logs["c-2"][1]["lease_s"] = 99
    assert logs.run("verify", "acme") == 1
    assert "acme c-2: WRONG: an event up to number 4 is not what was sealed" in capsys.readouterr().out


def test_p7_6_verify_knows_a_head_that_was_noted_and_one_that_is_of_no_beginning(logs, capsys):
    """7.6"""
    noted = logs.put("c-1", 3, 3)
    logs.put("c-1", 9, 9)
    assert logs.run("verify", "acme", "c-1", "--expect", noted) == 0
    assert logs.run("verify", "acme", "c-1", "--expect", "ab" * 32) == 1
    assert "not a beginning" in capsys.readouterr().out


def test_p7_6_verify_holds_a_log_to_what_was_exported_before(logs, capsys, tmp_path):
    """7.6: also where the log was written anew, seal and all; and names the event."""
    logs.put("c-1", 6, 6)
    kept = tmp_path / "kept.jsonl"
    assert logs.run("export", "acme", "--output", str(kept)) == 0
    capsys.readouterr()
    assert logs.run("verify", "acme", "--file", str(kept)) == 0
    own, conversation = capsys.readouterr().out.splitlines()
    assert own.endswith("; the copy has none of it")
    assert conversation.endswith("; all 6 of the copy are there")
    assert logs.run("verify", "acme", "c-1", "--json", "--file", str(kept)) == 0
    assert json.loads(capsys.readouterr().out)["copied"] == 6
    logs.put("c-1", 4, 4)
    logs.logs["c-1"][1]["lease_s"] = 99
    head = start_of(EventLog("acme", "c-1").digest)
    for event in logs.logs["c-1"]:
        head = after(head, event)
    logs.seals["c-1"] = (4, head.hex())
    assert logs.run("verify", "acme", "c-1") == 0
    capsys.readouterr()
    assert logs.run("verify", "acme", "c-1", "--file", str(kept)) == 1
    said = capsys.readouterr().out
    assert "event 2 differs from the copy" in said
    assert "event 5 of the copy is missing; event 6 of the copy is missing" in said


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"conversation": 5}, "line 2 is not an exported event"),
        ({"conversation": ["c-1"]}, "line 2 is not an exported event"),
        ({"conversation": ""}, "line 2 is not an exported event"),
        ({"seq": 0}, "line 2 is not an exported event"),
        ({"seq": 1.5}, "line 2 is not an exported event"),
        ({"seq": True}, "line 2 is not an exported event"),
        ({"seq": "2"}, "line 2 is not an exported event"),
        ({"company": "other"}, "line 2 is of another company"),
        ({"seq": 1}, "line 2 says otherwise than a line before it what event 1 is"),
        ({"lease_s": "\ud800"}, "line 2 is not an exported event"),
    ],
)
def test_p7_6_verify_takes_no_copy_for_one_that_it_cannot_hold_the_log_to(logs, capsys, tmp_path, changed, why):
    """7.6: what it passed over, every event of it would be said to be there unchanged."""
    logs.put("c-1", 3, 3)
    kept = tmp_path / "kept.jsonl"
    assert logs.run("export", "acme", "--output", str(kept)) == 0
    first, second, third = kept.read_text().splitlines()
    kept.write_text("\n".join([first, json.dumps({**json.loads(second), **changed}), third, first, ""]))
    assert logs.run("verify", "acme", "--file", str(kept)) == 2
    assert why in capsys.readouterr().err


def test_p7_6_verify_says_that_a_copy_has_nothing_of_a_conversation(logs, capsys, tmp_path):
    """7.6: and not that all of it is there."""
    logs.put("c-1", 3, 3)
    kept = tmp_path / "kept.jsonl"
    assert logs.run("export", "acme", "--output", str(kept)) == 0
    logs.put("c-2", 3, 3)
    assert logs.run("verify", "acme", "c-2", "--file", str(kept)) == 2
    assert "has no event of c-2" in capsys.readouterr().err
    kept.write_text(kept.read_text() * 2)  # a feed may say an event twice
    assert logs.run("verify", "acme", "c-1", "--file", str(kept)) == 0
    kept.write_text("")
    assert logs.run("verify", "acme", "--file", str(kept)) == 2
    assert "has no event" in capsys.readouterr().err


def test_verify_says_2_where_it_could_not_be_found_out(logs, capsys, tmp_path):
    """A gateway that is away, a file that is none, a head without its conversation."""
    logs.put("c-1", 6, 6)
    broken = tmp_path / "broken.jsonl"
    broken.write_text('{"seq": 1}\nnonsense\n')
    assert logs.run("verify", "acme", "--file", str(broken)) == 2
    assert "line 2 is not an exported event" in capsys.readouterr().err
    assert logs.run("verify", "acme", "--file", str(tmp_path / "none")) == 2
    assert logs.run("verify", "acme", "--expect", "ab" * 32) == 2
    logs.away_after = 1
    assert logs.run("verify", "acme", "c-1") == 2
    assert "503 stopping" in capsys.readouterr().err
    with pytest.raises(SystemExit) as wrong:
        logs.run("verify", "acme", "c-1", "--expect", "ab")
    assert wrong.value.code == 2


def test_p7_6_export_writes_each_sealed_event_once_and_says_where_to_go_on(logs, capsys):
    """7.6"""
    logs.put("c-1", 5, 4)
    logs.put("c-2", 2, 2)
    logs.put("c-1", 5, 4)
    assert logs.run("export", "acme") == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [(e["company"], e["conversation"], e["seq"]) for e in lines] == [
        *(("acme", "c-1", n) for n in range(1, 5)),
        *(("acme", "c-2", n) for n in range(1, 3)),
    ]
    assert err == "oncegate: 6 events; go on with --cursor 6-0\n"
    assert logs.run("export", "acme", "--cursor", "6-0") == 0
    assert capsys.readouterr().out == ""


def test_p7_6_an_export_that_breaks_off_goes_on_behind_its_last_page(logs, capsys):
    """7.6: together they have all of it, once."""
    logs.put("c-1", 8, 8)
    logs.away_after = 2
    assert logs.run("export", "acme") == 1
    first, err = capsys.readouterr()
    assert "broken off; go on with --cursor 6-0" in err
    logs.away_after = 100
    assert logs.run("export", "acme", "--cursor", "6-0") == 0
    both = (first + capsys.readouterr().out).splitlines()
    assert [json.loads(line)["seq"] for line in both] == list(range(1, 9))


def test_p7_6_an_event_that_the_feed_says_twice_is_exported_once(logs, capsys, monkeypatch):
    """7.6: at least once is what the feed promises."""
    logs.put("c-1", 4, 4)
    told = logs.answer

    def twice(path: str, query: dict[str, str]) -> Any:
        answer = told(path, query)
        if path.endswith("/feed"):
            answer["events"] = [*answer["events"], *answer["events"][:2]]
        return answer

    monkeypatch.setattr(logs, "answer", twice)
    assert logs.run("export", "acme") == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [1, 2, 3, 4]


def test_p7_6_an_exported_file_is_there_whole_or_not_at_all(logs, tmp_path, capsys):
    """7.6"""
    logs.put("c-1", 8, 8)
    logs.away_after = 2
    target = tmp_path / "events.jsonl"
    target.write_text("what stood before")
    assert logs.run("export", "acme", "--output", str(target)) == 1
    assert target.read_text() == "what stood before"
    assert [each.name for each in tmp_path.iterdir()] == ["events.jsonl"]
    assert "--cursor" not in capsys.readouterr().err
    logs.away_after = 100
    assert logs.run("export", "acme", "--output", str(target)) == 0
    assert len(target.read_text().splitlines()) == 8
    assert logs.run("export", "acme", "--output", str(tmp_path / "no" / "where")) == 1


def test_p7_6_an_export_to_a_pipe_or_a_device_is_written_there_and_takes_nothings_place(logs, tmp_path, capsys):
    """7.6: it has no contents that could be whole; a file that took its name would take it from everybody."""
    logs.put("c-1", 8, 8)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    assert logs.run("export", "acme", "--output", str(pipe)) == 0
    reader.join(30)
    assert [json.loads(line)["seq"] for line in read[0].splitlines()] == list(range(1, 9))
    assert pipe.is_fifo()
    assert [each.name for each in tmp_path.iterdir()] == ["pipe"]


def test_p7_6_an_export_to_a_link_is_there_whole_behind_it(logs, tmp_path):
    """7.6: `/dev/stdout` is one too, and stays one."""
    logs.put("c-1", 8, 8)
    link, kept = tmp_path / "link", tmp_path / "kept.jsonl"
    link.symlink_to(kept)
    for _ in range(2):  # there is nothing behind it yet; then there is
        assert logs.run("export", "acme", "--output", str(link)) == 0
        assert link.is_symlink()
        assert len(kept.read_text().splitlines()) == 8


def test_p7_6_an_export_of_a_conversation_has_its_unsealed_events_too(logs, capsys):
    """7.6: between the times that were asked for."""
    logs.put("c-1", 9, 4)
    between = ("--since", "2026-05-04T12:00:03Z", "--until", "2026-05-04T14:00:07+02:00")
    assert logs.run("export", "acme", "--conversation", "c-1", *between) == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [3, 4, 5, 6, 7]
    assert "--cursor 7" in err, "what was left out as too late is not passed over"
    assert logs.run("export", "acme", "--conversation", "c-1", "--cursor", "7") == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [8, 9]
    assert logs.run("export", "acme", "--conversation", "c-1", "--cursor", "7-0") == 1


def test_p7_6_an_export_up_to_a_time_goes_on_before_what_it_left_out(logs, capsys):
    """7.6: whoever goes on from the cursor that is said misses nothing."""
    logs.put("c-1", 8, 8)
    assert logs.run("export", "acme", "--until", "2026-05-04T12:00:05Z") == 0
    out, err = capsys.readouterr()
    assert [json.loads(line)["seq"] for line in out.splitlines()] == [1, 2, 3, 4, 5]
    assert err == "oncegate: 5 events; go on with --cursor 3-0\n"
    assert logs.run("export", "acme", "--cursor", "3-0") == 0
    assert [json.loads(line)["seq"] for line in capsys.readouterr().out.splitlines()] == [4, 5, 6, 7, 8]
    assert logs.run("export", "acme", "--until", "2026-05-04T12:00:01Z") == 0
    assert "go on as this began" in capsys.readouterr().err


@pytest.mark.parametrize("since", ["1066-05-04T12:00:00Z", "1969-12-31", "99999d"])
def test_an_export_since_before_all_time_has_everything(logs, capsys, since):
    """The gateway knows no time before 1970; whoever asks for it wants what there is."""
    logs.put("c-1", 4, 4)
    assert logs.run("export", "acme", "--since", since) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4
    assert logs.asked_since == "1970-01-01T00:00:00+00:00"


@pytest.mark.parametrize("said", ["yesterday", "12", "5y", "", "9999999999w"])
def test_a_time_that_is_none_is_refused_with_what_may_stand_there(logs, capsys, said):
    with pytest.raises(SystemExit):
        logs.run("export", "acme", "--since", said)
    assert "a time such as" in capsys.readouterr().err


def test_an_action_need_not_be_named_to_show_a_log(logs, capsys):
    """And a company may have the name of an action."""
    logs.put("c-1", 2, 0)
    for words in (["acme", "c-1"], ["show", "acme", "c-1"], ["--json", "acme", "c-1"]):
        assert logs.run(*words) == 0
        assert len(capsys.readouterr().out.splitlines()) == 2
    assert logs.run("show", "verify", "c-1") == 0


@pytest.mark.parametrize(
    "action", [("show", "acme", "c-1", "--after"), ("export", "acme", "--conversation", "c-1", "--cursor")]
)
def test_p7_6_who_has_seen_more_of_a_log_than_there_is_is_told_so(logs, capsys, action):
    """7.6: lost in a failover, or expired and begun anew; in silence what comes up to that number would be passed over."""
    logs.put("c-1", 3, 3)
    assert logs.run(*action, "4") == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "the log ends with event 3, before the 4" in err
    assert "go on with" not in err
    assert logs.run(*action, "3") == 0
