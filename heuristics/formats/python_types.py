"""From annotations in a syntax tree to JSON Schema, as far as can be read without running anything. What cannot be
read is `{}`: any value."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["Types", "argument_schema", "last_name"]

_SIMPLE: Final[Mapping[str, Mapping[str, Any]]] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "Decimal": {"type": "number", "format": "decimal"},
    "None": {"type": "null"},
    "dict": {"type": "object"},
    "Dict": {"type": "object"},
    "Mapping": {"type": "object"},
    "list": {"type": "array"},
    "List": {"type": "array"},
    "Sequence": {"type": "array"},
    "tuple": {"type": "array"},
    "set": {"type": "array"},
    "bytes": {"type": "string"},
    "datetime": {"type": "string", "format": "date-time"},
    "date": {"type": "string", "format": "date"},
    "time": {"type": "string", "format": "time"},
    "UUID": {"type": "string", "format": "uuid"},
    "EmailStr": {"type": "string", "format": "email"},
    "AnyUrl": {"type": "string", "format": "uri"},
    "HttpUrl": {"type": "string", "format": "uri"},
}
_LISTS: Final = frozenset({"list", "List", "Sequence", "Iterable", "set", "Set", "frozenset", "tuple", "Tuple"})
_MAPS: Final = frozenset({"dict", "Dict", "Mapping", "MutableMapping"})
_THROUGH: Final = frozenset({"Required", "NotRequired", "Final", "ReadOnly"})
_BOUNDS: Final = {
    "ge": "minimum",
    "le": "maximum",
    "minimum": "minimum",
    "maximum": "maximum",
    "gt": "exclusiveMinimum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "description": "description",
    "sensitive": "x-sensitive",
}
_MODELS: Final = frozenset({"BaseModel", "TypedDict", "Struct"})
_ENUMS: Final = frozenset({"Enum", "StrEnum", "IntEnum"})
_DEEPEST: Final = 24


@dataclass(frozen=True, slots=True)
class Types:
    """The classes of a module, by name."""

    classes: Mapping[str, ast.ClassDef]


def last_name(node: ast.AST | None) -> str:
    """`Shop` of `Shop` and of `merchant_sdk.Shop`; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def argument_schema(annotation: ast.expr | None, types: Types, defs: dict[str, Any]) -> dict[str, Any]:
    """The schema of one argument; models of the module that it names are put into `defs`."""
    wanted: list[str] = []
    schema = _schema(annotation, types, wanted, 0)
    while wanted:
        name = wanted.pop()
        if name not in defs:
            defs[name] = {}
            defs[name] = _class(types.classes[name], types, wanted)
    return schema


def _schema(node: ast.expr | None, types: Types, wanted: list[str], depth: int) -> dict[str, Any]:
    if node is None or depth > _DEEPEST:
        return {}
    if isinstance(node, ast.Constant):
        if node.value is None:
            return {"type": "null"}
        return _schema(_quoted(node.value), types, wanted, depth + 1) if isinstance(node.value, str) else {}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return _any_of(_options(node), types, wanted, depth)
    if isinstance(node, ast.Subscript):
        return _subscript(last_name(node.value), node.slice, types, wanted, depth)
    name = last_name(node)
    if name in types.classes and _is_known(name, types):
        wanted.append(name)
        return {"$ref": f"#/$defs/{name}"}
    return dict(_SIMPLE.get(name, {}))


def _subscript(name: str, inside: ast.expr, types: Types, wanted: list[str], depth: int) -> dict[str, Any]:
    parts = list(inside.elts) if isinstance(inside, ast.Tuple) else [inside]
    if name == "Optional":
        return _any_of([*parts, ast.Constant(None)], types, wanted, depth)
    if name == "Union":
        return _any_of(parts, types, wanted, depth)
    if name == "Literal":
        return {"enum": [part.value for part in parts if isinstance(part, ast.Constant)]}
    if name == "Annotated" and parts:
        return {**_schema(parts[0], types, wanted, depth + 1), **_bounds(parts[1:])}
    if name in _THROUGH:
        return _schema(parts[0], types, wanted, depth + 1)
    if name in _LISTS:
        return {"type": "array", "items": _schema(parts[0], types, wanted, depth + 1)} if parts else {"type": "array"}
    if name in _MAPS:
        values = _schema(parts[1], types, wanted, depth + 1) if len(parts) > 1 else {}
        return {"type": "object", "additionalProperties": values or True}
    return {}


def _any_of(parts: list[ast.expr], types: Types, wanted: list[str], depth: int) -> dict[str, Any]:
    return {"anyOf": [_schema(part, types, wanted, depth + 1) for part in parts]}


def _options(node: ast.expr) -> list[ast.expr]:
    """`A | B | C` leans to the left as deep as it is long."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _quoted(text: str) -> ast.expr | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _bounds(parts: list[ast.expr]) -> dict[str, Any]:
    """What `Field(ge=0, description="…")` and a bare text say."""
    found: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            found["description"] = part.value
        if isinstance(part, ast.Call) and last_name(part.func) == "Arg" and part.args:
            found.update(_bounds(part.args[:1]))
        for each in part.keywords if isinstance(part, ast.Call) else ():
            if each.arg in _BOUNDS and isinstance(each.value, ast.Constant):
                found[_BOUNDS[each.arg]] = each.value.value
    return found


def _is_known(name: str, types: Types) -> bool:
    """Whether a class has its fields in its body: a model, a typed dictionary, a dataclass or an enumeration."""
    return bool(_ancestors(name, types) & (_MODELS | _ENUMS)) or any(
        last_name(each.func if isinstance(each, ast.Call) else each) == "dataclass"
        for each in types.classes[name].decorator_list
    )


def _ancestors(name: str, types: Types) -> set[str]:
    seen: set[str] = set()
    todo = [name]
    while todo:
        own = types.classes.get(todo.pop())
        names = [last_name(base) for base in own.bases] if own is not None else []
        todo += [each for each in names if each and each not in seen]
        seen.update(names)
    return seen


def _class(node: ast.ClassDef, types: Types, wanted: list[str]) -> dict[str, Any]:
    above = _ancestors(node.name, types)
    if above & _ENUMS:
        members = [each.value for each in node.body if isinstance(each, ast.Assign)]
        return {"enum": [each.value for each in members if isinstance(each, ast.Constant)]}
    properties: dict[str, Any] = {}
    required: list[str] = []
    own = [types.classes[name] for name in sorted(above) if name in types.classes and name != node.name]
    for each in [*own, node]:
        for line in each.body:
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
                name = line.target.id
                properties[name] = {
                    **_schema(line.annotation, types, wanted, 0),
                    **_bounds([line.value] if isinstance(line.value, ast.Call) else []),
                }
                if not _has_default(line.value):
                    required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _has_default(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call) and last_name(value.func) == "Field":
        ellipsis = bool(value.args) and isinstance(value.args[0], ast.Constant) and value.args[0].value is ...
        named = any(each.arg in ("default", "default_factory") for each in value.keywords)
        return named or (bool(value.args) and not ellipsis)
    return value is not None
