"""Python modules that declare tools with the merchant SDK, read as text: nothing of them is imported or run."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, Final

from heuristics.declared_tool import DeclaredTool, Place
from heuristics.formats.limits import MAX_PYTHON_BYTES
from heuristics.formats.python_types import Types, argument_schema, last_name
from heuristics.formats.source import Spot, pointer_of
from heuristics.formats.unreadable import UnreadableSource, shown

__all__ = ["read", "signs"]

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_EXTRAS: Final = ("on_repeat", "idempotency", "timeout_s", "unavailable_means_not_executed")
_OF_THE_SDK: Final = frozenset(
    {"side_effecting", "key", "order_again", "authorise", "accept", "on_repeat", "idempotency"}
)
"""What only the SDK's decorator takes: tells it from others that are called `tool`."""
_DECORATOR: Final = re.compile(r"^[ \t]*@[\w.]+\.tool\b", re.MULTILINE)
_SDK: Final = re.compile(rf"\bmerchant_sdk\b|\b(?:{'|'.join(sorted(_OF_THE_SDK - {'key'}))})\s*=")


def signs(text: str) -> bool:
    """Whether a text could be such a module."""
    return _SDK.search(text) is not None and _DECORATOR.search(text) is not None


def read(text: str, path: str, *, forced: bool) -> list[DeclaredTool] | None:
    """The functions decorated with a shop's `tool`, in the order of the text; None if there are none.

    `forced`: any decorator called `tool` counts. Raises UnreadableSource for what Python would not compile.
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_PYTHON_BYTES:
        raise UnreadableSource(f"has {size:,} bytes of Python; at most {MAX_PYTHON_BYTES:,} are read", Place(path))
    tree = _parsed(text, path)
    module = _Module(text, path, tree)
    tools = [tool for function in module.functions for tool in module.tools_of(function, forced)]
    return tools or None


def _parsed(text: str, path: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as of an escape that is none: not of interest here
            return ast.parse(text)
    except SyntaxError as broken:
        spot = (broken.lineno or 1, max(broken.offset or 1, 1))
        raise UnreadableSource(f"is not valid Python: {shown(broken.msg, 200)}", Place(path, *spot)) from None
    except (RecursionError, MemoryError):
        raise UnreadableSource("is Python nested too deeply to read", Place(path)) from None
    except ValueError as broken:
        raise UnreadableSource(f"is not valid Python: {shown(str(broken), 200)}", Place(path)) from None


class _Module:
    def __init__(self, text: str, path: str, tree: ast.Module) -> None:
        self._path = path
        self._lines = re.split(r"\r\n|\r|\n", text)
        self._shops: set[str] = set()
        self._others: set[str] = set()
        self._uses_sdk = False
        classes: dict[str, ast.ClassDef] = {}
        self.functions: list[_Function] = []
        for node in ast.walk(tree):
            if isinstance(node, _Function):
                self.functions.append(node)
            elif isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, node)
            elif isinstance(node, ast.ImportFrom):
                self._uses_sdk |= (node.module or "").partition(".")[0] == "merchant_sdk"
            elif isinstance(node, ast.Import):
                self._uses_sdk |= any(each.name.partition(".")[0] == "merchant_sdk" for each in node.names)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self._note_shop(node)
        self.functions.sort(key=lambda function: (function.lineno, function.col_offset))
        self._types = Types(classes)

    def tools_of(self, function: _Function, forced: bool) -> Iterator[DeclaredTool]:
        for decorator in function.decorator_list:
            call = decorator if isinstance(decorator, ast.Call) else None
            named = call.func if call is not None else decorator
            if not isinstance(named, ast.Attribute) or named.attr != "tool":
                continue
            given = {each.arg: each.value for each in call.keywords if each.arg} if call is not None else {}
            shop = last_name(named.value)
            if (
                forced
                or shop in self._shops
                or (self._uses_sdk and shop not in self._others)
                or _OF_THE_SDK & set(given)
            ):
                yield self._tool(function, decorator, given)

    def _tool(self, function: _Function, decorator: ast.expr, given: Mapping[str, ast.expr]) -> DeclaredTool:
        name = _constant(given.get("name"))
        name_node = given["name"] if isinstance(name, str) and name else None
        # The keyword's line is the function's own; its name follows `def` or `async def`.
        after = len("async def ") if isinstance(function, ast.AsyncFunctionDef) else len("def ")
        own = (function.lineno, self._column(function.lineno, function.col_offset) + after)
        places = {"": self._place(self._spot(decorator))}
        places["/name"] = self._place(self._spot(name_node) if name_node is not None else own)
        described = _constant(given.get("description"))
        description = described if isinstance(described, str) else ast.get_docstring(function)
        if isinstance(described, str):
            places["/description"] = self._place(self._spot(given["description"]))
        elif description is not None:
            places["/description"] = self._place(self._spot(function.body[0]))
        # Left out, the SDK takes a tool for side-effecting.
        side_effecting = _constant(given["side_effecting"]) if "side_effecting" in given else True
        extras: dict[str, Any] = {}
        for key in _EXTRAS:
            value = _constant(given.get(key))
            if value is not None:
                extras[key] = value
        if "key" in given and _constant(given["key"], missing="") is not None:
            extras["key"] = last_name(given["key"]) or True
        schema = self._parameters(function, places)
        places["/parameters"] = places["/name"] if name_node is None else self._place(own)
        return DeclaredTool(
            name=name if isinstance(name, str) and name else function.name,
            place=places[""],
            format="python",
            description=description,
            parameters=schema,
            document=schema,
            side_effecting=side_effecting if isinstance(side_effecting, bool) else None,
            extras=extras,
            places=places,
        )

    def _parameters(self, function: _Function, places: dict[str, Place]) -> dict[str, Any]:
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        missing = [None] * (len(positional) - len(arguments.defaults))
        pairs: list[tuple[ast.arg, ast.expr | None]] = [
            *zip(positional, [*missing, *arguments.defaults], strict=True),
            *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
        ]
        pairs = pairs[1:] if positional else pairs  # the first takes the work
        properties: dict[str, Any] = {}
        required: list[str] = []
        defs: dict[str, Any] = {}
        for argument, default in pairs:
            schema = argument_schema(argument.annotation, self._types, defs)
            if default is None:
                required.append(argument.arg)
            elif isinstance(default, ast.Constant) and isinstance(default.value, str | bool | int | float):
                schema = {**schema, "default": default.value}
            properties[argument.arg] = schema
            pointer = "/parameters/properties" + pointer_of((argument.arg,))
            places[pointer] = self._place(self._spot(argument))
        closed = arguments.kwarg is None
        whole: dict[str, Any] = {"type": "object", "properties": properties, "required": required}
        if closed:
            whole["additionalProperties"] = False
        return {**whole, "$defs": defs} if defs else whole

    def _note_shop(self, node: ast.Assign | ast.AnnAssign) -> None:
        if isinstance(node.value, ast.Call):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            known = self._shops if last_name(node.value.func) == "Shop" else self._others
            known.update(filter(None, map(last_name, targets)))

    def _spot(self, node: ast.expr | ast.stmt | ast.arg) -> Spot:
        return node.lineno, self._column(node.lineno, node.col_offset)

    def _column(self, line: int, offset: int) -> int:
        """The tree counts bytes of UTF-8, a column characters."""
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        if text.isascii() or len(text) > 10_000:
            return offset + 1
        return len(text.encode("utf-8", "surrogatepass")[:offset].decode("utf-8", "ignore")) + 1

    def _place(self, spot: Spot) -> Place:
        return Place(self._path, *spot)


def _constant(node: ast.expr | None, *, missing: Any = None) -> Any:
    """What a literal says, or the lower-cased member of an enum (`OnRepeat.HOLD`); `missing` for other expressions."""
    if node is None:
        return missing
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr.isupper():
        return node.attr.lower()
    return missing
