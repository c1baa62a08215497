"""The tests' own checkers: each refuses what Slack would refuse, or text that would become active."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from blocks.card import card
from blocks.form import edit_form
from blocks.kit import JsonObject
from bot.sandbox.refusals import ApiRefusal
from tests.blocks import inert, limits, samples


def message(*blocks: JsonValue, text: str = "text") -> JsonObject:
    return {"text": text, "blocks": list(blocks)}


def rich(*elements: JsonValue) -> JsonValue:
    return {"type": "rich_text", "block_id": "b", "elements": [{"type": "rich_text_section", "elements": [*elements]}]}


def context(text: str) -> JsonValue:
    return {"type": "context", "block_id": "b", "elements": [{"type": "mrkdwn", "text": text}]}


FINE = rich({"type": "text", "text": "fine"})


def button(text: str, block_id: str = "b") -> JsonValue:
    said: JsonValue = {"type": "plain_text", "text": text, "emoji": False}
    return {
        "type": "actions",
        "block_id": block_id,
        "elements": [{"type": "button", "action_id": "a", "text": said}],
    }


@pytest.mark.parametrize(
    "payload",
    [
        message(),
        message(*[FINE] * 2),
        message(FINE, text=""),
        message(FINE, text="👍" * 2001),
        message(FINE, text="\ud800"),
        message(rich({"type": "text", "text": ""})),
        message(rich()),
        message({"type": "section", "block_id": "b", "text": {"type": "mrkdwn", "text": "x"}}),
        message({"type": "header", "block_id": "b", "text": {"type": "plain_text", "text": "x", "emoji": True}}),
        message(button("x" * 31)),
        message(button("Approve", block_id="")),
        message(rich({"type": "text", "text": "x" * 25_000})),
    ],
    ids=range(12),
)
def test_a_message_over_a_limit_is_refused(payload: JsonObject) -> None:
    with pytest.raises((AssertionError, KeyError, UnicodeEncodeError, ApiRefusal)):
        limits.check(payload, "message")


def test_a_view_over_a_limit_is_refused() -> None:
    good = edit_form(samples.EDITABLE, samples.SCHEMA)
    limits.check(good, "modal")
    with pytest.raises(ApiRefusal):
        limits.check({key: value for key, value in good.items() if key != "submit"}, "modal")


@pytest.mark.parametrize(
    "payload",
    [
        message(rich({"type": "user", "user_id": "U0EVIL"})),
        message(rich({"type": "broadcast", "range": "channel"})),
        message(rich({"type": "emoji", "name": "tada"})),
        message(rich({"type": "link", "url": "https://evil.example"})),
        message(rich({"type": "text", "text": "a\u202eb"})),
        message(rich({"type": "text", "text": "a\u200bb"})),
        message(context("<!channel>")),
        message(context("<@U0EVIL>")),
        message(context(":tada:")),
        message(context("*bold*")),
        message(context("https://evil.example")),
        message(context("a & b")),
        message(context("a < b")),
        message(context("`open")),
        message(context("`<b>`")),
        message(FINE, text="<!here>"),
        message(FINE, text="look at _this_"),
        message({"type": "header", "block_id": "b", "text": {"type": "plain_text", "text": "<!here>", "emoji": False}}),
        message({"type": "header", "block_id": "b", "text": {"type": "plain_text", "text": ":tada:", "emoji": False}}),
    ],
    ids=range(19),
)
def test_what_would_come_alive_is_found(payload: JsonObject) -> None:
    with pytest.raises(AssertionError):
        inert.check(payload, {samples.LEAD})


def test_what_is_ours_may_live() -> None:
    inert.check(message(rich({"type": "user", "user_id": samples.LEAD}), text=f"<@{samples.LEAD}>"), {samples.LEAD})
    inert.check(card(samples.WAITING).payload(), {samples.LEAD, samples.DANA, "S0ONCALL"})
