"""`once` for asyncio, through SQLAlchemy's AsyncSession (asyncpg, psycopg, aiosqlite, aiomysql).

    store = AsyncSQLAlchemyStore(async_sessionmaker(engine))

    async with once_async(store, key, now=time.time) as work:
        if not work.done:
            work.db.add(Order(...))
            work.reply({"order_id": "O-1"})
    return work.answer.result

A `Shop` takes the store too: its tools are then `async def`, and it is served by `shop.asgi()`.

The rules are those of `once`, and so is the code: the same Work runs in a greenlet, and its database calls
await.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.util import await_only, greenlet_spawn

from merchant_sdk.call_status import CallStatus, call_status
from merchant_sdk.deciding import Answer
from merchant_sdk.keys import CallKey, RequestKey
from merchant_sdk.once import once
from merchant_sdk.store import Store
from merchant_sdk.stores.fit_sessions import refuse_open
from merchant_sdk.stores.records import Vendor
from merchant_sdk.stores.sqlalchemy import SQLAlchemyStore, SQLAlchemyTransaction
from merchant_sdk.stores.sqlalchemy_reading import reading_in
from merchant_sdk.work import Work


class AsyncSQLAlchemyStore:
    """`sessions` makes a new AsyncSession per transaction, such as an `async_sessionmaker`."""

    def __init__(self, sessions: Callable[[], AsyncSession], *, max_writers: int = 16) -> None:
        self.sync = _Sessions(sessions, max_writers)

    async def run(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """See `store.AsyncStore`."""
        return await greenlet_spawn(work, *arguments)

    def wait(self, awaitable: Awaitable[Any]) -> Any:
        """See `store.AsyncStore`."""
        return await_only(awaitable)

    async def create_table(self) -> None:
        """Make the table where it is missing."""
        await greenlet_spawn(self.sync.create_table)

    async def status(
        self, key: str, *, now: Callable[[], float], wait_s: float = 0.25, first_at: float | None = None
    ) -> CallStatus:
        """See `call_status`."""
        return await greenlet_spawn(call_status, self.sync, key, now=now, wait_s=wait_s, first_at=first_at)

    async def prune(self, before: float) -> int:
        """See `store.Store.prune`."""
        return await greenlet_spawn(self.sync.prune, before)


class _Transaction(SQLAlchemyTransaction):
    """The sync session's transaction; the merchant works with the async one around it."""

    def __init__(self, session: AsyncSession, vendor: Vendor, wait_s: float | None, wire: Any) -> None:
        super().__init__(session.sync_session, vendor, wait_s, wire)
        # Kept, for it must not be collected while its sync one is in use.
        self._async_session = session

    @property
    def db(self) -> Any:
        return self._async_session


class _Sessions(SQLAlchemyStore):
    """The sync store over the sync sessions inside the async ones. Only to be used in a greenlet."""

    def __init__(self, sessions: Callable[[], AsyncSession], max_writers: int) -> None:
        if not callable(sessions) or not isinstance(sessions(), AsyncSession):
            raise TypeError(
                "AsyncSQLAlchemyStore takes what makes sessions, AsyncSQLAlchemyStore(async_sessionmaker(engine)); "
                "SQLAlchemyStore takes a sessionmaker"
            )
        self._async_sessions = sessions
        super().__init__(lambda: sessions().sync_session, max_writers=max_writers)

    def begin(self, wait_s: float | None = None) -> _Transaction:
        return _Transaction(self._async_sessions(), self._vendor, wait_s, self._wire)

    @contextmanager
    def reading(self) -> Iterator[AsyncSession]:  # type: ignore[override]
        session = self._async_sessions()
        refuse_open(session.sync_session)
        with reading_in(session.sync_session, self._vendor):
            yield session


class AsyncWork:
    """See `work.Work`; `db` is an AsyncSession, and `bind` and `forget` are awaited."""

    def __init__(self, work: Work) -> None:
        self._work = work

    @property
    def db(self) -> AsyncSession:
        """See `Work.db`."""
        session: AsyncSession = self._work.db
        return session

    @property
    def done(self) -> bool:
        """See `Work.done`."""
        return self._work.done

    @property
    def answer(self) -> Answer:
        """See `Work.answer`."""
        return self._work.answer

    @property
    def request_key(self) -> RequestKey | None:
        """See `Work.request_key`."""
        return self._work.request_key

    @property
    def at(self) -> float:
        """See `Work.at`."""
        return self._work.at

    async def bind(self, key: RequestKey, *, order_again: str = "") -> bool:
        """See `Work.bind`."""
        return await greenlet_spawn(self._work.bind, key, order_again=order_again)

    async def forget(self, request_key: str) -> None:
        """See `Work.forget`."""
        await greenlet_spawn(self._work.forget, request_key)

    def reply(self, result: Any) -> None:
        """See `Work.reply`."""
        self._work.reply(result)

    async def __aenter__(self) -> Self:
        await greenlet_spawn(self._work.__enter__)
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return await greenlet_spawn(self._work.__exit__, exc_type, exc, trace)


def once_async(
    store: AsyncSQLAlchemyStore,
    key: CallKey | RequestKey,
    *,
    now: Callable[[], float],
    reply: Any = None,
    expect: RequestKey | None = None,
) -> AsyncWork:
    """See `once`."""
    if not isinstance(store, AsyncSQLAlchemyStore):
        raise TypeError(f"once_async is for an AsyncSQLAlchemyStore: for {type(store).__name__} it is `once`")
    sync: Store = store.sync
    return AsyncWork(once(sync, key, now=now, reply=reply, expect=expect))
