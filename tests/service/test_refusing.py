"""Refusals in words: bounded, ended, and in one shape on the wire."""

from __future__ import annotations

from gateway.core.decisions import Refused
from gateway.service.refusing import invalid_arguments, problem_of, unknown_tool


def test_p8_a_message_about_many_arguments_names_five_and_counts_the_rest():
    """8: a model can correct them, and is not flooded; `fields` has them all."""
    problems = [{"field": f"/arguments/a{n}", "problem": "is required"} for n in range(9)]
    error = problem_of(invalid_arguments(problems))
    assert "/arguments/a4 is required; and 4 more." in error.message
    assert "a5" not in error.message
    assert error.details == {"fields": problems}


def test_p8_a_message_is_bounded_whatever_the_names_and_words_are():
    """8: names of fields are the caller's, and may be long."""
    problems = [{"field": "/arguments/" + "x" * 5_000, "problem": "y" * 5_000}] * 20
    assert len(invalid_arguments(problems).message) < 1_200


def test_p2_2_fields_that_differ_are_named_in_the_shape_of_all_others():
    """2.2: what the core names by pointer alone."""
    error = problem_of(Refused("tool_call_id_reused", "given to another call", ("/tool", "/arguments/sku")))
    named = [{"field": "/tool", "problem": "differs"}, {"field": "/arguments/sku", "problem": "differs"}]
    assert (error.code, error.details) == ("tool_call_id_reused", {"fields": named})


def test_a_tool_that_resembles_none_is_told_no_names():
    """An empty list says nothing; a name is written so that it cannot break the line."""
    error = problem_of(unknown_tool("acme", 'a"\nb', []))
    assert (error.message, error.details) == (r'acme has no tool named "a\"\nb".', {})
