"""Which workspace an interaction comes from, and who acted."""

from __future__ import annotations

from typing import Any

import pytest

from adk_confirm.bot.inbound.payloads import is_ignored, person_of, read_message_event, team_of, without_mention
from adk_confirm.bot.policy.approvers import Person

USER = {"id": "U0ANN", "team_id": "T0HERS"}


@pytest.mark.parametrize(
    ("body", "team"),
    [
        ({"team": {"id": "T0ACME"}, "enterprise": None}, "T0ACME"),
        ({"team": None}, "T0HERS"),
        ({"team": {"id": "T0HERS"}, "view": {"app_installed_team_id": "T0ACME"}}, "T0ACME"),
    ],
)
def test_a_click_or_a_form(body: dict[str, Any], team: str) -> None:
    assert team_of({"user": USER, **body}) == team


@pytest.mark.parametrize(
    ("user", "who"),
    [
        ({"id": "U0ANN", "team_id": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"id": "U0ANN"}, Person("T0ACME", "U0ANN")),
        ({"id": "U0ANN", "team_id": "E0CORP"}, Person("T0ACME", "U0ANN")),
    ],
)
def test_who_clicked_is_of_their_own_workspace(user: dict[str, Any], who: Person) -> None:
    assert person_of({"user": user, "team": {"id": "T0ACME", "enterprise_id": "E0CORP"}}) == who


@pytest.mark.parametrize(
    ("fields", "who"),
    [
        ({}, Person("T0ACME", "U0ANN")),
        ({"team": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "T0HERS", "team": "T0ACME"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "E0CORP", "team": "T0HERS"}, Person("T0HERS", "U0ANN")),
        ({"user_team": "E0CORP", "team": "E0CORP"}, Person("T0ACME", "U0ANN")),
    ],
)
def test_who_spoke_is_who_clicks(fields: dict[str, Any], who: Person) -> None:
    """Slack may tell the organisation with words and the workspace with a click: it is the same person."""
    event = {"user": "U0ANN", "channel": "C1", "ts": "1.1", "text": "<@U0BOT> hi", **fields}
    heard = read_message_event({"team_id": "T0ACME", "event": event}, "oncall", "U0BOT")
    assert heard is not None
    assert heard.heard.person == who


@pytest.mark.parametrize(
    ("fields", "ignored"),
    [
        ({}, False),
        ({"subtype": "file_share"}, False),
        ({"bot_id": "B1"}, True),
        ({"subtype": "message_changed"}, True),
        ({"hidden": True}, True),
        ({"type": "app_mention", "bot_id": "B1"}, False),
        ({"type": "reaction_added", "subtype": "any"}, False),
    ],
)
def test_a_message_that_is_ignored_is_never_read(fields: dict[str, Any], ignored: bool) -> None:
    event = {"type": "message", "user": "U0ANN", "channel": "D1", "ts": "1.1", "text": "hi", **fields}
    assert is_ignored({"team_id": "T0ACME", "event": event}) is ignored
    assert not (ignored and read_message_event({"team_id": "T0ACME", "event": event}, "oncall", "U0BOT"))


@pytest.mark.parametrize("body", [{}, {"event": None}, {"event": "message"}, {"type": "block_actions"}])
def test_what_is_no_message_event_is_not_ignored(body: dict[str, Any]) -> None:
    assert not is_ignored(body)


@pytest.mark.parametrize(
    ("said", "heard"),
    [
        ("see <https://wiki.example/x|the runbook>", "see the runbook (https://wiki.example/x)"),
        ("see <https://wiki.example/x|wiki.example/x>", "see wiki.example/x"),
        ("see <https://wiki.example/x>", "see https://wiki.example/x"),
        ("ask <mailto:a@b.example|a@b.example>", "ask a@b.example"),
        ("<https://evil.example|https://bank.example>", "https://bank.example (https://evil.example)"),
    ],
)
def test_an_agent_reads_where_a_labelled_link_leads(said: str, heard: str) -> None:
    assert without_mention(f"<@U0BOT> {said}", "U0BOT") == heard
