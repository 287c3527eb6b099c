"""What the service asks of the world. Adapters implement these; tests hand in their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from gateway.core.conversation import Event, EventLog, View, Where, Writes
from gateway.core.outcome import Seen
from gateway.core.record import Effect


class Swap(msgspec.Struct, frozen=True):
    """`applied`: everything was written, and `view` is what now stands; else nothing was, and `view` is why."""

    applied: bool
    view: View


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event as the log keeps it: its number in the conversation, from 1, and its time (ms, ledger's clock)."""

    seq: int
    at_ms: int
    event: Event


class Page(msgspec.Struct, frozen=True):
    """Some effects, perhaps none, and the cursor that goes on from there (None: no more)."""

    effects: tuple[Effect, ...]
    cursor: str | None


class Line(msgspec.Struct, frozen=True):
    """One event for one conversation's log; `keep_ms` is how long the log stays."""

    log: EventLog
    event: Event
    keep_ms: int


class Ledger(Protocol):
    """Compare and swap over one conversation (4.15). Every method raises LedgerUnavailable; an error never reads
    as "nothing is there"."""

    @property
    def confirms(self) -> bool:
        """Whether claims wait for other servers, or for a disk (4.14)."""
        ...

    async def read(self, where: Where) -> View:
        """What stands there, with the ledger's time."""
        ...

    async def swap(self, where: Where, view: View, writes: Writes) -> Swap:
        """Write all of `writes` if nothing in `view` has changed, else nothing.

        Writes that claim (`writes.claims`) are applied only once as many servers hold them as the ledger was told to
        wait for (4.14). Too few: LedgerUnavailable with `may_have_run`, since the claim stands where it was written.
        """
        ...

    async def append(self, log: EventLog, events: Sequence[Event], keep_ms: int) -> None:
        """Add events that belong to no change of a record."""
        ...

    async def append_each(self, lines: Sequence[Line]) -> None:
        """Add one event each to many conversations, in one write; all or none of them may have been added when
        LedgerUnavailable is raised."""
        ...

    async def events(self, conversation: bytes, after: int, limit: int) -> list[LoggedEvent]:
        """Events numbered above `after`, oldest first."""
        ...

    async def last_event(self, conversation: bytes) -> int:
        """The number of the last event; 0 where there is none."""
        ...

    async def due(self, limit: int, cursor: str | None = None) -> Page:
        """Effects still executing whose lease has lapsed, over all conversations: of about `limit` that fell due those
        that can be read. A look goes on from the cursor behind it, whatever became of what it found."""
        ...

    async def unknown(self, company: str | None, cursor: str | None, limit: int) -> Page:
        """Indeterminate effects of one company, or (None) of all; a bounded look: a page may hold fewer than `limit`,
        or none, and still have a cursor."""
        ...

    async def pending(self, company: str, cursor: str | None, limit: int) -> Page:
        """A company's held effects, in the same way; those that fell due and are not ended yet among them."""
        ...

    async def named(self, conversation: bytes, effect: bytes) -> Effect | None:
        """The record that an approval's name leads to: the first bytes of its conversation's digest, and of its
        effect's id. Of another company's too: who may see it is for the caller to judge."""
        ...

    async def ready(self) -> None:
        """Returns if a claim could be written now, and confirmed by as many servers as it has to be (4.14)."""
        ...


class Seal(msgspec.Struct, frozen=True):
    """How far a log is sealed (7.6). `sealed`: the number of the last event that the seal covers; `told`: that of the
    last one which the company's feed has; `at_ms`: when the last sealed one happened; `head`: the hash after it, 32
    bytes."""

    sealed: int
    told: int
    at_ms: int
    head: bytes


class Looked(msgspec.Struct, frozen=True):
    """What stands: a log's seal, and all events behind it, oldest first."""

    seal: Seal | None
    events: list[LoggedEvent]


class Resealing(msgspec.Struct, frozen=True):
    """Put `now` in place of `was`, if that still stands. `now` is None for a log that is gone."""

    log: EventLog
    was: Seal | None
    now: Seal | None


class News(msgspec.Struct, frozen=True):
    """What a company's feed is to be told: these events of a log are sealed. Lines older than `keep_ms` go."""

    log: EventLog
    first: int
    last: int
    keep_ms: int


