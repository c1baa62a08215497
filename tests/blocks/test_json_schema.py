"""Schemas as pydantic, google-genai and MCP servers write them."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, JsonValue

from adk_confirm.blocks.json_schema import Shape, problems, property_names, shapes


class Env(StrEnum):
    DEV = "dev"
    PROD = "prod"


class Limits(BaseModel):
    cpu: int = Field(ge=1, le=8)
    names: list[str] = Field(default=[], max_length=2)


class Deploy(BaseModel):
    """What a tool's pydantic model comes to."""

    env: Env
    limits: Limits
    note: str | None = None
    when: date | None = None
    size: Literal["s", "m"] = "s"
    either: int | str = 1
    share: float = Field(default=0.5, gt=0, lt=1)


SCHEMA: dict[str, JsonValue] = Deploy.model_json_schema()


def test_references_choices_and_nulls_are_followed() -> None:
    assert property_names(SCHEMA) == ("env", "limits", "note", "when", "size", "either", "share")

    found = shapes(SCHEMA, [*property_names(SCHEMA), "nothing"])
    assert {name: (set(shape.kinds), shape.nullable) for name, shape in found.items()} == {
        "env": ({"string"}, False),
        "note": ({"string"}, True),
        "when": ({"string"}, True),
        "limits": ({"object"}, False),
        "size": ({"string"}, False),
        "either": (set(), False),
        "share": ({"number"}, False),
    }
    assert found["env"].options == ["dev", "prod"]
    assert found["size"].options == ["s", "m"]
    assert found["when"].format == "date"
    assert [name for name, shape in found.items() if shape.required] == ["env", "limits"]


@pytest.mark.parametrize(
    ("schema", "kinds", "nullable"),
    [
        ({"type": "STRING", "nullable": True}, {"string"}, True),
        ({"type": ["integer", "null"]}, {"integer"}, True),
        ({"type": ["integer", "string"]}, {"integer", "string"}, False),
        ({"oneOf": [{"type": "null"}, {"type": "number"}]}, {"number"}, True),
        ({"allOf": [{"$ref": "#/definitions/a~1b"}], "description": "d"}, {"boolean"}, False),
        ({"$ref": "#/definitions/loop"}, set(), False),
        ({"$ref": "#/nowhere"}, set(), False),
        ({"type": "TYPE_UNSPECIFIED"}, set(), False),
        ({"enum": ["a", None]}, set(), True),
        ({}, set(), False),
        ({"anyOf": "nonsense", "type": 7, "enum": []}, set(), False),
    ],
)
def test_other_ways_to_say_it(schema: dict[str, JsonValue], kinds: set[str], nullable: bool) -> None:
    root: dict[str, JsonValue] = {
        "definitions": {"a/b": {"type": "boolean"}, "loop": {"$ref": "#/definitions/loop"}},
        "properties": {"x": schema},
    }
    shape = shapes(root, ["x"])["x"]
    assert (set(shape.kinds), shape.nullable) == (kinds, nullable)


def test_without_a_schema_there_is_nothing_to_say() -> None:
    assert shapes({"properties": {"x": True}}, ["x"]) == {}
    assert property_names({"type": "object"}) == ()
    assert property_names(None) == ()
    assert shapes({}, ["x"]) == {}


def problem(value: JsonValue, schema: JsonValue, **root: JsonValue) -> str | None:
    return told({"properties": {"x": schema}, **root}, x=value).get("x")


def told(schema: dict[str, JsonValue], **values: JsonValue) -> dict[str, str]:
    return {name: found.sentence() for name, found in problems(schema, values).items()}


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("env", "prod", None),
        ("env", "live", "This must be one of: dev, prod."),
        ("env", 1, "This must be text."),
        ("note", None, None),
        ("note", 5, "This must be text."),
        ("either", "x", None),
        ("either", [], "This must be text or a whole number."),
        ("share", 0.5, None),
        ("share", 1, "This must be less than 1."),
        ("share", 0, "This must be more than 0."),
        ("share", True, "This must be a number."),
        ("limits", {"cpu": 4, "names": ["a"]}, None),
        ("limits", {"cpu": 9}, "cpu must be 8 or less."),
        ("limits", {"cpu": 0}, "cpu must be 1 or more."),
        ("limits", {"cpu": 1.0}, "cpu must be a whole number."),
        ("limits", {"names": []}, "cpu is missing."),
        ("limits", {"cpu": 1, "names": ["a", 2]}, "names: item 2 must be text."),
        ("limits", {"cpu": 1, "names": ["a", "b", "c"]}, "names takes at most 2 items."),
        ("limits", [], "This must be an object."),
    ],
)
def test_a_wrong_value_gets_a_sentence_that_names_the_place(name: str, value: JsonValue, sentence: str | None) -> None:
    assert told(SCHEMA, **{name: value}).get(name) == sentence


