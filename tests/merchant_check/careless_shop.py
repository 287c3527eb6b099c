"""A shop on the standard library's server that does all that the protocol says, but for its one carelessness.

Nothing of the SDK is in it, so that what the check finds is the check's. Each carelessness is a word in `careless`,
looked at in the one place where the shop would have taken care.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import hmac
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

SECRET = "whsec_" + base64.b64encode(b"the check signs with this key...").decode()
TOLERANCE_S = 300


class Answer(Exception):
    """What is said, thrown from wherever it is known."""

    def __init__(self, status: int, body: Any) -> None:
        self.status, self.body = status, body


def no(status: int, code: str) -> Answer:
    return Answer(status, {"error": {"code": code, "message": f"No: {code}."}})


class CarelessShop(ThreadingHTTPServer):
    """`with CarelessShop("twins_race") as shop:` serves on `shop.url` from a thread of this process.

    `moment_s`: how long it leaves open what two requests may meet in.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, *careless: str, moment_s: float = 0.05) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.moment_s = moment_s
        self.careless = frozenset(careless)
        self.key = base64.b64decode(SECRET.removeprefix("whsec_"))
        self.lock = threading.RLock()
        self.orders: list[str] = []
        self.answers: dict[str, tuple[str, Answer]] = {}
        self.blocked: set[str] = set()
        self.verified: set[str] = set()
        self.running: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self) -> CarelessShop:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()

    def handle_error(self, *_: object) -> None:
        """Callers that have gone are no news."""

    def verified_key(self, headers: Any, body: bytes) -> str:
        """The key that the signature vouches for. Raises Answer."""
        key, message = headers.get("Idempotency-Key"), headers.get("webhook-id")
        stamp, signature = headers.get("webhook-timestamp"), headers.get("webhook-signature")
        if "no_signature_check" in self.careless or ("missing_signature_passes" in self.careless and not signature):
            return str(message or key)
        if None in (message, stamp, signature):
            raise no(401, "unsigned")
        if "decodes_signatures" in self.careless:
            base64.b64decode(signature.split(",")[1], validate=True).hex()
        digest = hmac.digest(self.key, f"{message}.{stamp}.".encode() + body, hashlib.sha256)
        entries = signature.split()
        if "first_signature_only" in self.careless:
            entries = entries[:1]
        good = any(
            hmac.compare_digest(b"v1," + base64.b64encode(digest), entry.encode("utf-8", "replace"))
            for entry in entries
        )
        if "remembers_signatures" in self.careless:
            good = good or signature in self.verified
            self.verified.update([signature] if good else [])
        if not good:
            raise no(401, "forged")
        age = time.time() - int(stamp)
        if (age > TOLERANCE_S and "no_age_check" not in self.careless) or (
            age < -TOLERANCE_S and "no_future_check" not in self.careless
        ):
            raise no(401, "out_of_time")
        if "trusts_unsigned_key" in self.careless and key is not None:
            return str(key)
        if key not in (None, message):
            raise no(401, "borrowed_key")
        return str(message)

    def status(self, asked: str) -> Answer:
        with self.lock:
            _, answer = self.answers.get(asked, ("", None))
            if answer is not None and answer.status < 300 and "status_knows_nothing" not in self.careless:
                reply = {} if "status_without_reply" in self.careless else {"result": answer.body}
                return Answer(200, {"status": "committed", **reply})
            if answer is None and "unknown_in_progress" in self.careless:
                return Answer(200, {"status": "in_progress"})
            if "void_not_binding" not in self.careless:
                tombstone = no(503 if "tombstone_503" in self.careless else 410, "void")
                self.answers.setdefault(asked, ("", tombstone))
            return Answer(200, {"status": "void"})

    def call(self, key: str, call: dict[str, Any]) -> Answer:
        if call["tool"] == "count_orders":
            return Answer(200, {"orders": self.orders} if "counts_as_list" in self.careless else len(self.orders))
        what = {"tool": call["tool"], "arguments": call["arguments"]}
        if "ignores_the_customer" not in self.careless:
            what |= {name: call["context"][name] for name in ("company", "conversation")}
        fingerprint = json.dumps(what, sort_keys=True)
        if "one_order_for_all" in self.careless:
            key = json.dumps(call["arguments"])
            fingerprint = ""
        if "conflict_runs" in self.careless:
            key += fingerprint
        if "refuses_twins" in self.careless:
            with self.lock:
                if key in self.running:
                    raise no(409, "in_progress")
                self.running.add(key)
            time.sleep(self.moment_s)
            with self.lock:
                self.running.discard(key)
                return self._once(key, fingerprint, call)
        if "twins_race" in self.careless:
            return self._once(key, fingerprint, call)
        with self.lock:
            return self._once(key, fingerprint, call)

    def _once(self, key: str, fingerprint: str, call: dict[str, Any]) -> Answer:
        first, answer = self.answers.get(key, ("", None))
        if answer is not None and "no_key_check" not in self.careless:
            return self._repeat(key, first, fingerprint, answer)
        if "twins_race" in self.careless:
            time.sleep(self.moment_s)
        answer = self._work(call)
        if answer.status != 429 and not {"commit_after_reply", "key_after_reply"} & self.careless:
            self.answers[key] = (fingerprint, answer)
        return answer

    def _repeat(self, key: str, first: str, fingerprint: str, answer: Answer) -> Answer:
        if first and first != fingerprint and "conflict_gets_the_first_order" not in self.careless:
            if "forgets_key_on_conflict" in self.careless:
                del self.answers[key]
            if "conflict_leaks" in self.careless:
                return Answer(422, {"error": {"code": "conflict", "message": "Not this."}, "first": answer.body})
            return no(409 if "conflict_409" in self.careless else 422, "conflict")
        if answer.status >= 300:
            if "redoes_a_decline" in self.careless:
                return Answer(200, {"order_id": self._order("?")})
            return answer
        if "refuses_repeats" in self.careless:
            return no(409, "duplicate")
        if "marks_repeats_in_the_body" in self.careless:
            return Answer(200, {**answer.body, "repeat": True})
        return answer

    def _work(self, call: dict[str, Any]) -> Answer:
        customer, item = call["context"]["conversation"], call["arguments"].get("item")
        if customer in self.blocked:
            return no(422, "blocked")
        if item == "vada":
            if "blocks_after_a_decline" in self.careless:
                self.blocked.add(customer)
            if "decline_is_200" in self.careless:
                return Answer(200, {"error": "sold out"})
            status = {"decline_409": 409, "decline_500": 500, "decline_429": 429}
            return no(next((number for word, number in status.items() if word in self.careless), 422), "sold_out")
        if "orders_at_two_tables" in self.careless:
            self._order(customer)
        if "forgets_unheard" in self.careless:
            time.sleep(self.moment_s)
        number = f"order-{len(self.orders) + 1:06}"
        if "commit_after_reply" not in self.careless:
            number = self._order(customer)
        return Answer(500 if "error_after_commit" in self.careless else 200, {"order_id": number})

    def _order(self, customer: str) -> str:
        self.orders.append(customer)
        return f"order-{len(self.orders):06}"


