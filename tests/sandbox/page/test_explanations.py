"""The panel's sentences are true for what they explain."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from adk_confirm.bot.audit.ledger import Head, LineKind, append
from adk_confirm.demo.explanations import explain_line
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.page import explanations
from adk_confirm.sandbox.page.explanations import Names
from adk_confirm.sandbox.server.delivery import Delivery, Kind
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.stores import KEYS


@pytest.fixture
def names() -> Names:
    slack = FakeSlack(our_app())
    people = [slack.person(name, id=f"U0{name.upper()}") for name in ("ana", "ben", "chris")]
    slack.channel("deploys", *people, id="C0DEPLOYS")
    slack.group("oncall", *people[1:], id="S0ONCALL")
    return Names(slack.workspace.directory)


BEN: JsonObject = {"team": "T0ACME", "user": "U0BEN"}
OLGA: JsonObject = {"team": "", "user": "operator olga"}


@pytest.mark.parametrize(
    ("kind", "content", "sentence"),
    [
        (LineKind.APPROVAL, {"who": BEN, "votes": 1, "quorum": 2}, "👍 @ben approved deploy: 1 of 2 approvals."),
        (LineKind.ESCALATED, {"entries": ["group:S0ONCALL", "user:U0ANA"]}, "escalated to @oncall or @ana, who may"),
        (LineKind.PAUSED, {"who": OLGA, "text": "release freeze"}, "`operator olga` paused runs."),
        (LineKind.HEARD, {}, "The agent received a message."),
    ],
)
def test_a_ledger_line_reads_as_in_the_audit_with_names(
    names: Names, kind: LineKind, content: JsonObject, sentence: str
) -> None:
    line = append(Head(), "s", kind, content, KEYS, at=datetime.now(UTC), salt="x", tool="deploy")
    assert sentence in explain_line(line, names)


def test_every_kind_of_ledger_line_has_a_sentence_of_its_own(names: Names) -> None:
    line = append(Head(), "s", LineKind.ASKED, {"who": OLGA}, KEYS, at=datetime.now(UTC), salt="x", tool="deploy")
    assert len({explain_line(replace(line, kind=kind), names) for kind in LineKind}) == len(LineKind)


@pytest.mark.parametrize(
    ("kind", "what", "body", "answer", "sentence"),
    [
        (
            "interactive",
            "block_actions",
            {"user": {"id": "U0BEN"}, "actions": [{"type": "button", "text": {"text": "Edit…"}}]},
            "",
            "ben pressed “Edit…” on a message.",
        ),
        (
            "interactive",
            "view_submission",
            {
                "user": {"id": "U0BEN"},
                "view": {
                    "title": {"text": "Edit"},
                    "blocks": [
                        {"block_id": "field.c1.2.8d", "label": {"text": "amount"}},
                        {"block_id": "field.c1.2.9e", "label": {"text": "note"}},
                    ],
                },
            },
            '{"response_action": "errors", "errors": {"field.c1.2.8d": "Write a number"}}',
            "ben submitted the form “Edit”. The app refused it: something is wrong with “amount”.",
        ),
        (
            "events_api",
            "message",
            {"event": {"user": "U0ANA", "channel": "C0DEPLOYS", "thread_ts": "1.2"}},
            "",
            "ana wrote in a thread in #deploys.",
        ),
        (
            "events_api",
            "message",
            {"event": {"bot_id": "B1", "channel": "C0DEPLOYS"}},
            "",
            "the app's own message in #deploys. Apps ignore those.",
        ),
        (
            "slash_commands",
            "/approvals",
            {"user_id": "U0ANA", "channel_id": "C0DEPLOYS", "text": ""},
            "",
            "ana ran /approvals in #deploys. Only ana sees the answer.",
        ),
    ],
)
def test_a_delivery_is_explained_by_who_did_what(
    names: Names, kind: Kind, what: str, body: JsonObject, answer: str, sentence: str
) -> None:
    made = Delivery(kind, what, body, 1.0, status=200, answer=answer)
    assert sentence in explanations.delivery(made, names)


def test_a_delivery_that_failed_says_what_follows(names: Names) -> None:
    event = Delivery("events_api", "app_mention", {"event": {"user": "U0ANA"}}, 1.0, reason="connection_failed")
    assert "could not deliver it (connection failed). It will try again." in explanations.delivery(event, names)
    click = Delivery("interactive", "block_actions", {}, 1.0, reason="http_timeout")
    assert "The person sees a warning." in explanations.delivery(click, names)
