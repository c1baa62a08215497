"""Canonical JSON: one spelling for each value, which fingerprints and databases rely on."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.jsontypes import Json, alike, canonical, same

# Also what is no text anywhere else: halves of letters, and the sign that ends a text in C.
anything = st.text(st.characters(exclude_categories=()))
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(anything, inner, max_size=3),
    max_leaves=8,
)


@given(value=values)
def test_it_is_json_that_any_database_takes(value: Json) -> None:
    spelled = canonical(value)
    assert "\0" not in spelled
    assert json.loads(spelled.encode().decode()) == value


def test_what_python_calls_equal_is_not_the_same_json() -> None:
    ones: list[Json] = [1, 1.0, True, "1"]
    assert [[same([one], [other]) for other in ones] for one in ones] == [
        [one is other for other in ones] for one in ones
    ]
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not same({"a": 1}, {"a": 1, "b": None})


def test_javascript_knows_one_kind_of_number() -> None:
    assert alike({"sums": [1.0, 2.5]}, {"sums": [1, 2.5]})
    assert not alike([1.0], [True])
    assert not alike([1.0], ["1"])


@given(one=values, other=values)
def test_the_same_json_is_equal_and_never_the_other_way_round(one: Json, other: Json) -> None:
    assert same(one, one)
    assert one == other or not same(one, other)


def test_half_a_letter_is_not_its_own_escape() -> None:
    assert canonical("\ud83d") == '"\\ud83d"'
    assert canonical("\\ud83d") == '"\\\\ud83d"'
    assert canonical("😀") == '"😀"'
