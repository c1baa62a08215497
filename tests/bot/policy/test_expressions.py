"""`when` expressions: faulty ones are errors at the start, and those that fail later refuse the call."""

from __future__ import annotations

import pytest

from adk_confirm.bot.policy.policies import CallFacts, CallRefusal, CallRefusalReason, Policies, Policy
from adk_confirm.bot.policy.when import ExpressionFailed, check_expression, holds, limits_of
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject

DEEP: JsonObject = {"n": 1}
for _ in range(900):
    DEEP = {"n": DEEP}


HOSTILE_DEPTH: JsonObject = {"n": 1}
for _ in range(100_000):
    HOSTILE_DEPTH = {"n": HOSTILE_DEPTH}


def ask(expression: str, **args: object) -> bool:
    return holds(expression, CallFacts(tool="deploy", args=args, asker="U1").names())  # type: ignore[arg-type]  # JSON


@pytest.mark.parametrize(
    "expression",
    [
        "args.env == 'prod'",
        "args.amount > 1000 || has(args.urgent)",
        "args.items.exists(item, item.price > 10 && item.tags.all(tag, tag != 'x'))",
        "tool.startsWith('deploy') && !(asker in ['U1', 'U2'])",
        "args.note == '.exists(nothing, ' || double(args.n) > 2.5",
        "type(args.n) == int && args.name.matches('(?i)^prod$')",
        "true",
    ],
)
def test_sound_expressions_pass(expression: str) -> None:
    check_expression(expression)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("args.env = 'prod'", "use == to compare, as in args.env == 'prod'"),
        ("args.env == prod", "Write args.prod for the call's argument, or 'prod' for the text"),
        ("args.n +", "line 1, column "),
        ("args.", "line 1, column 6"),
        ("", "is not a CEL expression"),
        ("agrs.env == 'prod'", "there is no `agrs`; an expression can use tool, args, session, asker"),
        ("args.items.exists(item, itme > 1)", "there is no `itme`"),
        ("args.note == '.exists(zz, ' && zz", "there is no `zz`"),
        ("lowerAscii(args.env) == 'prod'", "there is no function `lowerAscii`"),
        ("args.env.upper() == 'PROD'", "there is no function `upper`"),
        ("tool", "must give true or false for a call; `tool` gives a text"),
        ("'prod'", "must give true or false"),
        ("1 + 1", "must give true or false"),
    ],
)
def test_wrong_ones_say_where_and_what(expression: str, said: str) -> None:
    with pytest.raises(Invalid) as wrong:
        check_expression(expression)
    assert said in str(wrong.value)


def test_yes_and_no() -> None:
    assert ask("args.env == 'prod'", env="prod")
    assert not ask("args.env == 'prod'", env="stage")
    assert ask("args.amount >= 1000", amount=1000.5)
    assert ask("args.amount > 1000.5", amount=1001)
    assert not ask("args.env == 'prod'", env=["prod"])


@pytest.mark.parametrize(
    ("expression", "args", "said"),
    [
        ("args.env == 'prod'", {}, "the call has no 'env'"),
        ("args.amount > 1000", {"amount": "1500"}, "No such overload"),
        ("args.env", {"env": "prod"}, "it gave a text, neither true nor false"),
        ("args.n / 0 == 1", {"n": 1}, "division by zero"),
        ("args.n + 1 > 0", {"n": 2**63 - 1}, "overflow"),
        ("args.l[5] == 1", {"l": []}, "out of bounds"),
        ("args.name.matches(args.pattern)", {"name": "x", "pattern": "("}, "regex"),
        ("args.text == 'x'", {"text": "\ud800"}, "Failed to convert"),
    ],
)
def test_what_cannot_be_said_is_a_failure_with_a_reason(expression: str, args: dict[str, object], said: str) -> None:
    with pytest.raises(ExpressionFailed) as failed:
        ask(expression, **args)
    assert said in str(failed.value)


