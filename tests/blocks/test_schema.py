"""Schemas as pydantic, google-genai and MCP servers write them."""

from __future__ import annotations

from datetime import date
from enum import StrEnum
from typing import Literal

import pytest
from pydantic import BaseModel, Field, JsonValue

from blocks.schema import bounds, problem, property_names, property_of, shape_of


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

    def shape(name: str) -> tuple[set[str], bool]:
        found = shape_of(property_of(SCHEMA, name), SCHEMA, name)
        return set(found.kinds), found.nullable

    assert shape("env") == ({"string"}, False)
    assert shape("note") == ({"string"}, True)
    assert shape("when") == ({"string"}, True)
    assert shape("limits") == ({"object"}, False)
    assert shape("either") == (set(), False)
    assert shape("share") == ({"number"}, False)
    assert shape_of(property_of(SCHEMA, "env"), SCHEMA, "env").options == ("dev", "prod")
    assert shape_of(property_of(SCHEMA, "size"), SCHEMA, "size").options == ("s", "m")
    assert shape_of(property_of(SCHEMA, "when"), SCHEMA, "when").format == "date"
    assert shape_of(property_of(SCHEMA, "env"), SCHEMA, "env").required
    assert not shape_of(property_of(SCHEMA, "note"), SCHEMA, "note").required


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
    shape = shape_of(property_of(root, "x"), root, "x")
    assert (set(shape.kinds), shape.nullable) == (kinds, nullable)


def test_without_a_schema_there_is_nothing_to_say() -> None:
    assert property_of(None, "x") is None
    assert property_of({"properties": {"x": True}}, "x") is None
    assert property_names({"type": "object"}) == ()
    assert shape_of(None, None).kinds == frozenset()
    assert bounds(None, None) == (None, None)


def wrong(name: str, value: JsonValue) -> str | None:
    found = property_of(SCHEMA, name)
    assert found is not None
    return problem(value, found, SCHEMA)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("env", "prod", None),
        ("env", "live", "This must be one of: dev, prod."),
        ("env", 1, "This must be text."),
        ("note", None, None),
        ("note", 5, "This must be text or null."),
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
        ("limits", {"names": []}, "This lacks cpu."),
        ("limits", {"cpu": 1, "names": ["a", 2]}, "names.2 must be text."),
        ("limits", {"cpu": 1, "names": ["a", "b", "c"]}, "names takes at most 2 items."),
        ("limits", [], "This must be an object."),
    ],
)
def test_a_wrong_value_gets_a_sentence_that_names_the_place(name: str, value: JsonValue, sentence: str | None) -> None:
    found = wrong(name, value)
    assert (found or "").replace(" or null", "") == (sentence or "").replace(" or null", "")


SAYS_TOO_LONG = "This field takes too long to check. Leave it as it was."
AGAIN: JsonValue = {"type": "object", "properties": {"x": {"$ref": "#"}}}
NESTED: dict[str, JsonValue] = {"anyOf": [AGAIN, AGAIN, AGAIN]}
WIDE: dict[str, JsonValue] = {**NESTED, **{f"x-{number}": number for number in range(100_000)}}


@pytest.mark.parametrize("schema", [NESTED, WIDE])
def test_a_schema_that_branches_without_end_is_refused(schema: dict[str, JsonValue]) -> None:
    """Three ways on at each of fourteen levels: four million places."""
    value: JsonValue = "no object"
    for _ in range(14):
        value = {"x": value}
    assert problem(value, schema, schema) == SAYS_TOO_LONG


def test_a_long_list_is_not_read_over_and_over() -> None:
    many: list[JsonValue] = [f"option-{number}" for number in range(2000)]
    options: dict[str, JsonValue] = {"type": "array", "items": {"enum": [*many, "x"]}}
    assert problem(["x"] * 200, options, options) is None
    assert problem(["x"] * 1500, options, options) == SAYS_TOO_LONG
    kinds: dict[str, JsonValue] = {"type": "array", "items": {"type": [*many, "string"]}}
    assert problem(["x"] * 200, kinds, kinds) is None
    assert problem(["x"] * 1500, kinds, kinds) == SAYS_TOO_LONG


def test_a_reference_to_the_whole_is_followed_only_so_far() -> None:
    schema: dict[str, JsonValue] = {"$ref": "#"}
    assert problem({"a": 1}, schema, schema) is None
    assert shape_of(schema, schema).kinds == frozenset()


def test_a_large_schema_of_an_honest_tool_is_read() -> None:
    leaf: dict[str, JsonValue] = {
        "anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}],
        "description": "d",
    }
    rows: dict[str, JsonValue] = {"type": "object", "properties": {f"p{number}": leaf for number in range(50)}}
    schema: dict[str, JsonValue] = {"type": "array", "items": rows}
    assert problem([{f"p{number}": "b" for number in range(50)}] * 20, schema, schema) is None
    assert problem([{"p7": "c"}], schema, schema) == "1.p7 must be one of: a, b."


def test_lengths_and_unknown_names() -> None:
    text: dict[str, JsonValue] = {"type": "string", "minLength": 2, "maxLength": 3}
    assert problem("a", text, text) == "This takes at least 2 characters."
    assert problem("abcd", text, text) == "This takes at most 3 characters."
    closed: dict[str, JsonValue] = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert problem({"b": 1}, closed, closed) == "This takes no b."
    mapping: dict[str, JsonValue] = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert problem({"<b>": "x"}, mapping, mapping) == "‹b› must be a whole number."
    items: dict[str, JsonValue] = {"type": "array", "minItems": 1}
    assert problem([], items, items) == "This needs at least 1 items."


def test_a_value_deeper_than_anybody_writes_is_left_to_the_tool() -> None:
    endless: dict[str, JsonValue] = {"type": "array", "items": {"$ref": "#"}}
    value: JsonValue = "not a list"
    for _ in range(500):
        value = [value]
    assert problem(value, endless, endless) is None
