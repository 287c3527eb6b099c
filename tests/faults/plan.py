"""A history before it happens: who asks what and when, and which faults are waiting for them. Plain data, so that a
failing one can be made smaller by leaving things out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

COMPANY = "acme"
PATIENT = 9
"""Tries of one who waits as long as a limit tells it to: all of a crowd get their turn."""


class How(StrEnum):
    """Why a request is made, as the customer and the model would tell it."""

    NEW = "a new call"
    TWIN = "the same request twice at once"
    AGAIN = "the same request later"
    REISSUED = "the model issues it again under a new id"
    RERUN = "the turn is run again in a new attempt"
    RECYCLED = "an id recurs for another call in a later turn"
    RECURRING = "an id recurs for the same call in a later turn"
    SECOND = "a second one is wanted"
    MISUSED = "an id is given to another call in the same step"
    SUPERSEDED = "an earlier attempt goes on after a later one"
    NAMELESS = "a call without an id"
    SUBMITTED = "a runtime submits an effect"
    ANOTHER = "a runtime submits another under a new token"
    TAKEN_OVER = "another runtime runs the turn again"
    CHANGED = "a runtime submits other arguments under an id that waits for approval"


@dataclass(frozen=True)
class Ask:
    """One request and how long its sender keeps at it. `intent`: the one thing that the customer wanted."""

    at: float
    gateway: int
    conversation: str
    call: str | None
    tool: str
    sku: str
    turn: str | None
    step: int | None
    attempt: int | None
    intent: str
    how: How = How.NEW
    tries: int = 3
    patience: float = 8.0

    @property
    def group(self) -> tuple[str, str, str]:
        """What is identical to it in its conversation."""
        return self.conversation, self.tool, self.sku

    def __str__(self) -> str:
        place = "/".join(str(x) for x in (self.turn, self.step, self.attempt))
        return f"{self.conversation} {self.call} at {place}: {self.tool}({self.sku})"


@dataclass(frozen=True)
class Job:
    """One effect that a runtime runs itself (7.2). `reply` is what its work comes to, as a merchant's answer; `dies`:
    when the runtime is killed, and `back_s` later it resumes with the same token; 0: never."""

    at: float
    gateway: int
    conversation: str
    call: str | None
    kind: str
    target: str
    sku: str
    turn: str
    step: int | None
    attempt: int
    token: str
    intent: str
    how: How = How.SUBMITTED
    mode: str | None = None
    reply: str = "order"
    work_s: float = 0.05
    renews: bool = False
    naps_s: float = 0.0
    """In the midst of its work, before it renews."""
    sleeps_s: float = 0.0
    """Between its work and its word on it."""
    dies: str = ""
    back_s: float = 0.0
    tries: int = 4
    patience: float = 12.0

    @property
    def group(self) -> tuple[str, str, str]:
        return self.conversation, self.target, self.sku

    def __str__(self) -> str:
        place = "/".join(str(x) for x in (self.turn, self.step, self.attempt))
        return f"{self.conversation} {self.call or 'no id'} at {place}: {self.kind} {self.target}({self.sku}), {self.token}"


@dataclass(frozen=True)
class Approver:
    """Somebody who looks at what is pending, thinks for a while, and decides all of it (7.4). `times`: as often."""

    at: float
    gateway: int
    who: str
    grants: bool
    thinks_s: float = 0.0
    times: int = 1
    tries: int = 4
    patience: float = 8.0

    def __str__(self) -> str:
        return f"{self.who} {'grants' if self.grants else 'denies'}, {self.times} times, after {self.thinks_s:.3f}s"


class On(StrEnum):
    """What a fault waits for: the n-th of these, counted over the history."""

    CLAIM = "claim written"
    END = "end written"
    BIND = "id bound"
    DECIDE = "approval decided"
    REPORT = "report written"
    READ = "ledger read"
    COUNT = "limit counted"
    GIVE_BACK = "count given back"
    SEND = "request sent to a merchant"
    ASK = "question to a status endpoint"
    STEP = "step of a gateway"
    TIME = "moment"


@dataclass(frozen=True)
class Fault:
    """One fault: `at` is the number it waits for (of `on`, from 1), or seconds for TIME. `amount` is what its kind
    makes of it: seconds, writes, milliseconds; `what` a behaviour or a mistake."""

    kind: str
    on: On
    at: float
    gateway: int = 0
    amount: float = 0.0
    what: str = ""

    def __str__(self) -> str:
        parts = [f"{self.kind}: {self.on} {self.at:g}"]
        parts += [f"gateway {self.gateway}"] if self.on is On.STEP or "gateway" in self.kind else []
        parts += [f"{self.amount:g}"] if self.amount else []
        return ", ".join([*parts, *([self.what] if self.what else [])])


@dataclass(frozen=True)
class Plan:
    """One history. `waits`: claims wait for replicas, and count them (4.14); `status`: tools have a status
    endpoint, and merchants are asked (5.4)."""

    seed: int
    theme: str
    waits: bool
    gateways: int
    asks: tuple[Ask, ...]
    faults: tuple[Fault, ...]
    status: bool = False
    jobs: tuple[Job, ...] = ()
    approvers: tuple[Approver, ...] = ()
    policy: str = ""
    """The one that stands at first: a name in tests/faults/policies.py."""

    def lines(self) -> list[str]:
        durability = "claims wait for replicas" if self.waits else "nobody waits for replicas"
        durability += ", tools have a status endpoint" if self.status else ""
        durability += f", policy: {self.policy}" if self.policy else ""
        return [
            f"seed {self.seed} ({self.theme}), {self.gateways} gateways, {durability}",
            *(
                f"  ask   {ask.at:9.3f}s gateway {ask.gateway}: {ask} ({ask.how}; for {ask.intent})"
                for ask in self.asks
            ),
            *(
                f"  job   {job.at:9.3f}s gateway {job.gateway}: {job} ({job.how}; for {job.intent}; {job.reply}"
                f"{f'; dies {job.dies}' if job.dies else ''})"
                for job in self.jobs
            ),
            *(f"  {one.at:9.3f}s gateway {one.gateway}: {one}" for one in self.approvers),
            *(f"  fault {fault}" for fault in self.faults),
        ]
