"""`oncegate check-merchant` as it is typed: what it writes, its exit statuses, and what it refuses to begin with."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread
from types import ModuleType
from xml.etree import ElementTree

import pytest

from gateway.cli import main

DOSA = '{"item": "dosa", "quantity": 1}'


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch, careless: ModuleType) -> None:
    monkeypatch.setenv("SHOP_SECRET", careless.SECRET)


def typed(url: str, *more: str) -> list[str]:
    order = ["--tool", "place_order", "--arguments", DOSA]
    return ["check-merchant", url, *order, "--settle", "0.01", *more]


def test_the_report_says_what_failed_and_what_to_do(careless, capfd, tmp_path):
    """Exit status 1; text, JSON and page of one run agree, and none holds the secret."""
    files = ["--json", str(tmp_path / "r.json"), "--html", str(tmp_path / "r.html")]
    for moment_s in (0.05, 0.5, 5.0):  # the twins have to meet in it, on any machine
        with careless.CarelessShop("no_age_check", "twins_race", moment_s=moment_s) as shop:
            assert main(typed(shop.url, "--count-tool", "count_orders", "--only", "stale,twins", *files)) == 1
        text = capfd.readouterr().out
        told = json.loads((tmp_path / "r.json").read_text("utf-8"))
        page = (tmp_path / "r.html").read_text("utf-8")
        verdicts = {each["code"]: each["verdict"] for each in told["faults"]}
        if verdicts["twins"] == "failed":
            break
    assert verdicts == {"honest": "passed", "twins": "failed", "stale": "failed"}
    assert (told["passed"], told["failed"], told["exit_status"]) == (1, 2, 1)
    for each in told["faults"]:
        assert (each["code"] in text, each["code"] in page) == (True, True)
        assert all(row["ended_ms"] >= row["sent_ms"] >= 0 for row in each["history"])
    assert "do: Refuse what is over 300 seconds old." in text
    assert text.splitlines()[-1] == "1 passed, 2 failed, 0 not tried"
    for report in (text, json.dumps(told), page):
        assert careless.SECRET.removeprefix("whsec_") not in report


class Redirects(BaseHTTPRequestHandler):
    """As frameworks answer the path of a mount that lacks the slash at its end."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(307)
        self.send_header("Location", "/tools/")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing: a test's output is its own."""


@pytest.mark.parametrize(("more", "status"), [([], 1), (["--count-tool", "count_orders"], 2)])
def test_p5_2_a_redirect_is_told_with_where_it_leads(capfd, more, status):
    """5.2: no gateway follows one; whoever registered that address would have every order unknown."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            assert main(typed(f"http://127.0.0.1:{server.server_port}/tools", *more)) == status
        finally:
            server.shutdown()
            thread.join()
    said = capfd.readouterr()
    assert "307 (a redirect, which no gateway follows; if /tools/ takes calls, give and register that)" in (
        said.out + said.err
    )


def test_the_page_has_a_picture_of_each_failing_history_and_takes_no_markup_from_a_merchant(careless, tmp_path):
    """One SVG a failure, well-formed; what a merchant answers is text."""
    with careless.CarelessShop("no_key_check") as shop:
        url = f"{shop.url}/?<script>alert(1)</script>"
        main(typed(url, "--count-tool", "count_orders", "--only", "twice,twins", "--html", str(tmp_path / "r.html")))
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "<script" not in page
    HTMLParser().feed(page)
    pictures = ["<svg" + part.partition("</svg>")[0] + "</svg>" for part in page.split("<svg")[1:]]
    assert len(pictures) == 2
    for each in map(ElementTree.fromstring, pictures):
        assert len(each.findall("rect")) >= 3
        assert all(rect.findtext("title") for rect in each.findall("rect"))


def test_json_takes_the_place_of_the_text_on_standard_output(careless, capfd):
    """`--json -`."""
    with careless.CarelessShop() as shop:
        assert main(typed(shop.url, "--only", "twice", "--json", "-")) == 0
    told = json.loads(capfd.readouterr().out)
    assert (told["counted"], told["failed"]) == (False, 0)


def test_a_shop_that_is_not_there_cannot_be_checked(capfd):
    """Exit status 2, in a line that says what to do."""
    for more in ([], ["--count-tool", "count_orders"]):
        assert main(typed("http://127.0.0.1:9/", *more)) == 2
        said = capfd.readouterr()
        assert "start the shop first" in said.err
        assert (len(said.err.splitlines()), said.out) == (1, "")


class SpeaksNoTls(BaseRequestHandler):
    """Answers the first bytes of anything in plain text, and hears the rest out, so that the answer is read."""

    def handle(self) -> None:
        self.request.recv(1)
        self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
        while self.request.recv(65_536):
            pass


def test_a_shop_that_speaks_no_tls_is_not_called_absent(capfd):
    """It is there, under http://."""
    with ThreadingTCPServer(("127.0.0.1", 0), SpeaksNoTls) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert main(typed(f"https://127.0.0.1:{server.server_address[1]}/")) == 2
        server.shutdown()
    said = capfd.readouterr().err
    assert "is it http://?" in said
    assert "start the shop" not in said


