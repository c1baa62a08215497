"""One spelling for one value: fingerprints are taken over it, and databases keep it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from runtime.jsontypes import Json, canonical

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


def test_half_a_letter_is_not_its_own_escape() -> None:
    assert canonical("\ud83d") == '"\\ud83d"'
    assert canonical("\\ud83d") == '"\\\\ud83d"'
    assert canonical("😀") == '"😀"'
