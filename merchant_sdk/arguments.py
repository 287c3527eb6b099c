"""From a tool's JSON arguments to its function's parameters, checked against plain annotations."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from merchant_sdk.errors import Refused

# What each annotation accepts from JSON, where 1 and 1.0 are the same number (2.10).
_READERS: dict[Any, Callable[[Any], Any]] = {}

_MISSING = object()
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """The parameters after the first, with resolved annotations.

    Raises TypeError at registration for a tool that could never be called: no first parameter for the work,
    positional-only or starred parameters, or an annotation that JSON cannot fill.
    """
    hints = typing.get_type_hints(function)
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters or parameters[0].kind not in _POSITIONAL:
        raise TypeError(f"{function.__qualname__}: the first parameter takes the work")
    taken = []
    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__qualname__}: {parameter} cannot be filled from named arguments")
        annotation = hints.get(parameter.name, Any)
        for option in _options(annotation):
            if option is not Any and option not in _READERS:
                raise TypeError(f"{function.__qualname__}: cannot read {parameter.name} as {option!r} from JSON")
        taken.append(parameter.replace(annotation=annotation, kind=parameter.KEYWORD_ONLY))
    return inspect.Signature(taken)


def read_arguments(signature: inspect.Signature, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Every keyword argument of the function, defaults filled in.

    Raises Refused with code `invalid_arguments`, naming the argument.
    """
    unknown = sorted(set(arguments) - set(signature.parameters))
    if unknown:
        raise _invalid(f"unknown argument {unknown[0][:64]!r}")
    ready: dict[str, Any] = {}
    for name, parameter in signature.parameters.items():
        if name not in arguments:
            if parameter.default is parameter.empty:
                raise _invalid(f"{name} is missing")
            ready[name] = parameter.default
            continue
        value = _read(parameter.annotation, arguments[name])
        if value is _MISSING:
            raise _invalid(f"{name} has the wrong type")
        ready[name] = value
    return ready


def _options(annotation: Any) -> tuple[Any, ...]:
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    options = typing.get_args(annotation) if union else (annotation,)
    return tuple(typing.get_origin(option) or option for option in options)


def _read(annotation: Any, value: Any) -> Any:
    for option in _options(annotation):
        read = value if option is Any else _READERS[option](value)
        if read is not _MISSING:
            return read
    return _MISSING


def _invalid(reason: str) -> Refused:
    return Refused("invalid_arguments", f"The tool cannot be called like this: {reason}.")


def _is(kind: type) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, kind) else _MISSING


def _number(value: Any) -> Any:
    return value if isinstance(value, int | Decimal) and not isinstance(value, bool) else _MISSING


def _int(value: Any) -> Any:
    number = _number(value)
    if isinstance(number, Decimal):
        return int(number) if number == number.to_integral_value() else _MISSING
    return number


def _decimal(value: Any) -> Any:
    number = _number(value)
    return number if number is _MISSING else Decimal(number)


def _float(value: Any) -> Any:
    number = _number(value)
    return number if number is _MISSING else float(number)


_READERS |= {str: _is(str), bool: _is(bool), int: _int, Decimal: _decimal, float: _float}
_READERS |= {list: _is(list), dict: _is(dict), type(None): _is(type(None))}
