"""Values as text: exact on one line, whole in a box, and as complete JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from pydantic import JsonValue

from adk_confirm.blocks.exact_values import ON_ONE_LINE, json_text, spell_on_one_line, spell_value
from adk_confirm.blocks.text import visible
from adk_confirm.runtime.jsontypes import same
from tests.blocks import strategies


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("checkout", "checkout"),
        ("2.14.0", "2.14.0"),
        ("1500", '"1500"'),
        ("1e5", '"1e5"'),
        ("true", '"true"'),
        ("null", '"null"'),
        ("", '""'),
        (" x", '" x"'),
        ('"quoted"', '"\\"quoted\\""'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ("two\ttabs", '"two\\ttabs"'),
        ("in\u202evoice", '"in\\u202evoice"'),
        ("line\n", '"line\\n"'),
        (1500, "1500"),
        (1.0, "1.0"),
        (10**20, "100000000000000000000"),
        (True, "true"),
        (None, "null"),
        ([], "[]"),
        (["a", 1], '["a", 1]'),
        ({"a": {"b": 2}}, '{"a": {"b": 2}}'),
    ],
)
def test_a_short_value_is_on_one_line_exactly(value: JsonValue, text: str) -> None:
    assert (spell_value(value).text, spell_value(value).boxed) == (text, False)


@pytest.mark.parametrize("value", ["two\nlines", "x" * (ON_ONE_LINE + 1), "שלום", list(range(60)), ["שלום"]])
def test_what_does_not_go_on_a_line_gets_a_box(value: JsonValue) -> None:
    assert spell_value(value).boxed


@given(strategies.values)
def test_a_value_on_one_line_can_be_read_back(value: JsonValue) -> None:
    text = spell_value(value)
    if text.boxed or any(isinstance(part, float) and not math.isfinite(part) for part in _leaves(value)):
        return
    try:
        back = json.loads(text.text)
    except ValueError:
        back = text.text  # not JSON: the very characters of a string
    assert same(back, value)


@given(strategies.values)
def test_json_is_json_and_hides_nothing(value: JsonValue) -> None:
    for text in (json_text(value), json_text(value, indented=True)):
        assert visible(text, keep="\n") == text
        assert same(json.loads(text), value) or "NaN" in text


def test_a_value_as_deep_as_it_likes_and_as_long() -> None:
    deep: JsonValue = []
    for _ in range(20_000):
        deep = [deep]
    assert json_text(deep) == "[" * 20_001 + "]" * 20_001
    assert len(json_text(deep, indented=True, enough=500)) < 2000
    assert json_text(10**5000).startswith("0x")
    assert len(spell_value("x" * 10**6, 700).text) == 700


def test_short_lists_in_a_long_value_keep_their_line() -> None:
    value: JsonValue = {"retry": {"times": 3, "wait": [1, 2, 4]}, "tags": [*(f"tag-{n}" for n in range(12))]}
    lines = json_text(value, indented=True).split("\n")
    assert '  "retry": {"times": 3, "wait": [1, 2, 4]},' in lines
    assert '    "tag-0",' in lines


def test_on_a_line_however_long() -> None:
    assert spell_on_one_line("two\nlines") == '"two\\nlines"'
    assert spell_on_one_line("plain") == "plain"
    assert spell_on_one_line([1, "שלום"]) == '[1, "שלום"]'


def _leaves(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in _leaves(inner)]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value]
