"""Forms as dialogues: what was asked, what somebody typed, and the result."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from adk_confirm.blocks import form
from adk_confirm.blocks.click_ids import Action
from adk_confirm.blocks.exact_values import json_text
from adk_confirm.blocks.fields import Wrong, parse_json
from adk_confirm.blocks.full_view import MOST_FIELDS, can_be_shown
from adk_confirm.blocks.json_schema import payload_fields
from adk_confirm.blocks.kit import JsonObject
from adk_confirm.blocks.shown import Argument, Shown
from adk_confirm.bot.confirmation.confirmation import State
from adk_confirm.runtime.jsontypes import same
from adk_confirm.sandbox.reading import label
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.slack import OpenForm

Schema = dict[str, JsonValue]
thorough = settings(max_examples=settings().max_examples // 4)


def asked(schema: Schema | None = None, /, **arguments: JsonValue) -> tuple[Shown, Schema | None]:
    """A call with these arguments, all of them open to edits."""
    names = tuple(Argument(name, value) for name, value in arguments.items())
    root: Schema | None = None if schema is None else {"type": "object", "properties": schema}
    return replace(samples.WAITING, arguments=names, editable=(*arguments, *(schema or {}))), root


class Editor:
    """Somebody with the Edit… form of a call before them."""

    def __init__(self, view: Shown, schema: Schema | None) -> None:
        self.view, self.schema = view, schema
        payload = form.Form(view, schema).edit_view()
        limits.check(payload, "modal")
        self.form = OpenForm(payload)

    def submit(self) -> dict[str, JsonValue]:
        return form.Form(self.view, self.schema).read(self.form.state, must_change=True)

    def refused(self, label: str) -> str:
        """The sentence at a field; there is no other error, and nothing else came through."""
        with pytest.raises(form.FormErrors) as caught:
            self.submit()
        assert list(caught.value.errors) == [self.form.block_id(label)]
        return caught.value.errors[self.form.block_id(label)]


def edit(schema: Schema | None = None, /, **arguments: JsonValue) -> Editor:
    return Editor(*asked(schema, **arguments))


# -- only what differs is a change


def test_one_field_is_changed_and_the_others_keep_their_exact_values() -> None:
    lead = edit(amount=1500, ratio=1.0, big=10**20, tiny=1e-7, purpose="trip ", tags=["a", {"b": 1.0}])
    lead.form.enter("amount", "1200")
    assert lead.submit() == {"amount": 1200}


@thorough
@given(
    strategies.many_arguments,
    st.lists(st.sampled_from(["s", "i", "n", "b", "e", "d", "t", "o", "l", "m", "-"]), max_size=40),
)
def test_a_form_that_nobody_touches_changes_nothing(arguments: tuple[Argument, ...], kinds: list[str]) -> None:
    properties = {
        argument.name: SCHEMAS[kind] for argument, kind in zip(arguments, kinds, strict=False) if kind in SCHEMAS
    }
    schema: Schema = {"properties": properties}
    unique = tuple({argument.name: argument for argument in arguments}.values())
    view = replace(samples.WAITING, arguments=unique, editable=tuple(argument.name for argument in unique))
    payload = form.Form(view, schema).edit_view()
    limits.check(payload, "modal")
    inert.check(payload, strategies.OURS | OURS)
    shown = OpenForm(payload)
    assert form.Form(view, schema).read(shown.state) == {}


OURS = {samples.DANA, samples.LEAD}
SCHEMAS: Schema = {
    "s": {"type": "string", "maxLength": 5},
    "i": {"type": "integer", "minimum": 3, "maximum": 10**30},
    "n": {"anyOf": [{"type": "number"}, {"type": "null"}]},
    "b": {"type": "boolean"},
    "e": {"enum": ["a", 1, True, None, "<!channel>", ""]},
    "d": {"type": "string", "format": "date"},
    "t": {"type": "string", "format": "date-time"},
    "o": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "l": {"type": "array", "items": {"type": "string"}},
    "m": {"type": "array", "items": {"enum": ["", "a", 1, True]}},
}


@given(strategies.values, strategies.values)
def test_any_json_that_is_written_into_a_json_field_arrives_exactly(before: JsonValue, after: JsonValue) -> None:
    lead = edit(value=[0, before])
    written = json_text([1, after], indented=True)
    if len(written) > 3000 or "value" not in lead.form.labels or "NaN" in written or "Infinity" in written:
        return
    lead.form.enter("value", written)
    if re.search("[\ud800-\udfff]", json.dumps(after, ensure_ascii=False)):
        assert lead.refused("value").startswith("This holds half a character")
    else:
        assert same(lead.submit()["value"], [1, after])


def test_an_edit_that_changes_nothing_is_sent_back() -> None:
    lead = edit(amount=1500, purpose="trip")
    assert lead.refused("amount") == "Nothing has changed yet. Change a field, or go back."


# -- numbers


@pytest.mark.parametrize(
    ("schema", "current", "typed", "came"),
    [
        ({"type": "integer"}, 6, "4", 4),
        ({"type": "integer"}, 6.0, "4", 4),
        ({"type": "number"}, 1500, "1200.50", 1200.5),
        ({"type": "number"}, 1500, "1200", 1200),
        ({"type": "number"}, 1500.0, "1200", 1200.0),
        ({"type": "number"}, 1.5, "1e3", 1000.0),
        ({"type": "number"}, None, "7", 7),
        ({"type": "integer"}, 10**20, str(10**20 + 1), 10**20 + 1),
        (None, 1500, " 1200 ", 1200),
        (None, 1500, "0.1", 0.1),
        (None, -2, "+3", 3),
    ],
)
def test_a_number_stays_a_number(schema: Schema | None, current: JsonValue, typed: str, came: JsonValue) -> None:
    lead = edit({"n": schema} if schema else None, n=current)
    lead.form.enter("n", typed)
    assert same(lead.submit()["n"], came)


@pytest.mark.parametrize(
    ("schema", "typed", "sentence"),
    [
        ({"type": "integer"}, "1.5", "Write a whole number, such as 3."),
        ({"type": "integer"}, "1e3", "Write a whole number, such as 3."),
        ({"type": "integer"}, "three", "Write a whole number, such as 3."),
        ({"type": "integer"}, "٣", "Write a whole number, such as 3."),
        ({"type": "integer"}, "1_000", "Write a whole number, such as 3."),
        ({"type": "number"}, "1,500", "Write a number, such as 3 or 2.5, without separators."),
        ({"type": "number"}, "nan", "Write a number, such as 3 or 2.5, without separators."),
        ({"type": "number"}, "1e999", "This number is too large."),
        ({"type": "integer", "minimum": 1, "maximum": 20}, "21", "This must be 20 or less."),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "This must be more than 0."),
        ({"type": "integer"}, "", "Fill this in."),
    ],
)
def test_a_text_that_is_not_such_a_number_is_refused_at_the_field(schema: Schema, typed: str, sentence: str) -> None:
    lead = edit({"n": schema}, n=6)
    lead.form.enter("n", typed)
    assert lead.refused("n") == sentence


@pytest.mark.parametrize(("current", "typed"), [(1500, "1500.00"), (1.5, "+1.50"), (1e22, "1e22"), (6.0, "6")])
def test_a_number_in_another_spelling_is_no_change(current: float, typed: str) -> None:
    lead = edit(n=current, other="x")
    lead.form.enter("n", typed).enter("other", "y")
    assert lead.submit() == {"other": "y"}


def test_numbers_have_slacks_own_input_where_it_can_hold_them() -> None:
    schema: Schema = {"n": {"type": "integer", "minimum": 1, "maximum": 20}}
    element = edit(schema, n=6).form.element("n")
    assert (element["type"], element["min_value"], element["max_value"]) == ("number_input", "1", "20")
    assert element["is_decimal_allowed"] is False
    assert "min_value" not in edit(schema, n=99).form.element("n")  # a value out of bounds could not be shown
    assert edit(n=10**20).form.element("n")["type"] == "plain_text_input"  # a double could not hold it
    assert edit(n=2.5).form.element("n")["is_decimal_allowed"] is True


# -- choices


def test_an_enum_is_a_menu_and_keeps_the_kinds_of_its_values() -> None:
    lead = edit({"size": {"enum": ["small", 1, "1", True, None]}}, size="small", other=1)
    assert lead.form.element("size")["type"] == "static_select"
    lead.form.enter("size", '"1"')
    assert lead.submit() == {"size": "1"}
    lead.form.enter("size", "true")
    assert lead.submit() == {"size": True}
    lead.form.enter("size", "null")
    assert lead.submit() == {"size": None}


def test_a_value_that_is_none_of_the_options_stays_until_one_is_chosen() -> None:
    lead = edit({"env": {"enum": ["dev", "prod"]}}, env="live", n=1)
    placeholder = lead.form.element("env")["placeholder"]
    assert label(placeholder) == "Now: live"
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("env", "prod")
    assert lead.submit() == {"env": "prod", "n": 2}


def test_an_enum_of_more_than_a_menu_holds_is_written_and_checked() -> None:
    lead = edit({"city": {"enum": [f"city-{n}" for n in range(150)]}}, city="city-7")
    assert lead.form.element("city")["type"] == "plain_text_input"
    lead.form.enter("city", "city-149")
    assert lead.submit() == {"city": "city-149"}
    lead.form.enter("city", "Atlantis")
    assert lead.refused("city") == "Write one of the 150 values that the tool takes, exactly."


def test_options_that_would_look_the_same_are_written_too() -> None:
    options: list[JsonValue] = ["x" * 100 + "1", "x" * 100 + "2"]
    lead = edit({"key": {"enum": options}}, key=options[0])
    assert lead.form.element("key")["type"] == "plain_text_input"


def test_a_forged_choice_is_refused() -> None:
    lead = edit({"env": {"enum": ["dev", "prod"]}}, env="dev")
    key = (lead.form.block_id("env"), Action.FIELD.value)
    for value in ("2", "-1", "x", "100", None, 1):
        lead.form.entered[key] = {"type": "static_select", "selected_option": {"value": value}}
        assert lead.refused("env") == "This could not be read. Close the form and open it again."


# -- texts, dates


def test_a_text_may_have_lines_and_its_line_ends_stay_what_they_were() -> None:
    lead = edit(note="one\r\ntwo", other="a\nb")
    assert lead.form.element("note")["initial_value"] == "one\ntwo"
    assert lead.form.element("note")["multiline"] is True
    lead.form.enter("note", "one\nthree")
    assert lead.submit() == {"note": "one\r\nthree"}


def test_a_text_that_slack_trims_is_not_thereby_changed() -> None:
    lead = edit(note=" indented\n", other="x")
    lead.form.enter("note", "indented").enter("other", "y")
    assert lead.submit() == {"other": "y"}


def test_an_empty_text_is_empty_and_null_is_null() -> None:
    schema: Schema = {"a": {"type": "string"}, "b": {"type": ["string", "null"]}, "c": {"type": ["string", "null"]}}
    lead = edit(schema, a="", b="x", c=None)
    lead.form.enter("b", None).enter("a", "now")
    assert lead.submit() == {"a": "now", "b": None}
    blocks = {label(block["label"]): block.get("optional") for block in lead.form.inputs.values()}
    assert blocks == {"a": True, "b": True, "c": True}


def test_a_text_with_unseen_characters_is_written_as_json() -> None:
    lead = edit(name="in\u202evoice", other=1)
    assert lead.form.element("name")["initial_value"] == '"in\\u202evoice"'
    lead.form.enter("name", '"in\\u202dvoice"')
    assert lead.submit() == {"name": "in\u202dvoice"}
    lead.form.enter("name", "invoice")
    assert lead.refused("name").startswith("This can't be read from “invoice” on.")


def test_a_text_keeps_to_the_schema() -> None:
    lead = edit({"name": {"type": "string", "maxLength": 5}}, name="x")
    lead.form.enter("name", "abcdef")
    assert lead.refused("name") == "This takes at most 5 characters."


@pytest.mark.parametrize(
    ("kind", "before", "after", "wrong", "sentence"),
    [
        ("date", "2026-02-30", "2026-12-01", "tomorrow", "Write a date as year-month-day, such as 2026-01-31."),
        ("date", "soon", "2028-02-29", "2027-02-29", "Write a date as year-month-day, such as 2026-01-31."),
        (
            "date-time",
            "2026-11-21T10:00:00.250+01:00",
            "2026-11-21T10:01:00Z",
            "2026-11-21",
            "Write a date and a time as in 2026-01-31T09:30:00+01:00.",
        ),
        (
            "date-time",
            "noon",
            "2026-11-21T10:01",
            "2026-11-21T25:00:00Z",
            "Write a date and a time as in 2026-01-31T09:30:00+01:00.",
        ),
    ],
)
def test_a_date_that_no_calendar_shows_is_text_that_is_checked_once_it_is_changed(
    kind: str, before: str, after: str, wrong: str, sentence: str
) -> None:
    schema: Schema = {"at": {"type": "string", "format": kind}}
    lead = edit(schema, at=before, n=1)
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("at", f" {after} ")
    assert lead.submit()["at"] == after
    lead.form.enter("at", wrong)
    assert lead.refused("at") == sentence


def test_a_day_is_picked_from_a_calendar() -> None:
    lead = edit({"day": {"type": "string", "format": "date"}}, day="2026-12-05", n=1)
    assert lead.form.element("day")["type"] == "datepicker"
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("day", "2026-12-06")
    assert lead.submit() == {"day": "2026-12-06", "n": 2}
    lead.form.enter("day", None)
    assert lead.refused("day") == "Fill this in."


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("2026-12-05T22:00:00+01:00", "2026-12-06T00:30:00+01:00"),
        ("2026-12-05T21:00Z", "2026-12-05T23:30Z"),
        ("2026-12-05 16:30:00.000-0430", "2026-12-05 19:00:00.000-0430"),
        ("", "2026-12-05T23:30:00Z"),
    ],
)
def test_a_moment_goes_back_in_its_own_offset_and_spelling(before: str, after: str) -> None:
    lead = edit({"at": {"type": "string", "format": "date-time"}}, at=before, n=1)
    assert lead.form.element("at")["type"] == "datetimepicker"
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    if before:
        lead.form.enter("at", "2026-12-05 21:00")
        assert lead.submit() == {"n": 2}, "the same moment again is no change"
    lead.form.enter("at", "2026-12-05 23:30")
    assert lead.submit() == {"at": after, "n": 2}


@pytest.mark.parametrize(
    "now",
    [
        "2026-12-05T22:00:30Z", "2026-12-05T22:00:00.5Z", "2026-12-05T22:00:00", "1999-12-05T22:00:00Z",
        "2026-12-05t22:00:00z", "2026-13-05T22:00:00Z", "2300-01-01T00:00:00Z",
    ],
)  # fmt: skip
def test_a_moment_that_slacks_input_could_not_show_is_text(now: str) -> None:
    lead = edit({"at": {"type": "string", "format": "date-time"}}, at=now)
    assert lead.form.element("at")["initial_value"] == now


@pytest.mark.parametrize("forged", [1_780_000_001, True, "2026-12-05", 10**11, -60, 1.78e9])
def test_a_forged_moment_is_refused(forged: JsonValue) -> None:
    lead = edit({"at": {"type": "string", "format": "date-time"}}, at="2026-12-05T22:00:00Z")
    key = (lead.form.block_id("at"), Action.FIELD.value)
    lead.form.entered[key] = {"type": "datetimepicker", "selected_date_time": forged}
    assert lead.refused("at") == "This could not be read. Close the form and open it again."


# -- lists and objects


def a_list_of(options: list[JsonValue], **more: JsonValue) -> Schema:
    return {"rows": {"type": "array", "items": {"enum": options}, **more}}


def test_some_of_a_few_values_are_ticked_and_keep_their_order() -> None:
    lead = edit(a_list_of(["eu", "us", 7, True], maxItems=3), rows=["us", "eu"], n=1)
    assert lead.form.element("rows")["type"] == "checkboxes"
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("rows", ["eu", "us"])
    assert lead.submit() == {"n": 2}
    lead.form.enter("rows", ["eu", "7", "us"])
    assert same(lead.submit()["rows"], ["us", "eu", 7])
    lead.form.enter("rows", [])
    assert lead.submit()["rows"] == []
    lead.form.enter("rows", ["eu", "7", "us", "true"])
    assert lead.refused("rows") == "This takes at most 3 items."


def test_more_values_are_a_menu_and_too_many_are_json() -> None:
    names: list[JsonValue] = [f"city-{number}" for number in range(101)]
    lead = edit(a_list_of(names[:100]), rows=["city-7"])
    assert lead.form.element("rows")["type"] == "multi_static_select"
    lead.form.enter("rows", ["city-7", "city-99"])
    assert lead.submit() == {"rows": ["city-7", "city-99"]}
    assert edit(a_list_of(names), rows=["city-7"]).form.element("rows")["type"] == "plain_text_input"


@pytest.mark.parametrize("now", [["live"], ["eu", "eu"], [1.0], "eu"])
def test_what_boxes_could_not_show_is_json(now: JsonValue) -> None:
    lead = edit(a_list_of(["eu", "us", 1]), rows=now)
    assert lead.form.element("rows")["initial_value"] == json_text(now, indented=True)


@pytest.mark.parametrize("forged", [None, "0", ["0"], [{"value": "3"}], [{"value": 0}], [{}]])
def test_forged_ticks_are_refused(forged: JsonValue) -> None:
    lead = edit(a_list_of(["eu", "us"]), rows=["us"])
    key = (lead.form.block_id("rows"), Action.FIELD.value)
    lead.form.entered[key] = {"type": "checkboxes", "selected_options": forged}
    assert lead.refused("rows") == "This could not be read. Close the form and open it again."


def test_a_list_of_texts_has_one_on_each_line() -> None:
    schema: Schema = {"to": {"type": "array", "minItems": 1, "items": {"type": "string", "maxLength": 9}}}
    lead = edit(schema, to=["ops@a", "sup@a"], n=1)
    assert lead.form.element("to")["initial_value"] == "ops@a\nsup@a"
    lead.form.enter("n", "2").enter("to", "ops@a \n\n sup@a\n")
    assert lead.submit() == {"n": 2}
    lead.form.enter("to", '"ann"\r\nsup@a')
    assert lead.submit()["to"] == ['"ann"', "sup@a"]
    lead.form.enter("to", "ann\n0123456789")
    assert lead.refused("to") == "Item 2 takes at most 9 characters."
    lead.form.enter("to", None)
    assert lead.refused("to") == "This needs at least 1 items."


@pytest.mark.parametrize("now", [["a\nb"], [""], [" a"], ["a\u2028b"], ["a\u202eb"], ["a\rb"], ["a", 1], ["a\r\n"]])
def test_a_list_that_lines_could_not_show_is_json(now: JsonValue) -> None:
    lead = edit({"to": {"type": "array", "items": {"type": "string"}}}, to=now)
    assert lead.form.element("to")["initial_value"] == json_text(now, indented=True)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("a, b", "This can't be read from “a, b” on. Keep the quotes, commas and brackets as they were."),
        ('["a", b, "c"]', "This can't be read from “b, "),
        ('["a",]', "This can't be read from “"),
        ('["a", "b', "This can't be read from “"),
        ('["a", "b"', "This ends too early. Close every quote and bracket that you opened."),
        ("['a']", 'Put text in straight double quotes, as in "text".'),
        ("[‘a’]", 'Put text in straight double quotes, as in "text".'),
        ('{"a": 1, "a": 2}', "The name a appears twice in one object."),
        ("[NaN]", "NaN is not a number in JSON."),
        ("[1e999]", "1e999 is not a number in JSON."),
        ("[" * 1400 + "]" * 1400, "This JSON is nested too deeply."),
        ('"text"', "This must be a list."),
        ("[1, 2]", "Item 1 must be text."),
        ("  ", "Fill this in."),
    ],
)
def test_wrong_json_is_refused_at_the_field_with_its_place(typed: str, sentence: str) -> None:
    lead = edit({"tags": {"type": "array", "items": {"type": "string"}}}, tags=[" x"])
    lead.form.enter("tags", typed)
    assert lead.refused("tags").startswith(sentence)


def test_the_curly_quotes_of_a_phone_are_straight_ones() -> None:
    lead = edit(options=[1, {"a": "he said “no”"}])
    assert "JSON. Change only values, such as 1. Keep" in inert.shown(lead.form.view)
    lead.form.enter("options", "[2, {“a”: “b”}]")
    assert lead.submit() == {"options": [2, {"a": "b"}]}
    lead.form.enter("options", '[1, {"a": "he said “yes”"}]')
    assert lead.submit() == {"options": [1, {"a": "he said “yes”"}]}


def test_json_that_only_looks_different_is_no_change() -> None:
    lead = edit(options=[{"a": [1, 2], "b": 1.0}, 0], other=1)
    lead.form.enter("options", '[{"b":1.0,"a":[1,2]},0]').enter("other", "2")
    assert lead.submit() == {"other": 2}
    lead.form.enter("options", '[{"b":1,"a":[1,2]},0]')
    assert same(lead.submit()["options"], [{"a": [1, 2], "b": 1}, 0])


def test_a_value_of_another_kind_than_its_schema_says_is_shown_as_json() -> None:
    lead = edit({"n": {"type": "integer"}}, n="six", other=1)
    assert lead.form.element("n")["initial_value"] == '"six"'
    lead.form.enter("other", "2")
    assert lead.submit() == {"other": 2}
    lead.form.enter("n", "6")
    assert lead.submit() == {"n": 6, "other": 2}


EXPENSES: JsonValue = [{"item": "Train", "amount": 148.5}, {"item": "Hotel", "amount": 1320, "paid": True}]


def test_a_list_of_objects_is_edited_field_by_field() -> None:
    lead = edit(expenses=EXPENSES, n=1)
    assert lead.form.labels[:3] == ["expense 1: item", "expense 1: amount", "expense 1"]
    assert lead.form.labels[3:] == [*(f"expense 2: {one}" for one in ("item", "amount", "paid")), "expense 2", "n"]
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("expense 2: amount", "1200").enter("expense 2: paid", "no")
    after: JsonValue = [{"item": "Train", "amount": 148.5}, {"item": "Hotel", "amount": 1200, "paid": False}]
    assert same(lead.submit()["expenses"], after)


def test_an_item_is_removed_by_the_box_below_its_fields() -> None:
    lead = edit(expenses=EXPENSES)
    lead.form.enter("expense 1: item", None)
    assert lead.submit()["expenses"] == [{"item": "", "amount": 148.5}, {"item": "Hotel", "amount": 1320, "paid": True}]
    lead.form.enter("expense 1: amount", None)
    assert lead.refused("expense 1: amount") == "Fill this in."
    lead.form.enter("expense 1", ["Remove expense 1"])
    assert lead.submit() == {"expenses": [{"item": "Hotel", "amount": 1320, "paid": True}]}
    lead.form.enter("expense 2", ["Remove expense 2"])
    assert lead.submit() == {"expenses": []}


OWNER: Schema = {
    "owner": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "mail": {"type": "string", "maxLength": 9},
            "age": {"type": "integer"},
        },
        "required": ["name"],
    }
}


def test_an_object_has_a_field_for_each_of_its_values_in_the_schemas_order() -> None:
    lead = edit(OWNER, owner={"mail": "a@b", "name": "Ada"}, n=1)
    assert lead.form.labels == ["owner: name", "owner: mail", "owner: age", "n"]
    optional = [block.get("optional") for block in lead.form.inputs.values()]
    assert optional == [False, False, True, False]
    lead.form.enter("n", "2")
    assert lead.submit() == {"n": 2}
    lead.form.enter("owner: age", "7")
    assert lead.submit() == {"n": 2, "owner": {"mail": "a@b", "name": "Ada", "age": 7}}
    lead.form.enter("owner: mail", "0123456789")
    assert lead.refused("owner: mail") == "This takes at most 9 characters."


def test_without_a_schema_an_object_has_fields_of_the_kinds_that_its_values_have() -> None:
    options: JsonValue = {"timeout": 30, "hosts": ["a", "b"], "retry": {"times": 3}, "dry_run": False, "tag": "fix"}
    lead = edit(options=options)
    assert lead.form.labels == [f"options: {one}" for one in ("timeout", "hosts", "retry: times", "dry run", "tag")]
    lead.form.enter("options: timeout", "60").enter("options: hosts", "a\nc").enter("options: dry run", "yes")
    lead.form.enter("options: retry: times", "4")
    changed: JsonValue = {"timeout": 60, "hosts": ["a", "c"], "retry": {"times": 4}, "dry_run": True, "tag": "fix"}
    assert lead.submit() == {"options": changed}


@pytest.mark.parametrize("owner", [{}, ["Ada", 1], None, {f"p{n}": n for n in range(49)}])
def test_what_is_no_object_or_too_large_is_json(owner: JsonValue) -> None:
    assert edit(owner=owner).form.labels == ["owner"]


def test_what_is_wrong_in_an_item_is_said_at_its_field() -> None:
    item: Schema = {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 9, "description": "€"}}}
    schema: Schema = {"rows": {"type": "array", "minItems": 2, "items": {"$ref": "#/properties/row"}}, "row": item}
    lead = edit(schema, rows=[{"amount": 1}, {"amount": 2}])
    assert lead.form.element("row 2: amount")["type"] == "number_input"
    lead.form.enter("row 2: amount", "10")
    assert lead.refused("row 2: amount") == "This must be 9 or less."
    lead.form.enter("row 2", ["Remove row 2"])
    assert lead.refused("row 1: amount") == "This needs at least 2 items."


@pytest.mark.parametrize("value", [[{"a": 1}, 2], [{}], [], [{"a": n} for n in range(17)], ["x"]])
def test_other_lists_are_json(value: JsonValue) -> None:
    assert edit(rows=value).form.labels == ["rows"]


def test_integers_longer_than_python_reads_are_refused() -> None:
    with pytest.raises(Wrong, match="is not a number in JSON"):
        parse_json("9" * 5000)


# -- what can be edited


def test_only_what_the_policy_names_is_a_field_and_the_rest_is_shown() -> None:
    view, _ = asked(version="2.14.0", env="prod")
    lead = Editor(replace(view, editable=("version",)), None)
    assert lead.form.labels == ["version"]
    text = inert.shown(lead.form.view)
    assert "Can't be changed" in text
    assert "env prod" in text


def test_a_value_over_3000_is_shown_in_full_and_not_editable() -> None:
    lead = edit(note="x" * 3001, short="x" * 3000, log=[0, "y" * 2999])
    assert lead.form.labels == ["short"]
    text = inert.shown(lead.form.view)
    assert text.count("x") > 3001
    assert "Too long to edit here: note and log." in text


def test_a_form_without_room_for_all_fields_says_so() -> None:
    lead = edit(**{f"field_{n}": n for n in range(120)})
    assert len(lead.form.labels) == MOST_FIELDS
    text = inert.shown(lead.form.view)
    assert "field_119 119" in text
    assert "A form has no room for more fields" in text
    lead.form.enter("field 3", "33")
    assert lead.submit() == {"field_3": 33}


def test_a_form_without_room_for_the_rest_of_the_call_has_no_fields() -> None:
    view, _ = asked(**{f"text_{n}": "日" * 2900 for n in range(60)})
    lead = Editor(view, None)
    assert lead.form.labels == []
    assert "submit" not in lead.form.view
    assert "Approve it as it is, or deny it and say why." in inert.shown(lead.form.view)
    short = edit(script="x" * 190_000, n=1)
    short.form.enter("n", "2")
    assert short.submit() == {"n": 2}, "a long call may have fields beside it"


@thorough
@given(strategies.cards)
def test_a_call_that_can_be_shown_can_be_approved_in_its_form(view: Shown) -> None:
    editable = tuple(argument.name for argument in (view.payload if view.wants_payload else view.arguments))
    view = replace(view, stage=State.WAITING, editable=editable, too_few_may=False)
    assert not can_be_shown(view) or "submit" in form.approve_form(
        view, form.Form(view, None) if view.wants_payload else None
    )


def test_an_answer_of_many_lists_leaves_room_for_the_call() -> None:
    rows: JsonValue = [{"a": number} for number in range(15)]
    names = [f"list_{number}" for number in range(4)]
    view = replace(
        samples.TIME_OFF,
        arguments=(Argument("note", "x" * 60_000),),
        payload=tuple(Argument(name, rows) for name in names),
        editable=tuple(names),
    )
    answer = form.Form(view, None)
    assert len(answer.fields) == 30 + 3, "the other lists are JSON"
    assert can_be_shown(view)
    assert "submit" in form.approve_form(view, answer)


def test_an_argument_that_the_call_lacks_can_be_added() -> None:
    lead = edit({"dry_run": {"type": "boolean"}, "note": {"type": "string"}}, note="x")
    assert lead.form.labels == ["dry run", "note"], "in the schema's order"
    lead.form.enter("dry run", "yes")
    assert lead.submit() == {"dry_run": True}


def test_labels_are_the_arguments_own_names_made_inert() -> None:
    lead = edit(**{"<!channel>": 1, "a\nb": 2, ":tada:": 3, "": 4, "x" * 300: 5, "in\u202evoice": 6})
    assert lead.form.labels[:4] == ["‹!channel›", "a\\nb", "꞉tada:", "(empty)"]
    assert len(lead.form.labels[4]) == 150
    assert lead.form.labels[5] == "in\\u202evoice"
    lead.form.enter("‹!channel›", "7")
    assert lead.submit() == {"<!channel>": 7}


def test_an_entry_that_is_no_entry_is_refused() -> None:
    view, _ = asked(n=1)
    block_id = form.Form(view, None).fields[0].block_id
    for entry in ({}, {Action.FIELD.value: "x"}, {Action.FIELD.value: {"value": 5}}):
        with pytest.raises(form.FormErrors) as caught:
            form.Form(view, None).read({block_id: entry})
        assert caught.value.errors == {block_id: "This could not be read. Close the form and open it again."}


# -- Approve with an answer, Approve with a grant


PAYLOAD_SCHEMA: Schema = {
    "type": "object",
    "properties": {"approved_days": {"type": "integer", "minimum": 0}, "note": {"type": "string"}},
    "required": ["approved_days"],
}


def fields_of(payload: JsonValue, schema: Schema | None) -> tuple[Argument, ...]:
    return tuple(Argument(name, value) for name, value in payload_fields(payload, schema).items())


@pytest.mark.parametrize(
    ("nobody_chose", "schema", "wanted", "entered", "answer"),
    [
        (0, None, "Write a number, such as 3 or 2.5, without separators.", "0", 0),
        (0, {"type": "integer"}, "Write a whole number, such as 3.", "8", 8),
        (False, {"type": "boolean"}, "Choose one.", "yes", True),
        (None, {"type": "string"}, "Fill this in.", "x", "x"),
        ("", {"enum": ["13 inch", "16 inch"]}, "Choose one.", "16 inch", "16 inch"),
    ],
)
def test_what_nobody_chose_is_not_filled_in_and_is_asked_for(
    nobody_chose: JsonValue, schema: JsonObject | None, wanted: str, entered: str, answer: JsonValue
) -> None:
    """Somebody in a hurry who presses Approve grants no zero days that only the tool wrote there."""
    whole: JsonObject | None = {"properties": {"approved_days": schema}} if schema else None
    view = replace(samples.TIME_OFF, payload=(Argument("approved_days", nobody_chose),))
    opened = form.Form(view, whole)
    shown = OpenForm(form.approve_form(view, opened))
    assert not {"initial_value", "initial_option"} & {*shown.element("approved days")}
    assert shown.inputs[shown.block_id("approved days")]["optional"] is False
    with pytest.raises(form.FormErrors) as caught:
        opened.read(shown.state)
    assert caught.value.errors == {shown.block_id("approved days"): wanted}
    shown.enter("approved days", entered)
    assert opened.read(shown.state) == {"approved_days": answer}


def test_a_later_approver_finds_what_the_first_one_entered() -> None:
    view = replace(samples.ANSWERED, payload=(Argument("approved_days", 0),))
    shown = OpenForm(form.approve_form(view, form.Form(view, None)))
    assert shown.element("approved days")["initial_value"] == "0"
    assert form.Form(view, None).read(shown.state) == {}


def test_an_answer_that_has_to_be_given_has_to_be_given() -> None:
    view = replace(samples.TIME_OFF, payload=fields_of({}, PAYLOAD_SCHEMA), editable=("approved_days", "note"))
    answer = form.Form(view, PAYLOAD_SCHEMA)
    shown = OpenForm(form.approve_form(view, answer))
    assert shown.labels == ["approved days", "note"]
    with pytest.raises(form.FormErrors) as caught:
        answer.read(shown.state)
    assert caught.value.errors == {shown.block_id("approved days"): "Write a whole number, such as 3."}
    shown.enter("approved days", "3")
    assert answer.read(shown.state) == {"approved_days": 3}


@pytest.mark.parametrize("payload", [None, 5, "text", [1, 2], {}])
def test_an_answer_without_names_is_one_field(payload: JsonValue) -> None:
    view = replace(samples.TIME_OFF, payload=fields_of(payload, None), editable=())
    shown = OpenForm(form.approve_form(view, form.Form(view, None)))
    assert shown.labels == ["answer"]
    shown.enter("answer", "7")
    changes = form.Form(view, None).read(shown.state)
    after = form.payload_with(payload, None, changes)
    assert after == ("7" if isinstance(payload, str) else 7)
    assert form.payload_with(payload, None, {}) == payload


# -- Deny


def test_deny_asks_for_a_reason() -> None:
    payload = form.deny_form(samples.WAITING, required=True)
    limits.check(payload, "modal")
    shown = OpenForm(payload)
    with pytest.raises(form.FormErrors, match="Say why: the policy asks for a reason"):
        form.read_denial(shown.state, required=True)
    assert form.read_denial(shown.state, required=False) is None
    shown.enter("Reason", "  Not during the sale. \n")
    assert form.read_denial(shown.state, required=True) == "Not during the sale."
    shown.enter("Reason", "x" * 1001)
    with pytest.raises(form.FormErrors) as caught:
        form.read_denial(shown.state, required=False)
    assert caught.value.errors == {"reason": "Use at most 1000 characters."}


# -- whatever goes in


@thorough
@given(strategies.cards)
def test_no_form_is_over_a_limit_or_does_anything_by_itself(view: Shown) -> None:
    editable = tuple(argument.name for argument in view.arguments)
    payable = tuple(argument.name for argument in view.payload)
    payloads: list[JsonObject] = [
        form.Form(replace(view, editable=editable, wants_payload=False), None).edit_view(),
        form.approve_form(view, form.Form(replace(view, editable=payable), None) if view.wants_payload else None),
        form.deny_form(view, required=True),
        form.withdraw_form(view),
    ]
    for payload in payloads:
        limits.check(payload, "modal")
        inert.check(payload, strategies.OURS)


def test_a_field_says_what_its_digits_mean() -> None:
    size = Argument("size", 20, formats=(("", "bytes"),))
    lines = Argument("lines", EXPENSES, formats=(("amount", "EUR"),))
    fields = form.Form(replace(samples.WAITING, arguments=(size, lines), editable=("size", "lines")), None).fields
    assert [one.note for one in fields[:3]] == ["20 bytes", "", "€148.50"]
