"""The schemas of an MCP server's tools are checked within limits."""

from __future__ import annotations

import time

import pytest

from adk_confirm.runtime.adk.type_checks import misfits
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.mcp.toolset import McpTool, wrong_schemas
from adk_confirm.runtime.signature import BadArguments, Bound
from adk_confirm.runtime.tool import schema_problems


def nested(name: str, depth: int) -> JsonObject:
    value: JsonObject = {}
    for _ in range(depth):
        value = {name: value}
    return value


def test_a_problem_deep_inside_is_named_by_its_place() -> None:
    item: JsonObject = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
    schema: JsonObject = {"type": "object", "properties": {"rows": {"type": "array", "items": item}}}
    assert schema_problems(schema, {"rows": [{"n": 1}, {"n": "x"}, {}]}) == {
        "rows.1.n": "must be a number",
        "rows.2.n": "is missing",
    }


def test_a_schema_that_refers_elsewhere_is_never_fetched() -> None:
    schema: JsonObject = {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    [problem] = schema_problems(schema, {"a": 1}).values()
    assert problem.startswith("cannot be checked, since the schema refers to something that is not there")


REDOS: JsonObject = {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}
BRANCHING: JsonObject = {
    "type": "object",
    "anyOf": [{"properties": {"x": {"$ref": "#"}}, "required": [f"y{number}"]} for number in range(8)],
}


@pytest.mark.parametrize(
    ("schema", "args"),
    [
        (REDOS, {"a": "a" * 60 + "b"}),
        ({"type": "object", "patternProperties": {"^(a+)+$": False}}, {"a" * 60 + "b": 1}),
        ({"$ref": "#"}, {"a": 1}),
        ({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}, {"a": 1}),
        ({"$ref": "#", "unevaluatedProperties": False}, {"a": 1}),
        (BRANCHING, nested("x", 30)),
        ({"properties": {"l": {"uniqueItems": True}}}, {"l": [{"n": number} for number in range(20_000)]}),
    ],
)
def test_a_schema_that_takes_for_ever_is_refused(schema: JsonObject, args: JsonObject) -> None:
    [problem] = schema_problems(schema, args).values()
    assert problem.startswith("cannot be checked against the tool's schema: it takes more than 0.1 s")
    assert schema_problems({"type": "object", "additionalProperties": True}, args) == {}


def test_a_schema_that_breaks_its_reader_is_refused() -> None:
    [problem] = schema_problems({"properties": {"a": {"pattern": "("}}}, {"a": "x"}).values()
    assert problem.startswith("cannot be checked against the tool's schema: ")


def test_what_patterns_can_say_stays_as_it_was() -> None:
    """Lookaround and backreferences too: no other engine reads them."""
    schema: JsonObject = {"properties": {"a": {"pattern": r"^(?!x)(.)\1$"}}}
    assert schema_problems(schema, {"a": "bb"}) == {}
    assert list(schema_problems(schema, {"a": "xx"})) == ["a"]


def test_schemas_are_read_within_limits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool whose schema takes too long is left out; a server that offers many of them is not waited for."""
    monkeypatch.setattr("adk_confirm.runtime.mcp.toolset.LISTING_SECONDS", 0.2)
    slow: JsonObject = {"properties": {f"p{n}": {"allOf": [{"type": "string"}] * 20} for n in range(6_000)}}
    deep: JsonObject = {"properties": {"note": nested("not", 100)}}
    schemas: list[JsonObject] = [{"type": "object"}, {"type": "nonsense"}, deep, slow, slow, slow, {"type": "object"}]

    async def call(name: str, args: JsonObject) -> JsonObject:
        raise AssertionError(name)

    tools = [
        McpTool({"name": f"t{number}", "inputSchema": schema}, prefix="", held=True, call=call)
        for number, schema in enumerate(schemas)
    ]
    wrong = wrong_schemas(tools)
    costly = "is not read: it takes more than 0.2 s or 10 MB to check"
    assert wrong == {
        "t1": "is not valid",
        "t2": "is nested deeper than 64 levels",
        **dict.fromkeys(("t3", "t4", "t5"), costly),
        "t6": "comes after others that take too long to check",
    }


A: JsonObject = {"type": "object", "properties": {"a": {"type": "integer", "default": 5}}}
NOT_B = {"b": "is not an argument (there are: a)"}


B: JsonObject = {"type": "object", "properties": {"kind": {"const": "b"}, "b": {"type": "integer", "default": 6}}}
A_OR_B: JsonObject = {"anyOf": [{**A, "properties": {**A["properties"], "kind": {"enum": ["a"]}}}, B]}  # type: ignore[dict-item]


def inside(rules: JsonObject) -> JsonObject:
    return {"type": "object", "properties": {"o": rules}, "$defs": {"A": A}}


async def no_call(name: str, args: JsonObject) -> JsonObject:
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("schema", "args", "sent", "defaults"),
    [
        (A, {}, {"a": 5}, ("a",)),
        (A, {"a": 6}, {"a": 6}, ()),
        (A, {"b": 1}, NOT_B, None),
        ({**A, "additionalProperties": False}, {"b": 1}, NOT_B, None),
        ({**A, "additionalProperties": True}, {"b": 1}, {"b": 1, "a": 5}, ("a",)),
        ({**A, "additionalProperties": {}}, {"b": 1}, {"b": 1, "a": 5}, ("a",)),
        ({**A, "additionalProperties": {"type": "string"}}, {"b": 1}, {"b": "must be text"}, None),
        ({**A, "patternProperties": {"^x-": {}}}, {"x-b": 1}, {"x-b": 1, "a": 5}, ("a",)),
        ({**A, "patternProperties": {"^x-": {}}}, {"b": 1}, NOT_B, None),
        ({**A, "required": ["a"]}, {}, {"a": "is missing"}, None),
        ({"allOf": [{"$ref": "#/$defs/A"}], "$defs": {"A": A}}, {"a": 1}, {"a": 1}, ()),
        ({"type": "object"}, {"b": 1}, {"b": "is not an argument (there are: none)"}, None),
        (None, {}, {}, ()),
        (inside(A), {"o": {"a": 1, "b": 1}}, {"o.b": NOT_B["b"]}, None),
        (inside({"type": "array", "items": A}), {"o": [{"b": 1}]}, {"o.0.b": NOT_B["b"]}, None),
        (inside({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}), {"o": {"b": 1}}, {"o.b": NOT_B["b"]}, None),
        (inside({"anyOf": [{"$ref": "#/$defs/A"}, {"type": "null"}]}), {"o": {}}, {"o": {"a": 5}}, ()),
        (inside({"$ref": "#/$defs/A", "default": {}}), {}, {"o": {"a": 5}}, ("o",)),
        (inside({**A, "additionalProperties": True}), {"o": {"b": 1}}, {"o": {"a": 5, "b": 1}}, ()),
        (inside({"type": "object"}), {"o": {"b": 1}}, {"o": {"b": 1}}, ()),
        (inside({"$ref": "#/$defs/A/properties/a"}), {}, {"o": 5}, ("o",)),
        (inside(A_OR_B), {"o": {"kind": "b", "a": 1}}, {"o.a": "is not an argument (there are: kind, b)"}, None),
        (inside(A_OR_B), {"o": {"kind": "b"}}, {"o": {"kind": "b", "b": 6}}, ()),
        (inside(A_OR_B), {"o": {"a": 1}}, {"o": {"a": 1}}, ()),
        (inside({"additionalProperties": A}), {"o": {"x": {"b": 1}}}, {"o.x.b": NOT_B["b"]}, None),
        (inside({"prefixItems": [A]}), {"o": [{"b": 1}]}, {"o.0.b": NOT_B["b"]}, None),
        (inside({"prefixItems": [A]}), {"o": [{}, {"b": 1}]}, {"o": [{"a": 5}, {"b": 1}]}, ()),
    ],
)
def test_what_is_sent_is_what_the_schema_declares(
    schema: Json, args: JsonObject, sent: dict[str, Json], defaults: tuple[str, ...] | None
) -> None:
    """Defaults are part of what people see. Other names are refused, unless the schema says that it takes them."""
    tool = McpTool({"name": "t", "inputSchema": schema}, prefix="", held=True, call=no_call)
    if defaults is None:
        with pytest.raises(BadArguments) as caught:
            tool.bind(args)
        assert caught.value.fields == sent
    else:
        assert tool.bind(args) == Bound(sent, defaults)


def test_a_long_reference_of_a_stranger_is_looked_up_once() -> None:
    """Each time takes 20 ms."""
    schema: JsonObject = {"properties": {"x": {"items": {"$ref": "#/" + "a/" * 100_000}}}}
    before = time.process_time()
    assert misfits(schema, {"x": [1] * 500}) == {}
    assert time.process_time() - before < 2


def test_where_something_is_wrong_is_told_only_if_that_is_short() -> None:
    """Each of the places would be a text of its own, as long as the name."""
    name = "x" * 100_000
    with pytest.raises(Invalid, match="too large to compare"):
        misfits({"properties": {name: {"items": {"type": "string"}}}}, {name: [1] * 500})


def test_what_would_fit_is_told_in_few_words() -> None:
    told = misfits({"properties": {"x": {"enum": ["y" * 100_000, *map(str, range(1000))]}}}, {"x": "z"})
    assert len(told["x"]) < 300


def test_defaults_without_end_are_refused() -> None:
    endless: JsonObject = {"properties": {name: {"$ref": "#", "default": {}} for name in "ab"}}
    with pytest.raises(Invalid, match="have no end"):
        McpTool({"name": "t", "inputSchema": endless}, prefix="", held=True, call=no_call).bind({})
