"""The checks of a chaos run find nothing in an honest history, and find each fault in a forged one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from adk_confirm.runtime.jsontypes import Json
from bench.chaos.checks import PROMISES, check
from bench.chaos.history import (
    ClickRecord,
    Effect,
    Entry,
    History,
    Kind,
    Message,
    NewWork,
    RequestedCall,
    SpokenMessage,
    Whisper,
)
from bench.chaos.plan import make_plan
from bench.chaos.report import verdict
from bench.chaos.story import Story

THREAD = ("C0NORTH", "1.000100")
SESSION = "chaos/slack-T0ACME-U0ANN/slack-T0ACME-C0NORTH-1.000100"
ASKING = {"k-pay": ("pay", "t0x0", 5), "k-deploy": ("deploy", "t0x1", 7), "k-ship": ("ship", "t0x2", 9)}
NAMES = {"U0ANN": "ann", "U0BOB": "bob", "U0CYD": "cyd", "U0DAN": "dan"}


def entry(seq: int, kind: str, confirmation: str, who: str = "", **content: Json) -> Entry:
    tool = ASKING[confirmation][0]
    stored: dict[str, Json] = {**content, **({"who": {"team": "T0ACME", "user": who}} if who else {})}
    return Entry(SESSION, seq, f"2026-01-01T12:00:{seq:02}.000000+00:00", kind, confirmation, tool, stored)


def asks(seq: int, confirmation: str) -> Entry:
    _, ticket, amount = ASKING[confirmation]
    return entry(seq, "asked", confirmation, "U0ANN", arguments={"ticket": ticket, "amount": amount, "takes": 0})


def click(who: str, how: str, confirmation: str, amount: int, **more: bool) -> ClickRecord:
    ticket = ASKING[confirmation][1]
    made = ClickRecord(1767268805.0, ticket, confirmation, who, how, amount, acked=True, same=f"{who} {how} {ticket}")
    return replace(made, acked=more.get("acked", True), form=more.get("form", False))


def message(kind: Kind, about: str, text: str, ts: str) -> Message:
    return Message(THREAD, ts, kind, about, text)


def effects(ticket: str, tool: str, amount: int) -> tuple[Effect, Effect]:
    return (
        Effect(1767268810.0, "begins", tool, ticket, amount, "c1"),
        Effect(1767268811.0, "ends", tool, ticket, amount, "c1"),
    )


HONEST = History(
    asked=tuple(RequestedCall(ticket, tool, amount, "ann", THREAD) for tool, ticket, amount in ASKING.values()),
    said=(
        SpokenMessage(1767268800.0, "ann", THREAD, "pay, deploy and ship", heard=True),
        SpokenMessage(1767268801.0, "ann", THREAD, "c0x0", heard=True, answer="You said c0x0."),
    ),
    clicked=(
        click("bob", "Approve", "k-pay", 5),
        click("cyd", "Approve", "k-pay", 5),
        click("bob", "Edit", "k-deploy", 1007, form=True),
        click("cyd", "Approve", "k-deploy", 1007),
        click("dan", "Deny", "k-ship", 9, form=True),
    ),
    effects=(*effects("t0x0", "pay", 5), *effects("t0x1", "deploy", 1007)),
    ledger=(
        *(asks(1, "k-pay"), asks(2, "k-deploy"), asks(3, "k-ship")),
        entry(4, "approval", "k-pay", "U0BOB"),
        entry(5, "approved", "k-pay"),
        entry(6, "vote refused", "k-pay", "U0CYD", way="button"),
        entry(7, "edited", "k-deploy", "U0BOB", before={"amount": 7}, after={"amount": 1007}),
        entry(8, "approval", "k-deploy", "U0CYD"),
        entry(9, "approved", "k-deploy"),
        entry(10, "denied", "k-ship", "U0DAN"),
        entry(11, "done", "k-pay"),
        entry(12, "begun", "k-deploy"),
        entry(13, "done", "k-deploy"),
    ),
    messages=(
        message("card", "k-pay", "✅ Done: Pay\nIt ran.", "2.1"),
        message("card", "k-deploy", "✅ Done: Deploy\nIt ran.", "2.2"),
        message("card", "k-ship", "🚫 Denied: Ship\nDenied by @dan. It did not run.", "2.3"),
        message("lines", SESSION, "🚫 @ann, denied by dan: ship.\nnot t0x2", "2.5"),
        message(
            "lines",
            SESSION,
            "✅ @ann, done: pay. Approved by bob.\n✅ @ann, done: deploy. Approved by bob and cyd. Edited by bob.",
            "2.6",
        ),
        message("said", "e1 0", "You said c0x0.", "2.7"),
        message("pointer", "k-ship", "The card for ship is in #desk", "2.8"),
    ),
    whispers=(Whisper(THREAD, "U0CYD", "You are too late: it is approved already."),),
    names=NAMES,
    tickets={confirmation: ticket for confirmation, (_, ticket, _) in ASKING.items()},
    renewed=(NewWork("n0", 1.0, 0.5),),
)


def plus(**more: object) -> History:
    """The honest history with one more in these."""
    longer: dict[str, Any] = {name: (*getattr(HONEST, name), one) for name, one in more.items()}
    return replace(HONEST, **longer)


def minus(name: str, gone: Callable[[Any], bool]) -> History:
    shorter: dict[str, Any] = {name: tuple(one for one in getattr(HONEST, name) if not gone(one))}
    return replace(HONEST, **shorter)


def without(kind: str, confirmation: str) -> History:
    return minus("ledger", lambda one: (one.kind, one.confirmation) == (kind, confirmation))


def with_effects(*more: Effect) -> History:
    return replace(HONEST, effects=(*HONEST.effects, *more))


def reworded(ts: str, change: Callable[[str], str]) -> History:
    changed = (replace(one, text=change(one.text)) if one.ts == ts else one for one in HONEST.messages)
    return replace(HONEST, messages=tuple(changed))


def without_message(ts: str) -> History:
    return minus("messages", lambda one: one.ts == ts)


def buttons_stay() -> History:
    changed = (replace(one, buttons=("Approve",)) if one.ts == "2.3" else one for one in HONEST.messages)
    return replace(HONEST, messages=tuple(changed))


FORGED: list[tuple[str, str, History]] = [
    ("heard", "an answer is missing", without_message("2.7")),
    ("heard", "an answer stands twice", plus(messages=message("said", "e2 0", "You said c0x0.", "3.1"))),
    ("asked", "a call is put to people twice", plus(ledger=replace(asks(14, "k-pay"), confirmation="k-pay-again"))),
    ("asked", "a call is refused and put to people", plus(ledger=entry(14, "call refused", "k-pay", "U0ANN"))),
    ("asked", "a call is never put to people", without("asked", "k-ship")),
    (
        *("asked_by", "somebody else is said to have asked"),
        replace(HONEST, asked=(replace(HONEST.asked[0], asker="ava"), *HONEST.asked[1:])),
    ),
    ("counted", "an acknowledged click is nowhere", plus(clicked=click("dan", "Approve", "k-pay", 5))),
    ("counted", "a vote that nobody gave", plus(ledger=entry(14, "vote refused", "k-pay", "U0DAN", way="form"))),
    ("counted", "a vote counts twice", plus(ledger=entry(14, "approval", "k-pay", "U0BOB"))),
    ("answered", "who was refused was not told", replace(HONEST, whispers=())),
    ("decided_once", "two decisions", plus(ledger=entry(14, "denied", "k-pay", "U0BOB"))),
    ("decided_once", "no decision", without("denied", "k-ship")),
    ("ran_once", "approved, and never ran", replace(HONEST, effects=effects("t0x1", "deploy", 1007))),
    ("ran_once", "ran twice", with_effects(*effects("t0x0", "pay", 5))),
    ("ran_once", "denied, and ran", with_effects(*effects("t0x2", "ship", 9))),
    ("ran_once", "ran, and nobody was asked", with_effects(*effects("t9x9", "pay", 9))),
    ("ran_once", "began, and nobody says that it is unknown", replace(HONEST, effects=HONEST.effects[:1])),
    ("ran_once", "people had it run again, and it did not", plus(ledger=entry(14, "run again", "k-pay"))),
    ("ran_as_approved", "ran as it was before the edit", with_effects(*effects("t0x1", "deploy", 7))),
    ("ran_as_approved", "one of two approvals was for something else", minus("clicked", lambda one: one.who == "cyd")),
    ("one_card_a_place", "two cards", plus(messages=replace(HONEST.messages[0], ts="3.1"))),
    ("one_card_a_place", "no card", without_message("2.1")),
    ("cards_show_the_end", "an old face", reworded("2.1", lambda text: text.replace("Done", "Running"))),
    ("cards_show_the_end", "buttons stay", buttons_stay()),
    ("threads_tell_it_once", "a line stands twice", plus(messages=replace(HONEST.messages[3], ts="3.1"))),
    ("threads_tell_it_once", "a line is missing", reworded("2.5", lambda text: text.replace("🚫 ", ""))),
    ("threads_tell_it_once", "a line names another", reworded("2.5", lambda text: text.replace("by dan", "by bob"))),
    ("threads_tell_it_once", "lines in another order", replace(HONEST, messages=HONEST.messages[:3] + tuple(
        replace(one, ts={"2.5": "2.6", "2.6": "2.5"}.get(one.ts, one.ts)) for one in HONEST.messages[3:]))),
    ("words_stand_once", "a pointer stands twice", plus(messages=replace(HONEST.messages[-1], ts="3.1"))),
    ("words_stand_once", "something is left over", plus(messages=message("other", "", "…", "3.1"))),
    ("ledger_verifies", "it does not", replace(HONEST, verified=(1, "broken: line 3"))),
    ("ledger_tells_the_log", "done, and it never ended", replace(HONEST, effects=HONEST.effects[:1])),
    ("ledger_tells_the_log", "it ended, and the ledger is silent", without("done", "k-pay")),
    ("ledger_tells_the_log", "failed, and no tool does", plus(ledger=entry(14, "failed", "k-pay"))),
    ("nothing_is_owed", "a row is parked", replace(HONEST, owed=("bot_sessions x is parked",))),
    ("replicas_go_on", "one ended", replace(HONEST, gave_up=("replica 1 ended with 1: the worker has failed",))),
    ("new_work_is_done", "no card", replace(HONEST, renewed=(NewWork("n0", None, None),))),
    ("new_work_is_done", "a slow card", replace(HONEST, renewed=(NewWork("n0", 40.0, 1.0),))),
    ("new_work_is_done", "it never ran", replace(HONEST, renewed=(NewWork("n0", 1.0, None),))),
]  # fmt: skip


def test_an_honest_history_holds() -> None:
    assert check(HONEST) == []


@pytest.mark.parametrize(("lines", "holds"), [(2, False), (3, True)])
def test_whoever_was_refused_three_times_has_no_more_lines(*, lines: int, holds: bool) -> None:
    pressed = (replace(click("dan", "Deny", "k-pay", 5, form=True), same=f"form {number}") for number in range(4))
    refused = (entry(14 + number, "vote refused", "k-pay", "U0DAN", way="form") for number in range(lines))
    history = replace(HONEST, clicked=(*HONEST.clicked, *pressed), ledger=(*HONEST.ledger, *refused))
    assert (not list(PROMISES["counted"](Story(history)))) is holds


@pytest.mark.parametrize(("promise", "history"), [(one[0], one[2]) for one in FORGED], ids=[one[1] for one in FORGED])
def test_a_forged_history_does_not(promise: str, history: History) -> None:
    assert list(PROMISES[promise](Story(history)))


def test_every_promise_can_be_broken() -> None:
    assert {promise for promise, _, _ in FORGED} == set(PROMISES)


# What is printed


def test_the_verdict_says_how_to_run_the_same_plan_again_and_tells_the_story() -> None:
    history = with_effects(*effects("t0x2", "ship", 9))
    plan = make_plan(7, 120, lease=6.0)

    report = "\n".join(verdict(plan, history, check(history)))

    assert "BROKEN: nothing runs that was not approved: t0x2" in report
    assert "dan: Deny t0x2 at amount 9" in report
    assert ">> ship begins: t0x2, amount 9" in report
    assert "--seconds 120 --seed 7" in report
