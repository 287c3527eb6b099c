"""From an annotation to its JSON Schema (2020-12) and back from JSON values: one table of kinds.

Understood: str, bool, int, Decimal, float, None, Any, list, dict, `list[T]`, `dict[str, T]`, unions, Literal, Enum,
dataclasses, TypedDict, pydantic models (known by what they offer, never imported) and `Annotated` with `Arg`.
"""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from merchant_sdk.bounds import Arg, Schema, Shape, Unfit, bounded, is_number


def shape_of(annotation: Any, defs: dict[str, Schema]) -> Shape:
    """Schemas that are referred to are added to `defs`. Raises TypeError for what JSON cannot fill."""
    if annotation is Any:
        return Shape({}, lambda value, _: value)
    # Not by `in`: notes of an Annotated may have no hash.
    if typing.get_origin(annotation) is None and annotation in _PLAIN:
        return _PLAIN[annotation]
    for fits, make in _KINDS:
        if fits(annotation):
            try:
                return make(annotation, defs)
            except RecursionError:
                raise TypeError(f"cannot read {annotation!r} from JSON: it holds itself") from None
    raise TypeError(f"cannot read {annotation!r} from JSON")


def object_shape(fields: Mapping[str, tuple[Shape, bool]], make: Callable[[dict[str, Any]], Any]) -> Shape:
    """An object of named fields, each with whether it is required; others are refused."""
    schema: Schema = {"type": "object", "properties": {name: shape.schema for name, (shape, _) in fields.items()}}
    required = [name for name, (_, needed) in fields.items() if needed]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Unfit(path, "has the wrong type: it is an object")
        for name in value:
            if name not in fields:
                raise Unfit(_inside(path, str(name)[:64]), "is not known here")
        for name in required:
            if name not in value:
                raise Unfit(_inside(path, name), "is missing")
        values = {name: fields[name][0].read(given, _inside(path, name)) for name, given in value.items()}
        try:
            return make(values)
        except ValueError:
            # The merchant's own check (`__post_init__`). Its words may hold the value, so they are not repeated.
            raise Unfit(path or "the arguments", "does not fit") from None

    return Shape(schema, read)


def is_model(annotation: Any) -> bool:
    """Whether an annotation describes a whole object by fields of its own."""
    return _is_pydantic(annotation) or _is_dataclass(annotation) or typing.is_typeddict(annotation)


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _plain(word: str, schema: Schema, accepts: Callable[[Any], bool], make: Callable[[Any], Any]) -> Shape:
    def read(value: Any, path: str) -> Any:
        if not accepts(value):
            raise Unfit(path, f"has the wrong type: it is {word}")
        try:
            return make(value)
        except OverflowError:
            raise Unfit(path, "is larger than a number here can be") from None

    return Shape(schema, read)


def _is_whole(value: Any) -> bool:
    # In JSON 7 and 7.0 are one number (2.10).
    return is_number(value) and (isinstance(value, int) or value == value.to_integral_value())


def _same(value: Any) -> Any:
    return value


_PLAIN: dict[Any, Shape] = {
    str: _plain("a text", {"type": "string"}, lambda v: isinstance(v, str), _same),
    bool: _plain("true or false", {"type": "boolean"}, lambda v: isinstance(v, bool), _same),
    int: _plain("a whole number", {"type": "integer"}, _is_whole, int),
    Decimal: _plain("a number", {"type": "number"}, is_number, Decimal),
    float: _plain("a number", {"type": "number"}, is_number, float),
    list: _plain("a list", {"type": "array"}, lambda v: isinstance(v, list), _same),
    dict: _plain("an object", {"type": "object"}, lambda v: isinstance(v, dict), _same),
    type(None): _plain("null", {"type": "null"}, lambda v: v is None, _same),
    None: _plain("null", {"type": "null"}, lambda v: v is None, _same),
}


def _list(annotation: Any, defs: dict[str, Schema]) -> Shape:
    item = shape_of(typing.get_args(annotation)[0], defs)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, list):
            raise Unfit(path, "has the wrong type: it is a list")
        return [item.read(each, f"{path}[{number}]") for number, each in enumerate(value)]

    return Shape({"type": "array", "items": item.schema}, read)


def _mapping(annotation: Any, defs: dict[str, Schema]) -> Shape:
    names, values = typing.get_args(annotation)
    if names is not str:
        raise TypeError(f"cannot read {annotation!r} from JSON: the fields of an object are named by text")
    value_shape = shape_of(values, defs)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise Unfit(path, "has the wrong type: it is an object")
        return {name: value_shape.read(each, _inside(path, name[:64])) for name, each in value.items()}

    return Shape({"type": "object", "additionalProperties": value_shape.schema}, read)