NESTED = "args.l.all(a, args.l.all(b, args.l.all(c, args.l.all(d, a + b + c + d >= 0))))"


@pytest.mark.parametrize(
    ("expression", "args"),
    [
        (NESTED, {"l": list(range(300))}),
        ("args.l.exists(a, args.l.filter(b, b in args.l).size() < 0)", {"l": list(range(1000))}),
        ("args.l.map(a, args.s + args.s).size() > 0", {"l": list(range(1000)), "s": "x" * 100_000}),
        ("args.s.matches(args.pattern)", {"s": "x", "pattern": r"(\w{300}){300}"}),
        ("has(args.n.n)", HOSTILE_DEPTH),
    ],
)
def test_what_takes_too_long_fails_and_the_next_is_asked(expression: str, args: dict[str, object]) -> None:
    """They took seconds to hours, all memory, or the whole process with its stack."""
    with pytest.raises(ExpressionFailed, match=r"it takes more than 0.1 s or 10 MB to check|regex"):
        ask(expression, **args)
    assert ask("args.env == 'prod'", env="prod")


def test_a_call_that_a_condition_takes_too_long_for_is_refused() -> None:
    policies = Policies.of(Policy(tools=("*",), when=NESTED), Policy(tools=("*",), approvers=("user:U0LEAD",)))
    found = policies.resolve(CallFacts(tool="deploy", args={"l": list(range(300))}))
    assert isinstance(found, CallRefusal)
    assert (found.why, found.index) == (CallRefusalReason.WHEN_FAILED, 0)
    assert "more than 0.1 s" in str(found.detail)


def test_what_a_later_policy_hides_is_hidden_where_an_earlier_condition_failed_over_it() -> None:
    """The error quotes the argument, and the thread shows the error."""
    hiding = Policy(tools=("*",), approvers=("user:U0LEAD",), redact=("pin",))
    policies = Policies.of(Policy(tools=("*",), when="args.names[args.pin] == 'ann'"), hiding)
    found = policies.resolve(CallFacts(tool="unlock", args={"pin": "hunter2-hunter2", "names": {}}))
    assert isinstance(found, CallRefusal)
    assert found.detail == "the call has no '••••'"


def test_large_arguments_of_an_honest_call_are_looked_at() -> None:
    rows = [{"price": number, "tags": ["a", "b"]} for number in range(1000)]
    assert ask("args.rows.exists(r, r.price > 998 && r.tags.all(t, t != 'x'))", rows=rows)
    assert ask("args.text.contains('end')", text="x" * 1_000_000 + "end")


def test_deep_arguments_are_no_trouble() -> None:
    assert ask("has(args.n.n.n)", **DEEP)


@pytest.mark.parametrize(
    ("expression", "limits"),
    [
        ("true", ()),
        ("tool == 'args.amount <= 5'", ()),
        ("args.amount <= 2000", (("<=", 2000),)),
        ("args.amount>=5 && args.env == 'prod' && args.amount < 10.5", ((">=", 5), ("<", 10.5))),
        ("(args.env == 'a' || args.env == 'b') && args.amount <= 5", (("<=", 5),)),
        ("args.amount <= 5 || args.env == 'prod'", None),
        ("!(tool == 'pay' && args.amount <= 5 && args.env == 'prod')", None),
        ("tool == 'pay' ? args.env == 'prod' : true && args.amount <= 5", None),
        ("args.amount <= 5 && args.amount != 3", None),
        ("args.amount == 5", None),
        ("args.amount.euros <= 5", None),
        ("args['amount'] <= 5", None),
        ("args.env == 'prod' // && args.amount <= 5", None),
        ("args.all(name, args[name] != 'all')", None),
    ],
)
def test_what_an_expression_leaves_of_an_argument(
    expression: str, limits: tuple[tuple[str, float], ...] | None
) -> None:
    check_expression(expression)
    assert limits_of(expression, "amount") == limits
