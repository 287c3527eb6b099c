"""3.2: how a name falls into words."""

from __future__ import annotations

import pytest

from heuristics.words import last_segment, split, words_of_company


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("create_order", ["create", "order"]),
        ("create-order", ["create", "order"]),
        ("createOrder", ["create", "order"]),
        ("CreateOrder2", ["create", "order", "2"]),
        ("orders.create", ["orders", "create"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("listURLs", ["list", "urls"]),
        ("getBankAccountByV1Id", ["get", "bank", "account", "by", "v", "1", "id"]),
        ("dv360_get", ["dv", "360", "get"]),
        ("get&pay", ["get", "&", "pay"]),
        ("añadirPedido", ["anadir", "pedido"]),
        ("STRAẞE_ändern", ["strasse", "andern"]),
        ("ｃｒｅａｔｅ_x", ["create", "x"]),
        ("下单_get", ["下单", "get"]),
        ("...", []),
        ("", []),
        ("🛒", []),
    ],
)
def test_p3_2_names_split_into_lower_case_words(name: str, words: list[str]) -> None:
    """3.2: snake, kebab, camel, dots and digits."""
    assert split(name) == words


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("orders.pay", "pay"),
        ("a/b/c_d", "c_d"),
        ("server__list_x", "list_x"),
        ("__init__", ""),
        ("create_order", ""),
        ("x_settings_get-y", "get-y"),
        ("create-order", ""),
        ("orders.", ""),
    ],
)
def test_p3_2_the_last_segment_follows_the_last_namespace_mark(name: str, segment: str) -> None:
    """3.2: dots, slashes, double underscores, and `_` where `-` joins the words."""
    assert last_segment(name) == segment


def test_p3_2_companies_share_whole_words_only() -> None:
    """3.2: `actual_` and `actually_` share nothing, and every name keeps a word of its own."""
    assert words_of_company(["actual_get", "actually_get"]) == []
    assert words_of_company(["a_b_c", "a_b_d", "a_b_e"]) == ["a", "b"]
    assert words_of_company(["a_b", "a_b_c"]) == ["a"]
    assert words_of_company(["a_b", "a_b"]) == []
