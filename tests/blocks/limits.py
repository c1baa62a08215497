"""Slack's limits, as the sandbox checks them, and what the package holds itself to beyond them: every payload has to
pass, whatever went into it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

from pydantic import JsonValue

from adk_confirm.sandbox.blockkit.blocks import Surface
from adk_confirm.sandbox.blockkit.elements import element_label, interactive
from adk_confirm.sandbox.blockkit.limits import check_blocks, check_metadata, check_view
from adk_confirm.sandbox.reading import JsonObject, objects

Payload = Mapping[str, JsonValue]

BLOCKS = {"header", "rich_text", "section", "context", "actions", "divider"}
RICH_BYTES, MESSAGE_BYTES, VIEW_BYTES = 24_000, 30_000, 250_000
CONTEXT = 2000
ENTITY = re.compile("<[^<>]*>")
TWO_UNITS = re.compile("[\U00010000-\U0010ffff]")
ACTING = {
    "datepicker",
    "datetimepicker",
    "multi_static_select",
    "button",
    "static_select",
    "radio_buttons",
    "checkboxes",
    "overflow",
    "plain_text_input",
    "number_input",
}


def check(payload: Payload, surface: str) -> None:
    """Raises at the first thing that Slack would refuse."""
    blocks = objects(payload.get("blocks"))
    assert blocks
    for text in strings(payload):
        text.encode()  # a lone surrogate can't be sent
        assert "\x00" not in text
    counted = json.loads(TWO_UNITS.sub("xx", json.dumps(payload, ensure_ascii=False)))  # in units, as JavaScript does
    if surface == "message":
        check_blocks(counted["blocks"])
        check_metadata(counted.get("metadata", {"event_type": "x", "event_payload": {}}))
        assert 1 <= len(counted["text"]) <= 4000, f"a text of {len(counted['text'])}"
        assert sum(_bytes(block) for block in blocks if block["type"] == "rich_text") <= RICH_BYTES
        assert sum(map(_bytes, blocks)) <= MESSAGE_BYTES
        assert set(payload) <= {"text", "blocks", "metadata"}
    else:
        check_view(counted, cast("Surface", surface))
        assert payload["callback_id"]
        assert _bytes(payload) <= VIEW_BYTES
    for block in blocks:
        assert block["type"] in BLOCKS | ({"input"} if surface == "modal" else set()), block["type"]
        assert block["block_id"]
    for element in elements(payload):
        assert element["type"] in ACTING, element["type"]
        assert element["action_id"]
    marked = [str(part["text"]) for part in parts(payload) if part.get("type") == "mrkdwn"]
    for text in (*marked, str(payload.get("text", ""))):
        check_markup(text)
    for block in blocks:
        assert [one.get("style") for one in interactive(block)].count("primary") <= 1, "two buttons stand out"
        assert block["type"] != "context" or max(map(len, strings(block))) <= CONTEXT
    for part in parts(counted["blocks"]):
        assert part.get("elements", "some"), f"an empty {part['type']}"
        assert part.get("type") != "plain_text" or part["emoji"] is False
        assert part.get("type") != "button" or len(element_label(part)) <= 30, "a button's text would be cut"


def check_markup(text: str) -> None:
    """What Slack takes, and a reader would see as a mistake: a broken entity, code that does not end, markup of
    another kind, a sign that begins markup. Nobody is pinged but people and groups that we name."""
    assert not re.search(r"<!(?:channel|here|everyone)", text), text
    for entity in ENTITY.findall(text):
        assert re.fullmatch(r"<(?:@|!subteam\^|!date\^|#|https://)[^<>]*>", entity), entity
    bare = ENTITY.sub("", text)
    assert not re.search("[<>]|&(?!(?:amp|lt|gt);)", bare), bare
    assert text.count("`") % 2 == 0, text
    assert "```" not in text, text
    outside = re.sub("`[^`]*`", "", bare)
    assert not re.search(r"\*\*[^*]+\*\*|\[[^\]]+\]\(https?:", outside), outside


def everything(value: JsonValue | Payload) -> Iterator[JsonValue | Payload]:
    """The value, and all that is in it; names of fields too."""
    yield value
    if isinstance(value, Mapping):
        yield from value
    for inner in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        yield from everything(inner)


def strings(value: JsonValue | Payload) -> Iterator[str]:
    return (each for each in everything(value) if isinstance(each, str))


def parts(value: JsonValue | Payload) -> Iterator[JsonObject]:
    return (each for each in everything(value) if isinstance(each, dict))


def elements(payload: Payload) -> list[JsonObject]:
    """Everything interactive."""
    return [each for block in objects(payload.get("blocks")) for each in interactive(block)]


def _bytes(value: JsonValue | Payload) -> int:
    return len(json.dumps(value))
