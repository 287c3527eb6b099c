"""From a tool's JSON arguments to its function's parameters, and the JSON Schema that says what they may be."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from merchant_sdk.bounds import Schema, Shape, Unfit
from merchant_sdk.errors import Refused
from merchant_sdk.shapes import is_model, object_shape, shape_of

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """A tool's arguments. `whole` names the one parameter whose model is all of them."""

    shape: Shape
    schema: Schema
    defaults: Mapping[str, Any]
    whole: str | None = None


def signature_of(function: Callable[..., Any]) -> Signature:
    """The parameters after the first. A single one that is a model *is* the arguments, without its name.

    Raises TypeError at registration for a tool that could never be called: no first parameter for the work,
    positional-only or starred parameters, or an annotation that JSON cannot fill.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise TypeError(f"{function.__qualname__}: the first parameter takes the work")
    if _is_an_argument(hints.get(parameters[0].name, Any)):
        raise TypeError(
            f"{function.__qualname__}: the first parameter takes the work, and {parameters[0]} looks like an argument: "
            "put a parameter for the work before it"
        )
    fields: dict[str, tuple[Shape, bool]] = {}
    defs: dict[str, Schema] = {}
    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__qualname__}: {parameter} cannot be filled from named arguments")
        try:
            shape = shape_of(hints.get(parameter.name, Any), defs)
        except TypeError as unreadable:
            raise TypeError(f"{function.__qualname__}: {parameter.name}: {unreadable}") from None
        fields[parameter.name] = shape, parameter.default is parameter.empty
    defaults = {p.name: p.default for p in parameters[1:] if p.default is not p.empty}
    whole = next(iter(fields)) if len(fields) == 1 and is_model(hints.get(next(iter(fields)))) else None
    shape = fields[whole][0] if whole and not defaults else object_shape(fields, dict)
    schema = shape.schema | ({"$defs": defs} if defs else {})
    return Signature(shape, schema, defaults, None if defaults else whole)


def _is_an_argument(annotation: Any) -> bool:
    """Whether JSON could fill it. What the SDK hands in could be filled too, being dataclasses."""
    if annotation is Any or getattr(annotation, "__module__", "").partition(".")[0] == "merchant_sdk":
        return False
    try:
        shape_of(annotation, {})
    except (TypeError, NameError):
        return False
    return True


def read_arguments(signature: Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every keyword argument of the function, defaults filled in.

    Raises Refused with code `invalid_arguments`, naming the field.
    """
    try:
        read = signature.shape.read(dict(arguments), "")
    except Unfit as unfit:
        raise Refused("invalid_arguments", f"The tool cannot be called like this: {unfit}.") from None
    return {signature.whole: read} if signature.whole else {**signature.defaults, **read}
