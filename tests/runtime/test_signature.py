"""From a Python function to a declaration, and from JSON to its arguments."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import math
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types
from pydantic import AfterValidator, BaseModel, Field, SecretStr
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from adk_confirm.runtime.context import ReadonlyContext, ToolContext
from adk_confirm.runtime.jsontypes import Json, JsonObject, same
from adk_confirm.runtime.signature import BadArguments, BadTool, Signature
from adk_confirm.runtime.tool import FunctionTool

if TYPE_CHECKING:
    from nowhere import OnlyForCheckers  # type: ignore[import-not-found]  # that is what it stands for


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Item(BaseModel):
    """A thing to buy."""

    name: str
    price: Annotated[float, Field(gt=0)] = 1.0


class Order(BaseModel):
    items: list[Item]
    color: Color = Color.RED


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Renamed(BaseModel):
    name: str = Field(validation_alias="in", serialization_alias="out")


class Address(TypedDict):
    city: str
    street: NotRequired[str]


class Plain:
    """No JSON form."""


def schema(function: Callable[..., object]) -> JsonObject:
    made = Signature.of(function).schema
    Draft202012Validator.check_schema(made)
    return made


def properties(function: Callable[..., object]) -> Any:
    return schema(function)["properties"]


def bind(function: Callable[..., object], args: dict[str, Any], strict: bool = False) -> dict[str, object]:
    """The arguments that are given, as the function gets them."""
    bound = Signature.of(function).bind(args, strict=strict)
    return {name: value for name, value in bound.values.items() if name not in bound.defaults}


def problems(function: Callable[..., object], args: dict[str, Any], strict: bool = False) -> dict[str, str]:
    with pytest.raises(BadArguments) as caught:
        Signature.of(function).bind(args, strict=strict)
    return caught.value.fields


# Declarations


def reimburse(purpose: str, amount: float, currency: str = "EUR", note: str | None = None) -> dict[str, Any]:
    """Reimburses an employee.

    Args:
        purpose: what the money
            was for
        amount: how much of it
    """
    return {"purpose": purpose, "amount": amount, "currency": currency, "note": note}


def test_a_declaration_comes_from_the_signature_and_the_docstring() -> None:
    signature = Signature.of(reimburse)
    assert signature.name == "reimburse"
    assert signature.description.startswith("Reimburses an employee.\n\nArgs:\n    purpose: what the money")
    assert signature.schema == {
        "type": "object",
        "properties": {
            "purpose": {"type": "string", "description": "what the money\nwas for"},
            "amount": {"type": "number", "description": "how much of it"},
            "currency": {"type": "string", "default": "EUR"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        },
        "required": ["purpose", "amount"],
    }


def test_other_docstring_styles_describe_arguments_too() -> None:
    def sphinx(days: int) -> None:
        """Asks for time off.

        :param days: how many
        """

    def numpy(days: int) -> None:
        """Asks for time off.

        Parameters
        ----------
        days : int
            how many
        """

    for function in (sphinx, numpy):
        assert properties(function)["days"]["description"] == "how many"


def rich(
    order: Order,
    items: list[Item],
    counts: dict[str, int],
    where: Point,
    address: Address,
    pair: tuple[int, str],
    color: Color,
    size: Size,
    mood: Literal["good", "bad"],
    when: datetime.date,
    at: datetime.datetime,
    key: uuid.UUID,
    price: decimal.Decimal,
    few: Annotated[int, Field(gt=0, le=5, description="a few")],
    either: int | str | None,
) -> None: ...


RICH: JsonObject = {
    "order": {"items": [{"name": "pen"}], "color": "blue"},
    "items": [{"name": "ink", "price": 2}],
    "counts": {"a": 1},
    "where": {"x": 1},
    "address": {"city": "Oslo"},
    "pair": [1, "x"],
    "color": "blue",
    "size": 2,
    "mood": "bad",
    "when": "2026-01-02",
    "at": "2026-01-02T03:04:05Z",
    "key": "12345678-1234-5678-1234-567812345678",
    "price": "1.10",
    "few": 5,
    "either": None,
}


def test_models_enums_dates_and_the_like_are_described() -> None:
    made = schema(rich)
    definitions: Any = made["$defs"]
    assert set(definitions) == {"Order", "Item", "Point", "Address", "Color", "Size"}
    assert definitions["Color"]["enum"] == ["red", "blue"]
    assert definitions["Item"]["description"] == "A thing to buy."
    assert definitions["Item"]["properties"]["price"]["exclusiveMinimum"] == 0
    found: Any = made["properties"]
    assert found["items"] == {"type": "array", "items": {"$ref": "#/$defs/Item"}}
    assert found["counts"] == {"type": "object", "additionalProperties": {"type": "integer"}}
    assert found["mood"] == {"type": "string", "enum": ["good", "bad"]}
    assert found["when"] == {"type": "string", "format": "date"}
    assert found["few"] == {"type": "integer", "exclusiveMinimum": 0, "maximum": 5, "description": "a few"}
    assert found["either"] == {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "null"}]}
    assert set(made["required"]) == set(RICH)  # type: ignore[arg-type]  # a list
    assert not list(Draft202012Validator(made).iter_errors(RICH))


@pytest.mark.parametrize("strict", [False, True])
def test_and_arrive_as_what_they_are(strict: bool) -> None:
    assert bind(rich, RICH, strict) == {
        "order": Order(items=[Item(name="pen")], color=Color.BLUE),
        "items": [Item(name="ink", price=2)],
        "counts": {"a": 1},
        "where": Point(1),
        "address": {"city": "Oslo"},
        "pair": (1, "x"),
        "color": Color.BLUE,
        "size": Size.LARGE,
        "mood": "bad",
        "when": datetime.date(2026, 1, 2),
        "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "key": uuid.UUID("12345678-1234-5678-1234-567812345678"),
        "price": decimal.Decimal("1.10"),
        "few": 5,
        "either": None,
    }


class Desk:
    """A desk."""

    def __call__(self, days: int) -> int:
        """Counts days."""
        return days

    def method(self, days: int) -> int:
        """Counts days."""
        return days

    @classmethod
    def of_class(cls, days: int) -> int:
        """Counts days."""
        return days

    @staticmethod
    def static(days: int) -> int:
        """Counts days."""
        return days


def days_and_more(more: int, days: int) -> int:
    """Counts days."""
    return more + days


@functools.wraps(reimburse)
def wrapped(*args: Any, **kwargs: Any) -> Any:
    return reimburse(*args, **kwargs)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (Desk(), "Desk"),
        (Desk().method, "method"),
        (Desk.of_class, "of_class"),
        (Desk.static, "static"),
        (functools.partial(days_and_more, 1), "days_and_more"),
        (functools.partial(functools.partial(days_and_more), 1), "days_and_more"),
    ],
)
def test_any_callable_can_be_described(function: Callable[..., object], name: str) -> None:
    signature = Signature.of(function)
    assert (signature.name, signature.description) == (name, "Counts days.")
    assert signature.schema == {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days"]}
    assert isinstance(signature.callable_with(signature.bind({"days": 2}).values)(), int)


def test_a_decorated_function_is_described_as_the_function_that_it_wraps() -> None:
    assert Signature.of(wrapped).schema == Signature.of(reimburse).schema
    assert Signature.of(wrapped).name == "reimburse"


def test_without_annotations_anything_goes() -> None:
    def bare(a, b=5):  # type: ignore[no-untyped-def]  # that is the point
        return a, b

    assert schema(bare) == {"type": "object", "properties": {"a": {}, "b": {"default": 5}}, "required": ["a"]}
    assert bind(bare, {"a": {"x": [1]}}) == {"a": {"x": [1]}}


def test_names_that_pydantic_keeps_for_itself_are_fine() -> None:
    def odd(schema: str, model_config: int, copy: bool, _x: int, json: str) -> None: ...

    args = {"schema": "s", "model_config": 1, "copy": True, "_x": 2, "json": "j"}
    assert set(properties(odd)) == set(args)
    assert bind(odd, args) == args


def test_star_arguments_are_not_declared_but_named_ones_reach_the_function() -> None:
    def open_ended(a: int, *rest: int, **more: Any) -> dict[str, Any]:
        return {"a": a, "rest": rest, **more}

    signature = Signature.of(open_ended)
    assert set(properties(open_ended)) == {"a"}
    assert signature.callable_with(signature.bind({"a": 1, "b": [2]}).values)() == {"a": 1, "rest": (), "b": [2]}
    assert signature.schema["additionalProperties"] is True


def test_positional_only_arguments_find_their_places() -> None:
    def places(a: int, b: int = 2, c: int = 3, /, d: int = 4) -> tuple[int, ...]:
        return a, b, c, d

    signature = Signature.of(places)
    for args, came in (
        ({"a": 1}, (1, 2, 3, 4)),
        ({"a": 1, "c": 30}, (1, 2, 30, 4)),
        ({"a": 1, "b": 20, "d": 40}, (1, 20, 3, 40)),
    ):
        assert signature.callable_with(signature.bind(dict(args)).values)() == came


def sentinel(a: int = object()) -> None: ...  # type: ignore[assignment]  # a habit of some
def endless(a: float = math.inf) -> None: ...
def of_another_type(a: int = "auto") -> None: ...  # type: ignore[assignment]  # a mistake


@pytest.mark.parametrize("function", [sentinel, endless, of_another_type])
def test_a_default_that_people_could_not_be_shown_makes_no_tool(function: Callable[..., object]) -> None:
    with pytest.raises(BadTool, match=r"the default of a \(.*\) can't be shown on a card as it would reach"):
        FunctionTool(function)


# The context


def by_name(a: int, tool_context: OnlyForCheckers) -> OnlyForCheckers: ...
def by_type(a: int, ctx: ToolContext) -> None: ...
def optional(a: int, ctx: ToolContext | None = None) -> None: ...
def readonly(a: int, ctx: ReadonlyContext) -> None: ...
def annotated(a: int, ctx: Annotated[ToolContext, "x"]) -> None: ...
def bare(a: int, tool_context=None) -> None: ...  # type: ignore[no-untyped-def]  # as scripts have it
def first(tool_context: ToolContext, /, a: int) -> None: ...
def none(a: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (by_name, "tool_context"),
        (by_type, "ctx"),
        (optional, "ctx"),
        (readonly, "ctx"),
        (annotated, "ctx"),
        (bare, "tool_context"),
        (first, "tool_context"),
        (none, None),
    ],
)
def test_the_context_is_known_by_name_or_type_and_never_declared(
    function: Callable[..., object], name: str | None
) -> None:
    signature = Signature.of(function)
    assert signature.context_name == name
    assert signature.names == {"a"}
    assert schema(function) == {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


# Types that cannot be


def unknown_type(a: int, thing: Plain) -> None: ...
def a_function(thing: Callable[[], int]) -> None: ...
def misspelled(a: OnlyForCheckers) -> None: ...


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        (
            unknown_type,
            "unknown_type: the argument thing is of type Plain, which has no JSON form; use plain types, dataclasses "
            "or pydantic models.",
        ),
        (a_function, "a_function: the argument thing is of type "),
        (
            misspelled,
            "misspelled: name 'OnlyForCheckers' is not defined; import the annotation's type where the tool is "
            "defined.",
        ),
        (int, "int has no readable signature; wrap it in a function that has one."),
    ],
)
def test_a_type_without_a_json_form_is_reported(function: Callable[..., object], sentence: str) -> None:
    with pytest.raises(BadTool) as caught:
        _ = Signature.of(function).schema
    assert str(caught.value).startswith(sentence)


# Lax as models write, strict as people edit


def numbers(
    n: int = 0, x: float = 0.0, flag: bool = False, text: str = "", many: list[float] | None = None
) -> None: ...


@pytest.mark.parametrize(
    ("args", "field", "problem"),
    [
        ({"n": "5"}, "n", "Input should be a valid integer, not '5'"),
        ({"n": True}, "n", "Input should be a valid integer, not True"),
        ({"flag": 1}, "flag", "Input should be a valid boolean, not 1"),
        ({"many": [1, "2"]}, "many.1", "Input should be a valid number, not '2'"),
        ({"n": None}, "n", "Input should be a valid integer, not None"),
    ],
)
def test_what_people_edit_is_held_to_the_type(args: JsonObject, field: str, problem: str) -> None:
    assert problems(numbers, args, strict=True) == {field: problem}


def test_every_field_that_does_not_fit_is_named() -> None:
    fields = problems(reimburse, {"amount": "much", "note": ["x"]})
    assert fields == {
        "purpose": "is missing",
        "amount": "Input should be a valid number, unable to parse string as a number, not 'much'",
        "note": "Input should be a valid string, not ['x']",
    }
    with pytest.raises(BadArguments) as caught:
        bind(reimburse, {"purpose": "p", "amount": "x" * 500})
    assert str(caught.value).startswith("The arguments of reimburse do not fit: amount: Input should be a valid number")
    assert len(str(caught.value)) < 250, "long values are cut"


def test_unknown_names_are_refused_together_with_all_else_that_is_wrong() -> None:
    known = "is not an argument (there are: amount, currency, note, purpose)"
    assert problems(reimburse, {"purpose": "x", "b": 1, "a": 2}) == {"a": known, "b": known, "amount": "is missing"}


def takes_more(a: int, tool_context: ToolContext, **more: Any) -> None: ...


def refuse(word: str) -> str:
    raise ValueError(word * 5_000_000)


def takes_nothing(word: Annotated[str, AfterValidator(refuse)]) -> None: ...


def test_what_a_validator_says_at_length_is_cut() -> None:
    with pytest.raises(BadArguments, match="xxx") as caught:
        bind(takes_nothing, {"word": "x"})
    assert len(str(caught.value)) < 2100


def test_nobody_but_the_runtime_gives_the_context() -> None:
    assert bind(takes_more, {"a": 1, "b": 2}) == {"a": 1, "b": 2}
    for function in (takes_more, by_name, by_type):
        name = Signature.of(function).context_name
        assert name is not None
        assert problems(function, {"a": 1, name: "x"}) == {name: "is not an argument (there are: a)"}


# What is shown is what runs


def delete(project: str, recursive: bool = True, force: bool = False) -> None: ...


def loose(
    price: decimal.Decimal = decimal.Decimal("1.10"),
    tags: set[str] = frozenset("ba"),  # type: ignore[assignment]  # what some write
    color: Color = Color.RED,
    count: int = None,  # type: ignore[assignment]  # noqa: RUF013  (a habit of some)
    where: Point = Point(1),  # noqa: B008
    rate: float = 1,
) -> None: ...


DELETE: JsonObject = {"force": True, "project": "p"}
ODD: Json = [10**400, -0.0, 1.0, "\0", {"": None}]
DEFAULTS: JsonObject = {
    "price": 1.1,
    "tags": ["a", "b"],
    "color": "red",
    "count": None,
    "where": {"x": 1, "y": 0},
    "rate": 1,
}


def open_price(price: decimal.Decimal) -> None: ...
def ordered(order: Order) -> None: ...
def anything(x: Any) -> None: ...


@pytest.mark.parametrize(
    ("function", "args", "canonical", "defaults"),
    [
        (delete, {"project": "p", "force": "yes"}, {"project": "p", "force": True, "recursive": True}, ("recursive",)),
        (delete, {"force": 1, "project": "p", "recursive": "off"}, {**DELETE, "recursive": False}, ()),
        (loose, {}, DEFAULTS, tuple(DEFAULTS)),
        (loose, {**DEFAULTS, "tags": ["b", "a", "b"], "price": "2"}, {**DEFAULTS, "price": 2.0}, ()),
        (open_price, {"price": 1500}, {"price": 1500}, ()),
        (open_price, {"price": "0.1"}, {"price": 0.1}, ()),
        (open_price, {"price": "1e999999999"}, {"price": "1E+999999999"}, ()),
        (open_price, {"price": "0.12345678901234567890"}, {"price": "0.12345678901234567890"}, ()),
        (
            ordered,
            {"order": {"items": [{"name": "pen", "dry_run": True}, {"name": "ink", "price": "2"}]}},
            {"order": {"items": [{"name": "pen", "price": 1.0}, {"name": "ink", "price": 2.0}], "color": "red"}},
            (),
        ),
        (anything, {"x": ODD}, {"x": ODD}, ()),
    ],
)
def test_a_call_has_one_form_whatever_the_model_wrote(
    function: Callable[..., object], args: JsonObject, canonical: JsonObject, defaults: tuple[str, ...]
) -> None:
    bound = Signature.of(function).bind(args)
    assert same(bound.args, canonical)
    assert list(bound.args) == list(canonical), "what was given comes first"
    assert bound.defaults == defaults
    again = Signature.of(function).bind(bound.args, strict=True)
    assert same(again.args, canonical), "people may leave everything as it is"
    assert again.values == bound.values


def test_a_default_is_never_the_one_that_an_earlier_call_changed() -> None:
    def collect(into: list[int] = []) -> None:  # noqa: B006  (what some write)
        into.append(1)

    signature = Signature.of(collect)
    for _ in range(2):
        bound = signature.bind({})
        assert bound.args == bound.values == {"into": []}
        signature.callable_with(bound.values)()


def secret(x: SecretStr) -> None: ...
def counts(x: Annotated[int, AfterValidator(lambda value: value + 1)]) -> None: ...
def renamed(x: Renamed) -> None: ...


@pytest.mark.parametrize(
    ("function", "args"), [(secret, {"x": "hunter2"}), (counts, {"x": 1}), (renamed, {"x": {"in": "a"}})]
)
def test_what_would_run_otherwise_than_shown_is_refused(function: Callable[..., object], args: JsonObject) -> None:
    assert "x" in str(problems(function, args))


@given(
    st.fixed_dictionaries(
        {"purpose": st.text(), "amount": st.integers() | st.floats(allow_nan=False, allow_infinity=False)},
        optional={"currency": st.text(), "note": st.none() | st.text()},
    )
)
def test_good_arguments_arrive_unchanged_whoever_wrote_them(args: dict[str, Any]) -> None:
    if isinstance(args["amount"], int) and abs(args["amount"]) > 2**1000:
        return  # no float
    for strict in (False, True):
        bound = bind(reimburse, args, strict)
        assert bound == args
        assert type(bound["amount"]) is type(args["amount"])
