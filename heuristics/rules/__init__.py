"""The lint rules, one a file, in the order of their codes. A new rule is a file and a line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from heuristics.rules import (
    cart_without_on_repeat,
    confirmation_by_model,
    declared_against_name,
    duplicate_name,
    hint_contradicts_method,
    hint_contradicts_name,
    missing_description,
    missing_schema,
    money_as_float,
    mutating_not_covered,
    name_contradicts_method,
    names_alike,
    no_idempotency_contract,
    no_known_verb,
    opaque_dispatcher,
    open_schema,
    provider_limits,
    read_led_writes,
    read_taken_for_mutating,
    read_with_mutating_verb,
    text_for_id,
    unusable_schema,
    unused_waiver,
    waiver_without_reason,
)
from heuristics.rules.rule import Remark, Rule

__all__ = ["BY_CODE", "RULES", "Remark", "Rule"]

RULES: Final[tuple[Rule, ...]] = (
    waiver_without_reason.RULE,
    unused_waiver.RULE,
    mutating_not_covered.RULE,
    read_taken_for_mutating.RULE,
    read_with_mutating_verb.RULE,
    hint_contradicts_name.RULE,
    hint_contradicts_method.RULE,
    name_contradicts_method.RULE,
    opaque_dispatcher.RULE,
    no_known_verb.RULE,
    declared_against_name.RULE,
    no_idempotency_contract.RULE,
    cart_without_on_repeat.RULE,
    confirmation_by_model.RULE,
    provider_limits.RULE,
    names_alike.RULE,
    duplicate_name.RULE,
    read_led_writes.RULE,
    missing_schema.RULE,
    open_schema.RULE,
    missing_description.RULE,
    text_for_id.RULE,
    money_as_float.RULE,
    unusable_schema.RULE,
)
BY_CODE: Final[Mapping[str, Rule]] = MappingProxyType({rule.code: rule for rule in RULES})
