"""Keys: minted, found by their hash, revoked (api.md, 9.1, 9.3)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gateway.core.errors import Malformed, NotFound
from gateway.core.model import Role
from gateway.core.registry_documents import key_document


@pytest.mark.parametrize(("role", "letter"), [("runtime", "r"), ("merchant", "m"), ("operator", "o")])
async def test_a_key_is_minted_and_known_by_its_hash_only(place: Any, gateway: Any, role: str, letter: str) -> None:
    """9.3: what is stored does not hold the key."""
    id_, key = await gateway.keys.create(role=role, companies=["acme", "bravo", "acme"], principal="assistant")
    assert re.fullmatch(f"og_{letter}_[A-Za-z0-9_-]{{43}}", key)
    principal = gateway.registry.principal(key)
    assert (principal.name, principal.role, principal.key_id) == ("assistant", Role(role), id_)
    assert principal.companies == {"acme", "bravo"}
    stored = (await place.stored.load())[key_document(id_)]
    assert key not in stored.decode()
    assert key[5:] not in str(await gateway.keys.list())


async def test_keys_are_listed_without_anything_of_the_key(place: Any, gateway: Any) -> None:
    first, _ = await gateway.keys.create(role="runtime", companies=["*"], principal="a")
    place.clock.seconds += 1
    second, _ = await gateway.keys.create(role="operator", companies=["*"], principal="b")
    listed = await gateway.keys.list()
    assert [each["id"] for each in listed] == [first, second]
    assert listed[0] == {
        "id": first,
        "role": "runtime",
        "companies": ["*"],
        "principal": "a",
        "created_at": "2023-11-14T22:15:00.000Z",
    }


async def test_a_revoked_key_is_nobodys_here_at_once_and_elsewhere_within_a_second(place: Any, gateway: Any) -> None:
    id_, key = await gateway.keys.create(role="runtime", companies=["acme"], principal="a")
    other = place.gateway()
    await other.registry.refresh()
    assert other.registry.principal(key) is not None
    await gateway.keys.revoke(id_)
    assert gateway.registry.principal(key) is None
    place.clock.seconds += 1
    await other.registry.refresh()
    assert other.registry.principal(key) is None
    with pytest.raises(NotFound):
        await gateway.keys.revoke(id_)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"role": "root"}, ["role"]),
        ({"companies": []}, ["companies"]),
        ({"companies": ["*", "acme"]}, ["companies"]),
        ({"companies": ["a\nb"]}, ["companies"]),
        ({"principal": ""}, ["principal"]),
        ({"role": "x", "companies": [], "principal": "\x00"}, ["role", "companies", "principal"]),
    ],
)
async def test_everything_wrong_with_a_key_is_named_at_once(
    gateway: Any, changes: dict[str, Any], fields: list[str]
) -> None:
    with pytest.raises(Malformed) as refused:
        await gateway.keys.create(**{"role": "runtime", "companies": ["acme"], "principal": "a", **changes})
    assert [each["field"] for each in refused.value.details["fields"]] == fields
    assert await gateway.keys.list() == []