def test_what_no_form_has_room_for_is_left_out() -> None:
    many: list[JsonValue] = [f"option-{number}" for number in range(10_000)]
    properties: dict[str, JsonValue] = {"x": {"enum": many, "description": "d" * 100_000, "format": "f" * 100}}
    root: dict[str, JsonValue] = {"properties": properties}
    shape = shapes(root, ["x"])["x"]
    assert shape == Shape(description="d" * 500, required=False)
    assert told(root, x="option-1") == {}
    assert "one of: option-0, option-1" in told(root, x="y")["x"]


def test_a_reference_to_the_whole_is_followed_only_so_far() -> None:
    assert shapes({"$ref": "#"}, ["a"]) == {}
    assert told({"$ref": "#"}, a=1) == {}


def test_a_large_schema_of_an_honest_tool_is_read() -> None:
    leaf: dict[str, JsonValue] = {
        "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}],
        "description": "d",
    }
    rows: dict[str, JsonValue] = {"type": "object", "properties": {f"p{number}": leaf for number in range(50)}}
    schema: dict[str, JsonValue] = {"type": "array", "items": rows}
    assert problem([{f"p{number}": "b" for number in range(50)}] * 20, schema) is None
    assert problem([{"p7": "c"}], schema) == "Item 1: p7 must be one of: a, b."


def test_lengths_and_unknown_names() -> None:
    text: dict[str, JsonValue] = {"type": "string", "minLength": 2, "maxLength": 3}
    assert problem("a", text) == "This takes at least 2 characters."
    assert problem("abcd", text) == "This takes at most 3 characters."
    closed: dict[str, JsonValue] = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert problem({"b": 1}, closed) == "b is not known here."
    mapping: dict[str, JsonValue] = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert problem({"<b>": "x"}, mapping) == "‹b› must be a whole number."
    items: dict[str, JsonValue] = {"type": "array", "minItems": 1}
    assert problem([], items) == "This needs at least 1 items."


def test_a_value_may_be_as_deep_as_a_form_takes_it() -> None:
    value: JsonValue = "not a list"
    for _ in range(60):
        value = [value]
    endless: JsonValue = {"type": "array", "items": {"$ref": "#/definitions/endless"}}
    sentence = problem(value, endless, definitions={"endless": endless})
    assert sentence is not None
    assert sentence.startswith("Item 1: item 1: ")


@pytest.mark.parametrize(
    ("schema", "fits", "unfit", "sentence"),
    [
        ({"type": "STRING", "nullable": True, "enum": ["a"]}, [None, "a"], "b", "This must be one of: a."),
        (
            {"type": "OBJECT", "properties": {"type": {"type": "INTEGER"}}},
            [{"type": 1}],
            {"type": "1"},
            "type must be a whole number.",
        ),
        ({"type": ["integer", "null"]}, [1, None], 1.0, "This must be a whole number."),
        ({"type": "array", "items": {"enum": [1]}}, [[1]], [True], "Item 1 must be one of: 1."),
        ({"pattern": "^a+$"}, ["aa"], "b", "This must match the pattern ^a+$."),
        ({"multipleOf": 5}, [10], 7, "This must be a multiple of 5."),
        (
            {"not": {"type": "string"}},
            [1],
            "x",
            "This is not what the tool takes: 'x' should not be valid under {'type': 'string'}.",
        ),
        ({"type": "TYPE_UNSPECIFIED", "anyOf": "nonsense", "enum": []}, [1, "x"], None, None),
        (7, [1, "x"], None, None),
    ],
)
def test_values_in_other_dialects(
    schema: JsonValue, fits: list[JsonValue], unfit: JsonValue, sentence: str | None
) -> None:
    assert [problem(value, schema) for value in fits] == [None] * len(fits)
    assert sentence is None or problem(unfit, schema) == sentence
