"""The bytes that are sent: what a gateway sends, and each way to get it wrong (docs/merchants/protocol.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from gateway.adapters.signing import sign_headers
from gateway.commands.merchant_check.target import FRESH, Target

Headers = tuple[tuple[str, str], ...]
FALSE_SECRET: Final = b"no merchant was ever given this!"
CALL_HEADERS: Final[Headers] = (("Content-Type", "application/json"), ("Accept-Encoding", "identity"))


@dataclass(frozen=True, slots=True)
class Sealed:
    """One request, ready to be sent. `key` is what it is signed under."""

    url: str
    key: str
    headers: Headers
    body: bytes

    def without(self, *names: str) -> Sealed:
        return replace(self, headers=tuple(pair for pair in self.headers if pair[0] not in names))

    def with_header(self, name: str, value: str) -> Sealed:
        return replace(self, headers=(*self.without(name).headers, (name, value)))

    def header(self, name: str) -> str:
        return dict(self.headers)[name]


class Writer:
    """Makes requests for one target. `fresh` gives a new word each time, `now` Unix seconds."""

    def __init__(self, target: Target, fresh: Callable[[], str], now: Callable[[], float]) -> None:
        self._target = target
        self._now = now
        self.fresh = fresh

    def call(self, arguments: str | None = None, *, conversation: str | None = None, padded: bool = False) -> Sealed:
        """A new call of a new customer. `padded` doubles the body with spaces, so that half of it is all of it to
        whoever does not count."""
        word = self.fresh()
        text = (arguments or self._target.arguments).replace(FRESH, word)
        body = self._body(self._target.tool, text, conversation or f"check-{word}")
        return self.seal(f"check{word}", body + b" " * (len(body) * padded))

    def seal(self, key: str, body: bytes, *, age_s: int = 0, forged: bool = False) -> Sealed:
        """A call's body under a key, signed `age_s` seconds ago."""
        secrets = [FALSE_SECRET] if forged else self._target.secrets
        signed = sign_headers(secrets, key, int(self._now()) - age_s, body)
        return Sealed(self._target.url, key, (*CALL_HEADERS, ("Idempotency-Key", key), *signed), body)

    def again(
        self, call: Sealed, *, arguments: str | None = None, conversation: str | None = None, age_s: int = 0
    ) -> Sealed:
        """The same key, signed anew; with another cart or customer where one is given."""
        body = call.body
        if arguments is not None or conversation is not None:
            said = json.loads(body)
            text = self._arguments_of(body) if arguments is None else arguments.replace(FRESH, self.fresh())
            body = self._body(said["tool"], text, conversation or said["context"]["conversation"])
        return self.seal(call.key, body, age_s=age_s)

    def read(self, tool: str, arguments: str) -> Sealed:
        """A call of a tool that only reads: signed, without a key of its own."""
        sealed = self.seal(f"read{self.fresh()}", self._body(tool, arguments, "check-count"))
        return sealed.without("Idempotency-Key")

    def question(self, key: str, conversation: str | None = None) -> Sealed:
        """A status question about a key."""
        context = json.dumps(self._context(conversation or f"check-{self.fresh()}"))
        asked = f'{{"idempotency_key":{json.dumps(key)},"tool":{json.dumps(self._target.tool)},"context":{context}'
        body = f'{asked},"first_at":{int(self._now())}}}'
        sealed = self.seal(f"status{self.fresh()}", body.encode()).without("Idempotency-Key")
        return replace(sealed, url=self._target.status_url or "")

    def _body(self, tool: str, arguments: str, conversation: str) -> bytes:
        context = json.dumps(self._context(conversation))
        return f'{{"tool":{json.dumps(tool)},"arguments":{arguments},"context":{context}}}'.encode()

    def _context(self, conversation: str) -> dict[str, object]:
        who = {"company": self._target.company, "conversation": conversation}
        return {**who, "turn": "t-1", "tool_call_id": "call_1", "attempt": 1}

    @staticmethod
    def _arguments_of(body: bytes) -> str:
        text = body.decode()
        return text[text.index('"arguments":') + len('"arguments":') : text.rindex(',"context":')]


def altered(call: Sealed) -> Sealed:
    """The body as another means it, under the signature of the first: whoever parses it sees a whole call."""
    return replace(call, body=call.body.replace(b'"turn": "t-1"', b'"turn": "t-2"'))
