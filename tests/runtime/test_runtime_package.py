"""The package as a whole: public names, what it may import, its example and its page."""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gateway.runtime
from gateway.runtime import Approval, EffectStopped, OncegateError
from gateway.runtime.exact_json import decode, decode_answer, encode
from gateway.runtime.model_request import NOISE
from gateway.runtime.resend import RULES

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "gateway" / "runtime"


def test_the_public_names_are_exactly_what_is_visible():
    """What is not in `__all__` is not there by accident either."""
    visible = {
        name
        for name, value in vars(gateway.runtime).items()
        if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    assert visible == set(gateway.runtime.__all__)
    assert len(gateway.runtime.__all__) == len(visible)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_the_package_is_a_leaf(path):
    """Architecture: only the standard library, aiohttp, and itself."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            names = [node.module]
        for name in names:
            top = name.split(".")[0]
            assert top in sys.stdlib_module_names or top == "aiohttp" or name.startswith("gateway.runtime.")


def test_every_error_is_drawn_in_the_tree():
    """The drawing in the docstring is the whole tree."""
    drawing = sys.modules["gateway.runtime.errors"].__doc__
    for kind in [OncegateError, *OncegateError.__subclasses__(), *EffectStopped.__subclasses__()]:
        assert kind.__name__ in drawing
        assert kind.__name__ in gateway.runtime.__all__


def test_p2_7_only_what_cannot_have_run_is_sent_again_without_identity():
    """2.7: the table itself says which second sends need a name."""
    assert {kind for kind, rule in RULES.items() if not rule.needs_identity} == {
        "not_connected", "unavailable", "rate_limited", "merchant_not_ready",
    }  # fmt: skip


@pytest.mark.parametrize(
    "text", ['{"a":[1,2.50,1E+3,-7,null,true,"\\u00e9"],"b":{},"c":[]}', "[]", "12345678901234567890.10"]
)
def test_p2_10_decoding_and_encoding_keep_every_digit(text):
    """2.10: numbers survive the round trip as written."""
    assert encode(decode(text)) == text


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e99999999999999999999", "[" * 100_000, "{", "1" * 5000])
def test_k2_09_text_that_is_not_json_is_one_kind_of_error(text):
    """K2-09, K6-14: whatever the bytes, ValueError and nothing else."""
    with pytest.raises(ValueError):
        decode(text)


async def test_the_ten_lines_of_the_page_are_the_example_and_run(played, key, monkeypatch):
    """The page starts with code that works."""
    example = ROOT / "examples" / "runtime_ten_lines.py"
    page = (ROOT / "docs" / "runtimes.md").read_text("utf-8")
    shown = page.split("```python\n", 1)[1].split("```", 1)[0].strip()
    assert shown in example.read_text("utf-8")
    monkeypatch.setenv("ONCEGATE_URL", played.url)
    monkeypatch.setenv("ONCEGATE_KEY", key)
    ran = runpy.run_path(str(example))
    text = await ran["answer"](ran["model"], "c-1", [{"role": "user", "content": "What can you do?"}], turn="t-1")
    assert text == "Tools: place_order, get_order, cancel_order"


async def test_the_second_block_of_the_page_runs(client):
    """What the page shows without the loop works as shown."""
    page = (ROOT / "docs" / "runtimes.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec(page.split("```python\n")[2].split("```", 1)[0], names)  # the project's own page
    assert await names["place_order"](client) == "Order MO-1001 placed."


@pytest.mark.parametrize("exact", [True, False])
def test_p4_10_an_answer_with_any_number_in_it_is_read(exact):
    """4.10: what a merchant writes into a result cannot make a done call, or a batch of them, look unknown."""
    text = '{"result":{"big":%s,"far":1e99999999999999999999},"status":"succeeded"}' % ("1" * 5_000)
    answer = decode_answer(text, exact=exact)
    assert answer["status"] == "succeeded"
    assert str(answer["result"]["big"]) == "1" * 5_000
    if exact:
        assert answer["result"]["far"] == "1e99999999999999999999"
    for broken in ("NaN", "[" * 100_000, "{"):
        with pytest.raises(ValueError):
            decode_answer(broken, exact=exact)


def block(number):
    """The page's code blocks, from 1."""
    page = (ROOT / "docs" / "runtimes.md").read_text("utf-8")
    names: dict[str, object] = {}
    exec(page.split("```python\n")[number].split("```", 1)[0], names)  # the project's own page
    return names


async def test_p7_2_the_resumable_block_of_the_page_goes_on_where_it_stopped(client, played):
    """7.2: as shown, a second run asks the model for nothing."""
    run_turn, asked = block(3)["run_turn"], []

    def model(messages, tools):
        asked.append(messages)
        return {"role": "assistant", "content": f"{len(tools)} tools"}

    for _ in range(2):
        assert await run_turn(client, model, [{"role": "user", "content": "hi"}], "t-1") == "3 tools"
    assert len(asked) == 1


async def test_p7_2_the_streaming_block_of_the_page_streams_and_replays(client, played):
    """7.2"""
    greet, asked, shown = block(4)["greet"], [], []

    async def ask(request):
        asked.append(request)
        for piece in ("Good ", "morning."):
            yield piece

    async def show(piece):
        shown.append(piece)

    for _ in range(2):
        assert await greet(client, ask, show) == "Good morning."
    assert (len(asked), shown) == (1, ["Good ", "morning.", "Good morning."])
    assert asked[0]["stream"] is True


async def test_p7_4_the_approval_block_of_the_page_grants(client, played):
    """7.4"""
    said = await block(5)["customer_said_yes"](client, Approval("ap-1"), "Yes, go ahead")
    assert said.startswith("succeeded: ")
    assert played.effects.decided == [("ap-1", "grant", {"customer_message": "Yes, go ahead"})]


def test_the_page_names_all_noise_and_every_way_an_effect_stops():
    """A table that lacks a row misleads."""
    page = (ROOT / "docs" / "runtimes.md").read_text("utf-8")
    assert [name for name in NOISE if f"`{name}`" not in page] == []
    assert [kind.__name__ for kind in EffectStopped.__subclasses__() if f"`{kind.__name__}" not in page] == []