class Told(msgspec.Struct, frozen=True):
    """A line of a company's feed: these events of a conversation ("": the company's own) are sealed. `place` is where
    the feed has it, `milliseconds-number`, by the ledger's clock."""

    place: str
    conversation: str
    first: int
    last: int


class Seals(Protocol):
    """Seals of event logs, and the companies' feeds. Raises LedgerUnavailable."""

    async def unsealed(self, limit: int, cursor: str | None) -> tuple[list[EventLog], str | None]:
        """About so many logs that have had events for some seconds which are not sealed, or not told; and the cursor
        behind them."""
        ...

    async def seal(self, conversation: bytes) -> Seal | None:
        """The seal of a log, by its conversation's digest."""
        ...

    async def look(self, logs: Sequence[EventLog], limit: int) -> Iterable[Looked | None]:
        """Each log's seal and the events behind it, unpacked as it is come to; None for one that has to be read by
        itself: with more of them than `limit`, with one of an effect that began long before, or not to be read by this
        gateway."""
        ...

    async def put(self, changes: Sequence[Resealing]) -> list[bool]:
        """Replace each seal; False where it was another that stood. Where all events are sealed and told, the log is
        not listed any more. Some may have been replaced when this raises."""
        ...

    async def tell(self, news: Sequence[News]) -> None:
        """Add lines to their companies' feeds, in this order. Some may have been added when this raises."""
        ...

    async def told(self, company: str, after: str, limit: int) -> list[Told]:
        """Lines of the feed from a place on, oldest first; from behind it if it begins with "("."""
        ...


class MerchantRequest(msgspec.Struct, frozen=True):
    """One POST to a merchant: everything but the deadline, headers signed already."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    company: str = ""
    """Whose it is: two companies never share a connection, also where one host serves both (9.1)."""

    def __repr__(self) -> str:
        return "MerchantRequest(..)"  # its URL may hold a secret, its headers are signatures


class Merchant(Protocol):
    """One exchange with a merchant: sent once, judged by nobody here."""

    async def send(self, request: MerchantRequest, *, deadline_s: float) -> Seen:
        """Send and say what was seen; never raises for what the merchant or the network does."""
        ...


class Signer(Protocol):
    """Standard Webhooks headers over the exact bytes (6)."""

    def __call__(
        self, secrets: Sequence[str], message_id: str, timestamp_s: int, body: bytes
    ) -> list[tuple[str, str]]: ...


class Counter(msgspec.Struct, frozen=True):
    """One limit's counter (7.5): in whole steps, since a counter that rounds would let a cent through."""

    key: bytes
    amount: int
    most: int
    window_ms: int


class Taken(msgspec.Struct, frozen=True):
    """What was asked of a counter. Granted: `since` names the window that it was counted in, for giving it back; else
    `wait_ms` is how long that window still lasts."""

    granted: bool
    since: int
    wait_ms: int


class Counters(Protocol):
    """Rate limits, counted for all gateways at once. Raises LedgerUnavailable."""

    async def take(self, counter: Counter) -> Taken:
        """Count it if there is room, else nothing: one atomic step with the window's end."""
        ...

    async def give_back(self, counter: Counter, taken: Taken) -> None:
        """What was counted came to nothing; a window that has ended since is left alone."""
        ...


class Clock(Protocol):
    """Time, handed in. `monotonic` for durations and leases, `wall_ms` for what people and merchants read."""

    def monotonic(self) -> float: ...
    def wall_ms(self) -> int: ...
    async def sleep(self, seconds: float) -> None: ...


class Randomness(Protocol):
    """Where tokens come from."""

    def token(self) -> bytes:
        """16 bytes nobody can guess."""
        ...


class Documents(Protocol):
    """Small named JSON documents that change seldom: companies, tools, keys, secrets."""

    async def load(self) -> dict[str, bytes]:
        """All of them, by name."""
        ...

    async def version(self) -> int:
        """A number that grows with every change."""
        ...

    async def change(self, name: str, content: bytes | None, expected: bytes | None) -> bool:
        """Write (None: remove) if what stands is still `expected`; False if it is not."""
        ...