def test_a_status_address_that_is_none_is_asked_after(careless, capfd):
    """The tombstone is not what is missing there."""
    with careless.CarelessShop() as shop:
        assert main(typed(shop.url, "--only", "status-void", "--status-url", f"{shop.url}/nowhere")) == 1
    assert "is --status-url the address of its status endpoint?" in capfd.readouterr().out


def test_a_secret_may_come_from_a_file(careless, capfd, tmp_path):
    """Several stand apart by white space, and all sign."""
    (tmp_path / "secret").write_text(f"whsec_{'B' * 32}\n{careless.SECRET}\n")
    with careless.CarelessShop() as shop:
        assert main(typed(shop.url, "--only", "honest", "--secret-file", str(tmp_path / "secret"))) == 0
        wrong = typed(shop.url, "--count-tool", "count_orders", "--only", "honest", "--secret-env", "OTHER_SECRET")
        assert main(wrong) == 2
    assert "$OTHER_SECRET" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        (["--arguments", "[1]"], "--arguments is a JSON object"),
        (["--arguments", "{"], "--arguments is a JSON object"),
        (["--arguments", '{"a":' * 5000], "--arguments is a JSON object"),
        (["--arguments", '{"a": NaN}'], "--arguments is a JSON object"),
        (["--other-arguments", '{"quantity": 1, "item": "dosa"}'], "same cart"),
        (["--only", "twins,twims"], "'twims'"),
        (["--status-url", "http://elsewhere.example/status"], "another host"),
        (["--count-url", "ftp://127.0.0.1/"], "http://"),
        (["--count-url", "http://a:b@127.0.0.1/"], "name or password"),
        (["--count-url", "http://127.0.0.1/", "--count-tool", "x"], "not both"),
        (["--secret-file", "/nonexistent/secret"], "--secret-file"),
        (["--timeout", "0"], "--timeout"),
        (["--timeout", "nan"], "--timeout"),
        (["--settle", "-1"], "--settle"),
        (["--html", "/nonexistent/r.html"], "no folder"),
        (["--tool", ""], "--tool is needed"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_is_sent(more, expected, careless, capfd):
    """Exit status 2; no order comes of a wrong option."""
    with careless.CarelessShop() as shop:
        assert main(typed(shop.url, *more)) == 2
        assert shop.orders == []
    said = capfd.readouterr().err
    assert expected in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("secret", ["whsec_n0t!base64", "whsec_ÿ", ""])
def test_a_secret_that_is_none_is_refused_without_being_shown(secret, careless, capfd, monkeypatch):
    """9.3."""
    monkeypatch.setenv("SHOP_SECRET", secret)
    assert main(typed("http://127.0.0.1:9/")) == 2
    assert not secret or secret.partition("_")[2] not in capfd.readouterr().err


def test_fresh_words_make_orders_of_one_cart_different(careless, capfd):
    """`{fresh}` is another word in each call, and digits go out as they were given."""
    with careless.CarelessShop() as shop:
        seen: list[object] = []
        shop.call, call = (lambda key, body: (seen.append(body["arguments"]), call(key, body))[1]), shop.call
        assert main(typed(shop.url, "--only", "apart", "--arguments", '{"buyer": "b-{fresh}", "total": 1.10}')) == 0
        assert main(typed(shop.url, "--only", "twice", "--arguments", '{"buyer": "b-{fresh}"}')) == 0
    words = [body["buyer"] for body in seen]  # type: ignore[index]
    assert len(set(words)) == 3
    assert words[-1] == words[-2] == words[-3]
    assert "{fresh}" not in "".join(words)


def test_the_plain_install_is_enough():
    """Of what is not in it, nothing is imported."""
    code = (
        "import sys; from gateway.cli import main; main(['check-merchant', '--list']); "
        "print(sorted({'redis', 'pydantic', 'starlette', 'msgspec', 'uvicorn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[-1] == "[]"
    assert any(line.startswith("twins ") for line in lines)