def _union(annotation: Any, defs: dict[str, Schema]) -> Shape:
    options = [shape_of(option, defs) for option in typing.get_args(annotation)]

    others = [option for option in options if option.schema != {"type": "null"}]

    def read(value: Any, path: str) -> Any:
        unfit = []
        for option in options:
            try:
                return option.read(value, path)
            except Unfit as each:
                if option in others:
                    unfit.append(each)
        raise unfit[0] if len(others) == 1 else Unfit(path, "has the wrong type")

    return Shape({"anyOf": [option.schema for option in options]}, read)


def _choice(values: list[Any], make: Callable[[Any], Any]) -> Shape:
    if not all(isinstance(value, str | int | None) for value in values):
        raise TypeError("a choice is made of texts, whole numbers, true, false and null")

    def read(value: Any, path: str) -> Any:
        for each in values:
            if each == value and isinstance(each, bool) == isinstance(value, bool):
                return make(each)
        raise Unfit(path, "is none of the values that are allowed")

    return Shape({"enum": values}, read)


def _annotated(annotation: Any, defs: dict[str, Schema]) -> Shape:
    inner, *notes = typing.get_args(annotation)
    shape = shape_of(inner, defs)
    for note in notes:
        if isinstance(note, str):
            note = Arg(note)
        if isinstance(note, Arg):
            shape = bounded(shape, note)
        elif type(note).__module__.partition(".")[0] in ("annotated_types", "pydantic"):
            # Passed over, it would let in what the merchant thinks is kept out.
            raise TypeError(f"{note!r} is not enforced here: say it with Arg(...), or in a pydantic model")
    return shape


def _is_dataclass(annotation: Any) -> bool:
    return isinstance(annotation, type) and dataclasses.is_dataclass(annotation)


def _dataclass(annotation: Any, defs: dict[str, Schema]) -> Shape:
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = {
        each.name: (
            shape_of(hints[each.name], defs),
            each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING,
        )
        for each in dataclasses.fields(annotation)
        if each.init
    }

    def make(values: dict[str, Any]) -> Any:
        return annotation(**values)

    return object_shape(fields, make)


def _typed_dict(annotation: Any, defs: dict[str, Schema]) -> Shape:
    hints = typing.get_type_hints(annotation, include_extras=True)
    fields = {}
    for name, hint in hints.items():
        # Not by __required_keys__ alone: it does not see through annotations that are texts.
        said = typing.get_origin(hint)
        needed = said is typing.Required or (said is not typing.NotRequired and name in annotation.__required_keys__)
        bare = typing.get_args(hint)[0] if said in (typing.Required, typing.NotRequired) else hint
        fields[name] = shape_of(bare, defs), needed
    return object_shape(fields, _same)


def _is_pydantic(annotation: Any) -> bool:
    return isinstance(annotation, type) and hasattr(annotation, "model_json_schema")


def _pydantic(annotation: Any, defs: dict[str, Schema]) -> Shape:
    schema: Schema = annotation.model_json_schema()
    for name, definition in schema.pop("$defs", {}).items():
        if defs.setdefault(name, definition) != definition:
            raise TypeError(f"two models are called {name}")

    def read(value: Any, path: str) -> Any:
        try:
            return annotation.model_validate(value)
        except ValueError as wrong:  # pydantic's ValidationError is one
            if not hasattr(wrong, "errors"):
                raise
            first = wrong.errors(include_url=False, include_context=False, include_input=False)[0]
            where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
            raise Unfit(f"{path}{where}".lstrip(".") or "the arguments", f"does not fit: {first['msg']}") from None

    return Shape(schema, read)


_KINDS: list[tuple[Callable[[Any], bool], Callable[[Any, dict[str, Schema]], Shape]]] = [
    (lambda a: typing.get_origin(a) is typing.Annotated, _annotated),
    (lambda a: typing.get_origin(a) is list, _list),
    (lambda a: typing.get_origin(a) is dict, _mapping),
    (lambda a: typing.get_origin(a) in (typing.Union, types.UnionType), _union),
    (lambda a: typing.get_origin(a) is typing.Literal, lambda a, _: _choice(list(typing.get_args(a)), _same)),
    (
        lambda a: isinstance(a, type) and issubclass(a, enum.Enum),
        lambda a, _: _choice([each.value for each in a], a),
    ),
    (_is_pydantic, _pydantic),
    (_is_dataclass, _dataclass),
    (typing.is_typeddict, _typed_dict),
]
