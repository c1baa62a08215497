"""What the policy hides is in no output, whatever shape it comes in."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.redaction import MASK, Redactor
from runtime.jsontypes import Json, JsonObject

SECRET = 'tok-8f3a\n"é"'


def test_by_name_at_any_depth_whatever_the_case() -> None:
    arguments: JsonObject = {"Token": 7, "auth": [{"api_token": "x", "user": "anna"}], "note": "fine"}
    masked = Redactor(["token", "*_token"]).mask(arguments)
    assert masked.value == {"Token": MASK, "auth": [{"api_token": MASK, "user": "anna"}], "note": "fine"}
    assert masked.hidden == 2


def test_a_hidden_value_is_hidden_as_a_whole() -> None:
    masked = Redactor(["auth"]).mask({"auth": {"user": "anna", "parts": ["abcdef", 1234567]}})
    assert masked.value == {"auth": MASK}
    assert masked.hidden == 1


def test_where_it_turns_up_again_it_is_hidden_too() -> None:
    call: JsonObject = {"auth": {"token": "s3cr3t-1"}, "url": "https://x?t=s3cr3t-1", "s3cr3t-1": "s3cr3t-1 s3cr3t-1"}
    masked, hidden = Redactor(["token"]).mask_object(call)
    assert "s3cr3t" not in json.dumps(masked)
    assert hidden == 4


@pytest.mark.parametrize(
    "text", [f"It says {SECRET}!", json.dumps({"out": SECRET}), json.dumps({"out": SECRET}, ensure_ascii=False)]
)
def test_in_a_result_or_a_reason_however_it_is_spelled(text: str) -> None:
    shown = Redactor(["token"], {"token": SECRET}).mask_text(text)
    assert "8f3a" not in shown
    assert MASK in shown


def test_json_in_a_text_is_looked_into() -> None:
    result = json.dumps({"token": "n3w-t0k3n", "note": "n3w-t0k3n"})
    assert json.loads(Redactor(["token"]).mask_text(result)) == {"token": MASK, "note": MASK}
    masked, hidden = Redactor(["token"]).mask_object({"body": result, "url": "https://x?n3w-t0k3n"})
    assert "n3w-t0k3n" not in json.dumps(masked)
    assert hidden == 3


@pytest.mark.parametrize("text", ['{"a":  1}', "[1,2", "{not json}", "[]", " {}"])
def test_a_text_with_nothing_hidden_stays_as_it_is(text: str) -> None:
    assert Redactor(["token"]).mask_text(text) == text


def test_what_is_too_deep_to_look_into_is_hidden_as_a_whole() -> None:
    deep = "[" * 900 + '{"token": "n3w-t0k3n"}' + "]" * 900
    assert Redactor(["token"]).mask_text(deep) == MASK
    assert Redactor(["token"], deep).mask({"body": deep}).value == {"body": MASK}


def test_short_values_do_not_blacken_the_rest() -> None:
    redactor = Redactor(["env", "on", "n"], {"env": "prod", "on": True, "n": 12})
    assert redactor.mask_text("prod is true, 12 times") == "prod is true, 12 times"


def test_a_long_number_is_a_secret_like_a_text() -> None:
    assert Redactor(["pin"], {"pin": 123456}).mask_text("the pin is 123456") == f"the pin is {MASK}"


def test_two_names_that_differ_in_what_is_hidden_both_stay() -> None:
    call: JsonObject = {"token": ["abcdef-1", "abcdef-2"], "abcdef-1": 1, "abcdef-2": 2}
    masked, _ = Redactor(["token"]).mask_object(call)
    assert [value for value in masked.values() if value != MASK] == [1, 2]


def test_a_secret_inside_another_leaves_no_rest() -> None:
    shown = Redactor(["a", "b"], {"a": "abcdef", "b": "abcdef-ghijkl"}).mask_text("abcdef-ghijkl")
    assert shown == MASK


def test_without_names_everything_passes() -> None:
    call: JsonObject = {"token": "s3cr3t-1"}
    assert Redactor([], call).mask(call).value is call
    assert Redactor([], call).mask_text("s3cr3t-1") == "s3cr3t-1"


json_values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "Token"]), inner),
    max_leaves=20,
)


@given(value=json_values, secret=st.text(min_size=6, max_size=20).filter(lambda text: len(text.strip()) >= 6))
def test_nothing_hidden_comes_out(value: Json, secret: str) -> None:
    call: JsonObject = {"deep": [{"token": secret}], "value": value, "echo": f"<{secret}>"}
    masked, hidden = Redactor(["token"]).mask_object(call)
    if secret.strip() not in MASK:
        assert secret.strip() not in _texts(masked)
    assert hidden >= 2


def _texts(value: Json) -> str:
    """All keys and texts in a value, apart from each other."""
    match value:
        case dict():
            return "\x00\x00".join(f"{key}\x00\x00{_texts(item)}" for key, item in value.items())
        case list():
            return "\x00\x00".join(map(_texts, value))
        case str():
            return value
        case _:
            return ""
