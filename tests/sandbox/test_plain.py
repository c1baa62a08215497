"""What a person reads of an app's messages."""

from __future__ import annotations

from typing import Any

import pytest

from bot.sandbox.people.people import Person
from bot.sandbox.people.plain import Reader
from bot.sandbox.server.server import FakeSlack

Body = dict[str, Any]


def plain(text: str) -> Body:
    return {"type": "plain_text", "text": text}


def mrkdwn(text: str) -> Body:
    return {"type": "mrkdwn", "text": text}


def test_mrkdwn_as_it_is_read(slack: FakeSlack, ann: Person) -> None:
    slack.group("oncall", ann, id="S0ONCALL")
    slack.channel("deploys", ann, id="C0DEPLOYS")
    reader = Reader(slack.workspace.directory, ann.user)
    read = {
        f"<@{ann.id}> &lt;b&gt;": "@ann <b>",
        "<!channel> <!subteam^S0ONCALL>": "@channel @oncall",
        "<#C0DEPLOYS>": "#deploys",
        "<https://example.com|here>": "here (https://example.com)",
        "<https://example.com>": "https://example.com",
        "<!date^1735689600^{date_num} {time}|then>": "2025-01-01 01:00",
        "&amp;lt;": "&lt;",
    }
    assert {text: reader.mrkdwn(text) for text in read} == read


@pytest.mark.parametrize(
    ("block", "text"),
    [
        ({"type": "header", "text": plain("Deploy?")}, "Deploy?"),
        ({"type": "section", "text": mrkdwn("a"), "fields": [mrkdwn("b"), plain("<c>")]}, "a\nb\n<c>"),
        ({"type": "context", "elements": [mrkdwn("a"), plain("b")]}, "a · b"),
        ({"type": "markdown", "text": "**a**"}, "**a**"),
        (
            {"type": "rich_text", "elements": [{"type": "rich_text_list", "style": "bullet", "elements": [
                {"type": "rich_text_section", "elements": [{"type": "text", "text": "a"}]},
                {"type": "rich_text_section", "elements": [{"type": "link", "url": "x", "text": "b"}]},
                {"type": "rich_text_section", "elements": [{"type": "broadcast", "range": "here"}]},
            ]}]},
            "a\nb\n@here",
        ),
    ],
)  # fmt: skip
def test_blocks_as_they_are_read(slack: FakeSlack, ann: Person, block: Body, text: str) -> None:
    assert Reader(slack.workspace.directory, ann.user).blocks([block]) == text