class Handler(BaseHTTPRequestHandler):
    """Reads, asks the shop, answers."""

    protocol_version = "HTTP/1.1"
    server: CarelessShop

    def do_GET(self) -> None:
        self._say(Answer(200, len(self.server.orders)))

    def do_POST(self) -> None:
        careless = self.server.careless
        length = int(self.headers["Content-Length"])
        body = self.rfile.read1(length) if "one_read" in careless else self.rfile.read(length)
        key, call = "", {}
        try:
            whole = len(body) == length or "one_read" in careless
            if not whole and "takes_half_a_body" not in careless and "no_signature_check" not in careless:
                raise no(400, "cut")
            question = self.path.endswith("/status")
            open_door = (question and "unsigned_questions" in careless) or not whole
            key = str(self.headers["webhook-id"]) if open_door else self.server.verified_key(self.headers, body)
            call = json.loads(body)
            answer = self.server.status(call["idempotency_key"]) if question else self.server.call(key, call)
        except Answer as said:
            answer = said
        except Exception as wrong:
            answer = no(500, type(wrong).__name__)
        try:
            self._say(answer)
        except OSError:
            if "forgets_unheard" in careless:
                self.server.answers.pop(key, None)
            return
        if {"commit_after_reply", "key_after_reply"} & careless and call.get("tool") == "place_order":
            time.sleep(self.server.moment_s)
            if "commit_after_reply" in careless:
                self.server.orders.append("late")
            self.server.answers[key] = ("", answer)

    def _say(self, answer: Answer) -> None:
        html = "answers_html" in self.server.careless and answer.status == 200 and isinstance(answer.body, dict)
        body = b"<p>Thank you!</p>" if html else json.dumps(answer.body).encode()
        media = "text/html" if html else "application/json"
        careless = self.server.careless
        if answer.status == 200 and isinstance(answer.body, dict):
            if "answers_nan" in careless:
                body = json.dumps({**answer.body, "price": float("nan")}).encode()
            if "answers_octets" in careless:
                media = "application/octet-stream"
            if "answers_latin" in careless:
                media, body = "text/plain", "café".encode("latin-1")
        self.send_response(answer.status)
        if "answers_gzip" in careless and answer.status == 200 and isinstance(answer.body, dict):
            body = gzip.compress(body)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""
