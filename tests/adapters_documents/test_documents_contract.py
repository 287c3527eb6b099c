"""What every store of documents must do; the same on memory and on real Redis."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.adapters.redis_clients import open_client
from gateway.adapters.redis_commands import Commands
from gateway.adapters.redis_documents import CONTENT_KEY, VERSION_KEY, RedisDocuments
from gateway.adapters.redis_urls import LedgerUrl
from gateway.core.errors import LedgerUnavailable


async def test_an_empty_store_has_nothing_and_version_zero(documents: RedisDocuments) -> None:
    assert await documents.load() == {}
    assert await documents.version() == 0


async def test_what_is_written_comes_back_and_the_version_grows(documents: RedisDocuments) -> None:
    names = ["a", "", "ä\n\x00", '["tool","a:b","c"]', "{x}"]
    for number, name in enumerate(names):
        assert await documents.change(name, name.encode() + b"\x00\xff", None)
        assert await documents.version() == number + 1
    assert await documents.load() == {name: name.encode() + b"\x00\xff" for name in names}


@pytest.mark.parametrize(
    ("stands", "expected", "new"),
    [
        (None, b"1", b"2"),
        (b"1", None, b"2"),
        (b"1", b"2", b"3"),
        (b"1", b"", None),
        (b"", None, b"1"),
        (None, b"", b"1"),
    ],
)
async def test_a_change_of_something_else_than_what_stands_changes_nothing(
    documents: RedisDocuments, stands: bytes | None, expected: bytes | None, new: bytes | None
) -> None:
    """Also: an empty document is not an absent one."""
    if stands is not None:
        assert await documents.change("n", stands, None)
    version = await documents.version()
    assert not await documents.change("n", new, expected)
    assert await documents.load() == ({} if stands is None else {"n": stands})
    assert await documents.version() == version


async def test_a_removed_document_is_absent_and_may_be_written_again(documents: RedisDocuments) -> None:
    assert await documents.change("n", b"1", None)
    assert await documents.change("n", None, b"1")
    assert await documents.load() == {}
    assert await documents.change("n", b"2", None)
    assert await documents.version() == 3


async def test_of_many_who_change_one_document_at_once_one_succeeds(documents: RedisDocuments) -> None:
    won = await asyncio.gather(*(documents.change("n", b"%d" % each, None) for each in range(30)))
    assert sum(won) == 1
    assert await documents.load() == {"n": b"%d" % won.index(True)}
    assert await documents.version() == 1


async def test_k4_09_a_server_that_forgot_the_script_still_compares(
    documents: RedisDocuments, commands: Commands
) -> None:
    """K4-09: after SCRIPT FLUSH a change is still compared and made."""
    assert await documents.change("n", b"1", None)
    await commands.do("SCRIPT", "FLUSH")
    assert not await documents.change("n", b"2", None)
    assert await documents.change("n", b"2", b"1")


async def test_p4_15_both_keys_share_a_slot_and_never_expire(documents: RedisDocuments, commands: Commands) -> None:
    """4.15: what one script touches shares a cluster slot; documents have no life time."""
    await documents.change("n", b"1", None)
    assert CONTENT_KEY.partition(b"}")[0] == VERSION_KEY.partition(b"}")[0]
    assert [await commands.do("TTL", key) for key in (CONTENT_KEY, VERSION_KEY)] == [-1, -1]


async def test_a_ledger_that_is_away_is_an_error_and_never_an_empty_registry(tmp_path: Any) -> None:
    client = open_client(LedgerUrl.for_socket(tmp_path / "nobody"))
    front = Commands(client)
    away = RedisDocuments(front)
    for asked in (away.load(), away.version(), away.change("n", b"1", None)):
        with pytest.raises(LedgerUnavailable) as lost:
            await asked
        assert not lost.value.may_have_run
    await front.close()
    await client.aclose()
