"""The client's methods for effects that this runtime runs itself, and for approvals (7.2, 7.4)."""

from __future__ import annotations

from typing import Any

from gateway.runtime.asking import Asking
from gateway.runtime.call import body_of, path_of
from gateway.runtime.effect import Effect, Standing, Submitted, Verdict, read_standing, read_submitted, read_verdict


class EffectCalls(Asking):
    """Every request here has an identity, so a lost reply is asked for again with the same bytes: a claim token is
    answered "yours", what was reported is answered as it stands, and a decision of the same principal as it was made
    (4.3, 7.2, 7.4)."""

    async def submit(self, effect: Effect, *, exact: bool = True) -> Submitted:
        """May this runtime run it, or what did it come to before? While another token holds it the gateway waits,
        then says 409 `call_in_flight`. `exact`: numbers in a result as Decimal, else as float.

        Raises Problem, NoAnswer, BadCall."""
        document, _ = await self._ask(
            "POST", path_of("v1", "effects"), body_of(effect.document()), identified=True, exact=exact
        )
        return self._read(read_submitted, document)

    async def complete(
        self, company: str, conversation: str, effect_id: str, claim_token: str, result: Any
    ) -> Standing:
        """It was done, and gave `result`: any JSON. Raises Problem: `outcome_conflict` where another outcome stands,
        `claim_lost` where the token is not (or no longer) one of the effect's."""
        return await self._report(company, conversation, effect_id, "complete", claim_token, {"result": result})

    async def fail(
        self, company: str, conversation: str, effect_id: str, claim_token: str, code: str, message: str
    ) -> Standing:
        """It was tried, and is certainly not done. Not for what nobody knows: let the lease lapse then."""
        error = {"error": {"code": code, "message": message}}
        return await self._report(company, conversation, effect_id, "fail", claim_token, error)

    async def renew(self, company: str, conversation: str, effect_id: str, claim_token: str) -> Standing:
        """Still at work: the lease counts anew. Raises Problem `claim_lost` once it has lapsed."""
        return await self._report(company, conversation, effect_id, "renew", claim_token)

    async def release(self, company: str, conversation: str, effect_id: str, claim_token: str) -> Standing:
        """It was not run at all; its `status` is then `absent`, or `indeterminate` if it was that before."""
        return await self._report(company, conversation, effect_id, "release", claim_token)

    async def approvals(self, company: str) -> list[dict[str, Any]]:
        """The company's open approvals, each with the call it is about. Pages are followed to the end."""
        found: list[dict[str, Any]] = []
        cursor: str | None = None
        while True:
            path = path_of("v1", "approvals", company=company, status="pending", cursor=cursor)
            document, _ = await self._ask("GET", path, None, identified=True)
            found += self._read(_page, document)
            cursor = document["cursor"]
            if cursor is None:
                return found

    async def approval(self, approval: str) -> dict[str, Any]:
        """One approval by its id, also after it was decided; `status` says how it stands."""
        document, _ = await self._ask("GET", path_of("v1", "approvals", approval), None, identified=True)
        return self._read(_object, document)

    async def grant(
        self, approval: str, *, customer_message: str | None = None, rationale: str | None = None
    ) -> Verdict:
        """Approve. The stored call is then run, once, by the gateway, and the verdict says what it came to.

        `customer_message`: the customer's own words, where a runtime decides for the customer: it may where the
        approval names `customer`, and only with them. Raises Problem: `approval_decided`, `approval_outdated` (the
        approval in its place is in `body`), `grant_refused`, 403."""
        return await self._decide(approval, "grant", customer_message, rationale)

    async def deny(
        self, approval: str, *, customer_message: str | None = None, rationale: str | None = None
    ) -> Verdict:
        """Refuse: it is not done, and its ids are told so from now on."""
        return await self._decide(approval, "deny", customer_message, rationale)

    async def _report(
        self,
        company: str,
        conversation: str,
        effect_id: str,
        what: str,
        claim_token: str,
        said: dict[str, Any] | None = None,
    ) -> Standing:
        whose = {"company": company, "conversation": conversation, "claim_token": claim_token}
        path = path_of("v1", "effects", effect_id, what)
        document, _ = await self._ask("POST", path, body_of(whose | (said or {})), identified=True)
        return self._read(read_standing, document)

    async def _decide(self, approval: str, what: str, customer_message: str | None, rationale: str | None) -> Verdict:
        words = {"customer_message": customer_message, "rationale": rationale}
        said = {name: text for name, text in words.items() if text is not None}
        path = path_of("v1", "approvals", approval, what)
        document, _ = await self._ask("POST", path, body_of(said), identified=True)
        return self._read(read_verdict, document)


def _page(document: object) -> list[dict[str, Any]]:
    page = _object(document)
    rows, cursor = page.get("approvals"), page.get("cursor")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise ValueError("not a list of objects")
    if cursor is not None and not isinstance(cursor, str):
        raise ValueError("the cursor is not text")
    return rows


def _object(document: object) -> dict[str, Any]:
    if not isinstance(document, dict):
        raise ValueError("not an object")
    return document
