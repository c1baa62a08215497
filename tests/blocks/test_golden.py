"""Every face, drawn in text as a person reads it, kept in `golden/`. A difference is either a mistake or a decision:
look at it, then run `make golden`, read the diff and commit it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from adk_confirm.blocks import words
from adk_confirm.blocks.card import card, note, pointer
from adk_confirm.blocks.form import Form, approve_form, deny_form, withdraw_form
from adk_confirm.blocks.full_view import everything as everything_view
from adk_confirm.blocks.home import approvals, help_message, home_tab
from adk_confirm.blocks.kit import JsonObject
from adk_confirm.blocks.notices import (
    agent_failure_message,
    hint_message,
    notice_modal,
    spoke_message,
    verdict_message,
    verdict_modal,
)
from adk_confirm.blocks.shown import OutcomeKind
from adk_confirm.blocks.thread import history, thread_messages
from adk_confirm.runtime.jsontypes import as_object, as_text
from tests.blocks import inert, limits, samples, strategies
from tests.blocks.drawing import draw

GOLDEN = Path(__file__).parent / "golden"
GONE = "This call is decided. The card shows the result."
OURS = {samples.DANA, samples.LEAD, samples.OPS, samples.BOT, "S0ONCALL", "S0LEADS", "C0DEPLOYS", *strategies.LINKS}
OURS |= {view.card_link for view in (*samples.HOME.waiting, *samples.HOME.decided) if view.card_link}
OURS |= {samples.REIMBURSE.session_link or "", *(grant.thread or "" for grant in samples.HOME.grants)}


SENT: dict[str, JsonObject] = {
    **{f"card_{name}": card(view).payload() for name, view in samples.CARDS.items()},
    "modal_everything": everything_view(samples.LONG),
    "modal_everything_done": everything_view(samples.DONE),
    "modal_everything_hostile": everything_view(samples.HOSTILE),
    "modal_run_again": everything_view(samples.UNKNOWN, again=True),
    "modal_edit": Form(samples.EDITABLE, samples.SCHEMA).edit_view(),
    "modal_edit_without_schema": Form(samples.LONG_EDITABLE, None).edit_view(),
    "modal_approve_payload": approve_form(samples.TIME_OFF, Form(samples.TIME_OFF, None)),
    "modal_approve_cut": approve_form(samples.LONG),
    "modal_approve_note": approve_form(samples.CARDS["waiting_note"]),
    "modal_approve_and_allow": approve_form(samples.OFFERED, grant=True),
    "modal_answer": approve_form(samples.QUESTION, Form(samples.QUESTION, samples.QUESTION_SCHEMA)),
    "modal_edit_typed": Form(samples.TYPED, samples.TYPED_SCHEMA).edit_view(),
    "modal_withdraw": withdraw_form(samples.WAITING),
    "modal_deny": deny_form(samples.WAITING, required=True),
    "modal_history": history(replace(samples.HISTORY, stage=OutcomeKind.DONE), samples.STEPS),
    "modal_history_others": history(samples.HISTORY, samples.OTHER_STEPS),
    "modal_history_empty": history(samples.HISTORY, ()),
    "modal_verdict": verdict_modal(*samples.VERDICTS["decided"]),
    "modal_verdict_not_yours": verdict_modal(*samples.VERDICTS["not_yours"], samples.DANA),
    "modal_verdict_late": verdict_modal(*samples.VERDICTS["late"]),
    "modal_notice": notice_modal(GONE),
    "modal_edit_voted": Form(replace(samples.EDITABLE, voted=samples.ONE_VOTE.voted), samples.SCHEMA).edit_view(),
    "home": home_tab(samples.HOME),
    "home_empty": home_tab(samples.EMPTY),
    "home_unknown": home_tab(samples.HOME_UNKNOWN),
    "message_approvals_unknown": approvals(samples.LISTED_UNKNOWN).payload(),
    "home_private_grant": home_tab(replace(samples.EMPTY, grants=(samples.GRANT,))),
    "message_approvals": approvals(samples.LISTED).payload(),
    "message_approvals_empty": approvals(samples.EMPTY).payload(),
    "message_hint": hint_message(samples.BOT).payload(),
    "message_hint_vote": hint_message(samples.BOT, [samples.HOME.waiting[0]]).payload(),
    "message_spoke": spoke_message([samples.WAITING]).payload(),
    "message_help": help_message("help").payload(),
    "message_help_unknown": help_message("history").payload(),
    "message_thread": thread_messages("slack-T0ACME-C0TALK-1.2", samples.THREAD_LINES)[0].payload(),
    "message_story": thread_messages("slack-T0ACME-C0TALK-1.2", samples.THREAD)[0].payload(),
    "message_pointer": pointer(samples.LINKED, channel="C0DEPLOYS").payload(),
    "message_pointer_people": pointer(samples.CARDS["waiting"], channel=None, people=[samples.LEAD]).payload(),
    "message_pointer_decided": pointer(
        replace(samples.DONE, card_link=samples.LINKED.card_link), channel="C0DEPLOYS"
    ).payload(),
    "message_pointer_trouble": pointer(
        samples.CARDS["waiting"],
        channel="C0DEPLOYS",
        trouble="The app is not in this channel. Invite it there with /invite.",
    ).payload(),
    "message_note": note(replace(samples.PLANNED, card_link=samples.HOME.waiting[0].card_link)).payload(),
    "message_agent_failed": agent_failure_message("m1", "429 RESOURCE_EXHAUSTED").payload(),
    **{f"message_verdict_{name}": verdict_message(*given).payload() for name, given in samples.VERDICTS.items()},
}


def surface(name: str) -> str:
    kind = name.split("_")[0]
    return {"card": "message"}.get(kind, kind)


@pytest.mark.parametrize("name", SENT)
def test_payload(name: str) -> None:
    payload = SENT[name]
    limits.check(payload, surface(name))
    inert.check(payload, OURS)
    compare(GOLDEN / f"{name}.txt", draw(payload))


def test_a_button_that_opens_a_question_ends_with_an_ellipsis() -> None:
    asks = [one for payload in SENT.values() for one in limits.elements(payload) if "confirm" in one]
    labels = {as_text(as_object(one["text"])["text"]) for one in asks}
    assert {label for label in labels if not label.endswith("…")} == {
        words.APPROVE,
        words.HAPPENED,
        words.NOT_HAPPENED,
    }, "votes"


def test_nothing_is_kept_that_nothing_draws() -> None:
    drawn = {*(f"{name}.txt" for name in SENT)}
    for path in GOLDEN.iterdir():
        if path.name not in drawn and os.environ.get("UPDATE_GOLDEN"):
            path.unlink()
    assert {path.name for path in GOLDEN.iterdir()} == drawn


def compare(path: Path, text: str) -> None:
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is new: `make golden` writes it; look at it"
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs: `make golden` if it is meant to"
