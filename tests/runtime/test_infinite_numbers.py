"""An attacker wants to get past a limit of 1000 with "not a number" or infinity."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, RootModel
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from adk_confirm import Agent, FunctionTool, ScriptedModel, call
from adk_confirm.runtime.jsontypes import Json, JsonObject, find_non_finite
from adk_confirm.runtime.signature import BadArguments, Signature
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat

seen: list[object] = []
paid: list[object] = []


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    seen.clear()
    paid.clear()


class Line(BaseModel):
    amount: float = 0.0


class Loose(BaseModel, extra="allow"):
    name: str = ""


class Sums(RootModel[list[float]]):
    pass


@dataclasses.dataclass
class Position:
    amount: float
    line: Line | None = None


class Plain(TypedDict):
    amount: float


def takes(annotation: object) -> Signature:
    """Of a tool with one argument of that type."""

    def pay(amount: Any) -> None: ...

    pay.__annotations__["amount"] = annotation
    return Signature.of(pay)


WAYS_IN: list[tuple[object, Callable[[Json], Json], str]] = [
    (float, lambda number: number, "amount"),
    (float | None, lambda number: number, "amount"),
    (Annotated[float, Field(le=10.0**300)] | None, lambda number: number, "amount"),
    (int | float, lambda number: number, "amount"),
    (list[float], lambda number: [1.0, number], "amount.1"),
    (tuple[float, ...], lambda number: [number], "amount.0"),
    (set[float], lambda number: [number], "amount.0"),
    (dict[str, float], lambda number: {"sum": number}, "amount.sum"),
    (Line, lambda number: {"amount": number}, "amount.amount"),
    (list[Line], lambda number: [{"amount": 1}, {"amount": number}], "amount.1.amount"),
    (Sums, lambda number: [number], "amount.root.0"),
    (Position, lambda number: {"amount": number}, "amount.amount"),
    (Position, lambda number: {"amount": 1, "line": {"amount": number}}, "amount.line.amount"),
    (Plain, lambda number: {"amount": number}, "amount.amount"),
    (Iterable[float], lambda number: [1, number], "amount"),
    (Iterable[Line], lambda number: [{"amount": number}], "amount"),
    (Decimal, lambda number: number, "amount"),
    (list[Decimal], lambda number: [number], "amount.0"),
    (complex, lambda number: number, "amount"),
]
BARE: list[tuple[object, Callable[[Json], Json], str]] = [
    (Any, lambda number: number, "amount"),
    (Any, lambda number: {"deep": [{"er": number}]}, "amount.deep.0.er"),
    (dict, lambda number: {"sum": number}, "amount.sum"),
    (list, lambda number: [[number]], "amount.0.0"),
    (Loose, lambda number: {"amount": number}, "amount.amount"),
]
NUMBERS: list[Json] = [math.nan, math.inf, -math.inf, json.loads("1e999")]
TEXTS: list[Json] = ["nan", "NaN", "-nan", "inf", "Infinity", "-inf", "+Infinity", " nan ", "1e999", "-1e999"]


def refused(signature: Signature, value: Json) -> JsonObject:
    """What is wrong, by field; empty if it got in."""
    try:
        bound = signature.bind({"amount": value})
    except BadArguments as wrong:
        return {**wrong.fields}
    assert find_non_finite(bound.values) == {}
    return {}


@pytest.mark.parametrize(("annotation", "within", "field"), WAYS_IN, ids=[f"{one[0]} {one[2]}" for one in WAYS_IN])
def test_nan_and_infinity_get_in_nowhere(annotation: object, within: Callable[[Json], Json], field: str) -> None:
    signature = takes(annotation)
    assert signature.bind({"amount": within(1)})
    for number in (*NUMBERS, *TEXTS):
        wrong = refused(signature, within(number))
        a_number = "Decimal" in str(annotation) and "1e999" in str(number)  # for a Decimal it is one like others
        assert any(where.startswith("amount") for where in wrong) is not a_number, number


@pytest.mark.parametrize(("annotation", "within", "field"), [*WAYS_IN[:14], *BARE])
def test_the_field_is_named(annotation: object, within: Callable[[Json], Json], field: str) -> None:
    for number in NUMBERS:
        assert field.replace(".root", "") in refused(takes(annotation), within(number)), number


def test_undeclared_arguments_must_be_finite_too() -> None:
    def pay(**rest: object) -> None: ...

    with pytest.raises(BadArguments, match="extra: is not a finite number"):
        Signature.of(pay).bind({"extra": math.nan})


def test_a_text_stays_a_text() -> None:
    assert takes(str).bind({"amount": "nan"}).values == {"amount": "nan"}
    assert takes(float | str).bind({"amount": "inf"}).values == {"amount": "inf"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(value=json_values)
def test_however_deep_it_is_found(value: Any) -> None:
    """`json` refuses to write exactly these values, and is asked as a judge."""
    try:
        json.dumps(value, allow_nan=False)
        sound = True
    except ValueError:
        sound = False
    assert (find_non_finite({"amount": value}) == {}) is sound


@given(amount=st.floats() | st.floats().map(str) | st.sampled_from(TEXTS) | st.text(max_size=6))
def test_whatever_reaches_a_predicate_is_below_the_limit_or_not(amount: Json) -> None:
    try:
        bound = takes(float).bind({"amount": amount}).values["amount"]
    except BadArguments:
        return
    assert isinstance(bound, float | int)
    assert (bound > 1000) is not (bound <= 1000)


def over_1000(amount: float) -> bool:
    seen.append(amount)
    return amount > 1000


def pay(amount: float) -> str:
    paid.append(amount)
    return "paid"


@pytest.mark.parametrize("amount", ["nan", "NaN", math.nan, math.inf, "-inf"])
async def test_the_model_says_nan_and_the_predicate_is_not_even_asked(run: MakeRunner, amount: Json) -> None:
    model = ScriptedModel(call("pay", amount=amount), "I could not.")
    chat = Chat(run(Agent("payer", model, tools=[FunctionTool(pay, require_confirmation=over_1000)])))
    said = await chat.say("Pay")
    assert (seen, paid) == ([], [])
    assert "The arguments of pay do not fit: amount" in str(said.result("pay"))


def total(amounts: Iterable[float]) -> Iterator[float]:
    yield sum(amounts)


def test_what_is_read_piece_by_piece_is_read_at_once() -> None:
    bound = Signature.of(total).bind({"amounts": [1, 2.5]}).values
    assert list(bound["amounts"]) == [1, 2.5]  # type: ignore[call-overload]  # it is what the function takes
