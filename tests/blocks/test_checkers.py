"""The tests' own checkers: each refuses what Slack would refuse, or text that would become active."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from blocks.kit import JsonObject
from tests.blocks import inert, samples


def message(*blocks: JsonValue, text: str = "text") -> JsonObject:
    return {"text": text, "blocks": list(blocks)}


def rich(*elements: JsonValue) -> JsonValue:
    return {"type": "rich_text", "block_id": "b", "elements": [{"type": "rich_text_section", "elements": [*elements]}]}


def context(text: str) -> JsonValue:
    return {"type": "context", "block_id": "b", "elements": [{"type": "mrkdwn", "text": text}]}


FINE = rich({"type": "text", "text": "fine"})


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
